//! Ranks tools by how well they match a few words, with BM25 over name, description and parameters.
//!
//! A pure function: the same tools in the same order and the same words always give the same ranking.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use neuraxis_core::ToolSpec;
use serde_json::Value;

use super::words::{related, words};

/// The weight of a word by its location. The name weighs most, because it says what a tool does.
const OF_NAME: f64 = 3.0;
const OF_DESCRIPTION: f64 = 1.0;
const OF_PARAMETER: f64 = 0.5;

/// The weight of a word with a similar meaning only.
const OF_RELATED: f64 = 0.35;

/// The usual constants of BM25: how quickly repetitions of a word stop counting, and how much long texts are penalized.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;

/// The maximum number of bytes of a description that are ranked: a server may send a description of any length.
const MOST_BYTES: usize = 4 * 1024;

/// Returns the tools that match a query at all, the best first. Tools that match equally well keep their order.
///
/// Words are compared without regard to case, English endings and stop words, and some words with similar meanings
/// match each other. A query in another language finds tools that share words with it, such as names. In scripts
/// without spaces between words, each pair of adjacent characters is treated as a word.
///
/// ```
/// use neuraxis_core::ToolSpec;
/// use neuraxis_engine::rank_tools;
///
/// let tool = |name: &str, does: &str| Ok::<_, neuraxis_core::InvalidId>(ToolSpec::new(name.parse()?, does));
/// let tools = [
///     tool("chat__post_message", "Sends a message to a channel.")?,
///     tool("files__delete_file", "Deletes a file.")?,
///     tool("files__list_folder", "Lists what is in a folder.")?,
/// ];
/// let found = rank_tools(&tools, "remove old documents");
/// assert_eq!(found[0].name.as_str(), "files__delete_file");
/// # Ok::<(), neuraxis_core::InvalidId>(())
/// ```
pub fn rank_tools<'a, T: Borrow<ToolSpec>>(tools: &'a [T], query: &str) -> Vec<&'a ToolSpec> {
    let weights = query_weights(query);
    let weighed: Vec<Weighed> = tools.iter().map(|tool| weighed(tool.borrow())).collect();
    let mut found_in = BTreeMap::<&str, f64>::new();
    for tool in &weighed {
        for word in weights.keys().filter(|word| tool.words.contains_key(*word)) {
            *found_in.entry(word).or_default() += 1.0;
        }
    }
    let count = tools.iter().fold(0.0, |count, _| count + 1.0);
    let total: f64 = weighed.iter().map(|tool| tool.length).sum();
    let usual_length = if total > 0.0 { total / count } else { 1.0 };
    let score = |tool: &Weighed| -> f64 {
        let found = weights.iter().filter_map(|(word, matters)| {
            let times = tool.words.get(word)?;
            let tools = found_in.get(word.as_str())?;
            let rarity = (1.0 + (count - tools + 0.5) / (tools + 0.5)).ln();
            let held_back = 1.0 - LENGTH + LENGTH * tool.length / usual_length;
            let counts = times * (SATURATION + 1.0) / (times + SATURATION * held_back);
            Some(matters * rarity * counts)
        });
        found.sum()
    };
    let scored = weighed.iter().map(score).zip(tools);
    let mut found: Vec<(f64, &T)> = scored.filter(|(score, _)| *score > 0.0).collect();
    // The sort is stable, so tools with equal scores keep their order.
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    found.into_iter().map(|(_, tool)| tool.borrow()).collect()
}

/// The words of a tool with their weights, and the total weight.
struct Weighed {
    words: BTreeMap<String, f64>,
    length: f64,
}

/// Returns the words of a query and those related to them, with their weights.
fn query_weights(query: &str) -> BTreeMap<String, f64> {
    let query_words = words(query);
    let mut weights = BTreeMap::new();
    for meant in query_words.iter().flat_map(|word| related(word)) {
        weights.insert(meant.clone(), OF_RELATED);
    }
    weights.extend(query_words.into_iter().map(|word| (word, 1.0)));
    weights
}

fn weighed(tool: &ToolSpec) -> Weighed {
    let mut words_of_tool = BTreeMap::<String, f64>::new();
    let mut length = 0.0;
    let mut add = |text: &str, weight: f64| {
        for word in words(text) {
            *words_of_tool.entry(word).or_default() += weight;
            length += weight;
        }
    };
    add(tool.name.as_str(), OF_NAME);
    let end = tool.description.floor_char_boundary(MOST_BYTES);
    add(
        tool.description.get(..end).unwrap_or_default(),
        OF_DESCRIPTION,
    );
    for parameter in parameters(tool) {
        add(&parameter, OF_PARAMETER);
    }
    Weighed {
        words: words_of_tool,
        length,
    }
}

/// Returns the names of a tool's parameters.
fn parameters(tool: &ToolSpec) -> Vec<String> {
    let schema: Option<Value> = tool.parameters.decode().ok();
    let properties = schema.as_ref().and_then(|schema| schema.get("properties"));
    let names = properties.and_then(Value::as_object);
    names.map_or_else(Vec::new, |names| names.keys().cloned().collect())
}

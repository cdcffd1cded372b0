//! Ranks tools by how well they suit a few words: BM25 over name, description and parameters.
//!
//! A pure function: the same tools in the same order and the same words give the same ranking.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use neuraxis_core::ToolSpec;
use serde_json::Value;

use super::words::{related, words};

/// How much a word counts by where it stands: a tool is named after what it does.
const OF_NAME: f64 = 3.0;
const OF_DESCRIPTION: f64 = 1.0;
const OF_PARAMETER: f64 = 0.5;

/// How much a word counts that only means about the same.
const OF_RELATED: f64 = 0.35;

/// The usual constants of BM25: how soon a repeated word counts no more, and how much long texts are held back.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;

/// How many bytes of a description are looked at: a server may send any.
const MOST_BYTES: usize = 4 * 1024;

/// Returns the tools that have anything to do with a query, the best first. Tools that suit it alike stay in their order.
///
/// Words are compared without case, English endings and filling words, and some that mean about the same count for one
/// another; a query in another language finds what shares words with it, such as names. Of scripts without blanks between words, each
/// two letters beside each other count as one.
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
    let asked = asked(query);
    let weighed: Vec<Weighed> = tools.iter().map(|tool| weighed(tool.borrow())).collect();
    let mut found_in = BTreeMap::<&str, f64>::new();
    for tool in &weighed {
        for word in asked.keys().filter(|word| tool.words.contains_key(*word)) {
            *found_in.entry(word).or_default() += 1.0;
        }
    }
    let count = tools.iter().fold(0.0, |count, _| count + 1.0);
    let total: f64 = weighed.iter().map(|tool| tool.length).sum();
    let usual_length = if total > 0.0 { total / count } else { 1.0 };
    let score = |tool: &Weighed| -> f64 {
        let found = asked.iter().filter_map(|(word, matters)| {
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
    // Stable: of equal ones the first stays first.
    found.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    found.into_iter().map(|(_, tool)| tool.borrow()).collect()
}

/// The words of a tool, by how much they count, and how much that is in all.
struct Weighed {
    words: BTreeMap<String, f64>,
    length: f64,
}

fn asked(query: &str) -> BTreeMap<String, f64> {
    let said = words(query);
    let mut asked = BTreeMap::new();
    for meant in said.iter().flat_map(|word| related(word)) {
        asked.insert(meant.clone(), OF_RELATED);
    }
    asked.extend(said.into_iter().map(|word| (word, 1.0)));
    asked
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

//! A model that says what its chat template tells it to say: with it, a real llama-server gives replies that are known
//! in advance, for any tool, at any temperature, and nothing has to be downloaded.
//!
//! # How it works
//!
//! The template (`scripted_model/template.jinja`) looks at the conversation, writes the wanted reply into the prompt,
//! and pads it with dots to a fixed width. The network is one attention head that always looks back over exactly that
//! width: the token it finds there is the next one, until it finds the end of the text. Neither training nor chance is
//! involved, so a failing test means the same on every machine.
//!
//! A token is a byte. An answer of sixty letters is a stream of sixty tokens, and a prompt has about a thousand tokens
//! more than the conversation has bytes: a server needs, for example, `-c 65536 -np 2`. With `-t 1` it generates a
//! token in 0.1 ms; several threads spend more time waiting for each other than working.
//!
//! # What it says
//!
//! | when | reply |
//! | --- | --- |
//! | tools are offered, no result is there yet | a call of the first one, with only the arguments it requires |
//! | tool results are there | `This is the final answer. Tool results read: N.` |
//! | neither | `This is a plain answer.` |
//!
//! "There" means since the last user message. An argument's value is the first of its `enum`, or else `"x"`, `1`,
//! `true`, `[]` or `{}` depending on its type. Words in the last user message change the script, and can be combined:
//!
//! | word | effect |
//! | --- | --- |
//! | `two calls` | where there would be one call, there are two, both of the first tool |
//! | `forever` | a call even when there are results, as long as tools are offered |
//! | `long` | instead of an answer, one of more than 400 tokens that begins with `This is a long answer.` and ends with `Sentence 60.` |
//! | `think` | the reasoning `This is some thinking.` first, unless the request has thinking turned off |
//! | `reticent` | nothing: the text ends immediately |
//!
//! The template cannot see `tool_choice`. With `none`, a call appears as the text `<tool_call>…</tool_call>`, which
//! real models also produce now and then. With `required` when an answer would be next, the output is nonsense, up to
//! the token limit.

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::gguf::{Gguf, Value};

/// Where the file goes, relative to the folder of the provisions.
pub(super) const FILE: &str = "llama/scripted.gguf";

const TEMPLATE: &str = include_str!("scripted_model/template.jinja");

/// How many tokens the template reserves for a script, including the end of the text.
const ROOM: usize = 1024;

/// What follows it in the prompt before the reply begins: a token that opens the message, then this text.
const OPENING: &str = "assistant\n";

/// The distance from the last token back to the next one: room and opening are one token more.
const DISTANCE: usize = ROOM + OPENING.len();

/// The length of the network's vectors.
const WIDTH: usize = 64;

/// A token is represented in a vector by the bits of its number, each as 1 or -1. This many bits cover the vocabulary.
const BITS: usize = 9;

/// The position of the vector's own token.
const OWN: usize = 0;

/// The position that holds 1 for every token.
const ONE: usize = OWN + BITS;

/// The position of the token that attention found.
const FOUND: usize = 16;

/// Required by the architecture, though no layer needs it.
const FEED_FORWARD: usize = 32;

/// The sharpness of attention, and the lead of the found token over all others.
const SHARPNESS: f32 = 8.0;

/// The base of the frequencies by which llama.cpp rotates queries and keys depending on their position.
const FREQUENCY_BASE: f32 = 10_000.0;

/// Returns whether the file exists, exactly as it would be written now.
pub(super) fn is_ready(folder: &Path) -> bool {
    fs::read(folder.join(FILE)).is_ok_and(|bytes| bytes == file())
}

/// Writes the file.
pub(super) fn install(folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(FILE);
    let parent = path.parent().unwrap_or(folder);
    fs::create_dir_all(parent)
        .and_then(|()| fs::write(&path, file()))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn file() -> Vec<u8> {
    let tokens = tokens();
    let count = tokens.len();
    network(vocabulary(hyperparameters(), tokens), count).into_bytes()
}

fn hyperparameters() -> Gguf {
    let number = |number: usize| Value::U32(number as u32);
    Gguf::default()
        .entry("general.architecture", Value::Text("llama".to_owned()))
        .entry("general.name", Value::Text("scripted".to_owned()))
        .entry("llama.context_length", number(131_072))
        .entry("llama.embedding_length", number(WIDTH))
        .entry("llama.block_count", number(1))
        .entry("llama.feed_forward_length", number(FEED_FORWARD))
        .entry("llama.attention.head_count", number(1))
        .entry("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-6))
        .entry("llama.rope.dimension_count", number(WIDTH))
        .entry("llama.rope.freq_base", Value::F32(FREQUENCY_BASE))
}

fn vocabulary(model: Gguf, tokens: Vec<String>) -> Gguf {
    const NORMAL: i32 = 1;
    const CONTROL: i32 = 3;
    let kind = |token: &String| {
        if token.starts_with("<|") {
            CONTROL
        } else {
            NORMAL
        }
    };
    let kinds = tokens.iter().map(kind).collect();
    let number = |name: &str| {
        let number = tokens.iter().position(|token| token == name);
        Value::U32(number.unwrap_or_default() as u32)
    };
    let (start, end) = (number(MESSAGE_START), number(MESSAGE_END));
    let template = TEMPLATE.replace("ROOM", &ROOM.to_string());
    model
        .entry("tokenizer.ggml.model", Value::Text("gpt2".to_owned()))
        .entry("tokenizer.ggml.pre", Value::Text("gpt-2".to_owned()))
        .entry("tokenizer.ggml.tokens", Value::Texts(tokens))
        .entry("tokenizer.ggml.token_type", Value::I32s(kinds))
        .entry(
            "tokenizer.ggml.merges",
            Value::Texts(vec![MERGE.to_owned()]),
        )
        .entry("tokenizer.ggml.bos_token_id", start)
        .entry("tokenizer.ggml.eos_token_id", end)
        .entry("tokenizer.ggml.add_bos_token", Value::Bool(false))
        .entry("tokenizer.chat_template", Value::Text(template))
}

const MESSAGE_START: &str = "<|im_start|>";
const MESSAGE_END: &str = "<|im_end|>";

/// llama.cpp requires at least one merge: this one is of two zero bytes, which occur in no text.
const MERGE: &str = "Ā Ā";

/// All bytes, as GPT-2's symbols for them, followed by the special tokens.
fn tokens() -> Vec<String> {
    let mut stand_ins = (256..).filter_map(char::from_u32);
    let symbol = |byte: u8| match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => Some(char::from(byte)),
        _ => stand_ins.next(),
    };
    let bytes = (0..=u8::MAX).filter_map(symbol).map(String::from);
    let merged = MERGE.replace(' ', "");
    bytes
        .chain([merged, MESSAGE_START.to_owned(), MESSAGE_END.to_owned()])
        .collect()
}

fn network(model: Gguf, tokens: usize) -> Gguf {
    let zero = |_, _| 0.0;
    let when = |condition, weight| if condition { weight } else { 0.0 };
    model
        .matrix("token_embd.weight", tokens, WIDTH, |token, place| {
            when(place == ONE, 1.0) + bit(token, place, OWN)
        })
        .vector("blk.0.attn_norm.weight", WIDTH, 1.0)
        .matrix("blk.0.attn_q.weight", WIDTH, WIDTH, |to, from| {
            when(from == ONE, SHARPNESS * query(to))
        })
        .matrix("blk.0.attn_k.weight", WIDTH, WIDTH, |to, from| {
            when(from == ONE, SHARPNESS * key(to))
        })
        .matrix("blk.0.attn_v.weight", WIDTH, WIDTH, |to, from| {
            when(from < BITS && to == FOUND + from, 1.0)
        })
        .matrix("blk.0.attn_output.weight", WIDTH, WIDTH, |to, from| {
            when(to == from, 1.0)
        })
        .vector("blk.0.ffn_norm.weight", WIDTH, 1.0)
        .matrix("blk.0.ffn_gate.weight", FEED_FORWARD, WIDTH, zero)
        .matrix("blk.0.ffn_up.weight", FEED_FORWARD, WIDTH, zero)
        .matrix("blk.0.ffn_down.weight", WIDTH, FEED_FORWARD, zero)
        .vector("output_norm.weight", WIDTH, 1.0)
        .matrix("output.weight", tokens, WIDTH, |token, place| {
            SHARPNESS * bit(token, place, FOUND)
        })
}

/// The weight at a position of a vector in which a token's bits begin at `first`.
fn bit(token: usize, place: usize, first: usize) -> f32 {
    match place.checked_sub(first) {
        Some(bit) if bit < BITS && token >> bit & 1 == 1 => 1.0,
        Some(bit) if bit < BITS => -1.0,
        _ => 0.0,
    }
}

/// Every key is the same: each pair of positions points along its first. Keys differ because llama.cpp rotates each
/// pair by the position times the pair's frequency.
fn key(place: usize) -> f32 {
    if place.is_multiple_of(2) { 1.0 } else { 0.0 }
}

/// Every query is the same too: it equals a key seen from [`DISTANCE`] positions later.
fn query(place: usize) -> f32 {
    let angle = DISTANCE as f32 * frequency(place / 2);
    if place.is_multiple_of(2) {
        angle.cos()
    } else {
        -angle.sin()
    }
}

fn frequency(pair: usize) -> f32 {
    FREQUENCY_BASE.powf(-2.0 * pair as f32 / WIDTH as f32)
}

#[cfg(test)]
mod tests;

//! A model that says what its chat template tells it to, so that a real llama-server gives replies known in advance.
//!
//! No weights are downloaded and nothing is random. The template (`scripted_model/template.jinja`) looks at the
//! conversation, writes the wanted reply into the prompt, and fills up with dots to a fixed width. The network is one
//! attention head that looks back over exactly that width: each token it makes is the one that stands there, until it
//! copies the end of the text. Any reply is possible this way, calls of tools with any name included, at any temperature.
//!
//! A token is a byte, so an answer of sixty letters is a stream of sixty tokens. Each prompt is [`ROOM`] tokens longer
//! than the conversation alone.

use super::gguf::{Gguf, Value};

const TEMPLATE: &str = include_str!("scripted_model/template.jinja");

/// How many tokens the template has for a reply, the end of the text included.
const ROOM: usize = 1024;

/// What follows that room in the prompt, before the reply begins: this text, and one token that opens the message.
const OPENING: &str = "assistant\n";

/// How far back the next token stands in the prompt, seen from the token before it.
const DISTANCE: usize = ROOM + OPENING.len();

/// The length of the vectors between the parts of the network, and of the only attention head.
const WIDTH: usize = 64;

/// A token is written in a vector as the bits of its number, each as 1 or -1.
const BITS: usize = 9;

/// Where a vector holds the token it came from.
const OWN: usize = 0;

/// Where it holds 1, whatever the token.
const ONE: usize = BITS;

/// Where it holds the token that was copied.
const COPIED: usize = 16;

/// How sharply attention falls off around [`DISTANCE`], and how much likelier the copied token is than the next best.
const SHARPNESS: f32 = 8.0;

/// The base of the frequencies by which vectors are turned with their position.
const FREQUENCY_BASE: f32 = 10_000.0;

const FEED_FORWARD: usize = 32;

/// Returns the bytes of the model file.
pub(super) fn file() -> Vec<u8> {
    let tokens = tokens();
    let count = tokens.len();
    network(vocabulary(metadata(), tokens), count).into_bytes()
}

fn metadata() -> Gguf {
    let width = Value::U32(WIDTH as u32);
    Gguf::default()
        .entry("general.architecture", Value::Text("llama".to_owned()))
        .entry("general.name", Value::Text("scripted".to_owned()))
        .entry("llama.context_length", Value::U32(131_072))
        .entry("llama.embedding_length", Value::U32(WIDTH as u32))
        .entry("llama.block_count", Value::U32(1))
        .entry("llama.feed_forward_length", Value::U32(FEED_FORWARD as u32))
        .entry("llama.attention.head_count", Value::U32(1))
        .entry("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-6))
        .entry("llama.rope.dimension_count", width)
        .entry("llama.rope.freq_base", Value::F32(FREQUENCY_BASE))
}

fn vocabulary(model: Gguf, tokens: Vec<String>) -> Gguf {
    const NORMAL: i32 = 1;
    const CONTROL: i32 = 3;
    let kinds = tokens.iter().map(|token| if token.starts_with("<|") { CONTROL } else { NORMAL }).collect();
    let number = |text: &str| Value::U32(tokens.iter().position(|token| token == text).unwrap_or_default() as u32);
    let (start, end) = (number("<|im_start|>"), number("<|im_end|>"));
    let template = TEMPLATE.replace("ROOM", &ROOM.to_string());
    model
        .entry("tokenizer.ggml.model", Value::Text("gpt2".to_owned()))
        .entry("tokenizer.ggml.pre", Value::Text("gpt-2".to_owned()))
        .entry("tokenizer.ggml.tokens", Value::Texts(tokens))
        .entry("tokenizer.ggml.token_type", Value::I32s(kinds))
        .entry("tokenizer.ggml.merges", Value::Texts(vec!["Ā Ā".to_owned()]))
        .entry("tokenizer.ggml.bos_token_id", start)
        .entry("tokenizer.ggml.eos_token_id", end)
        .entry("tokenizer.ggml.add_bos_token", Value::Bool(false))
        .entry("tokenizer.chat_template", Value::Text(template))
}

/// The bytes as symbols, the way of GPT-2, and the tokens that structure a conversation.
fn tokens() -> Vec<String> {
    let mut unprintable = (256..).filter_map(char::from_u32);
    let symbol = |byte: u8| match byte {
        b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff => Some(char::from(byte)),
        _ => unprintable.next(),
    };
    let bytes = (0..=u8::MAX).filter_map(symbol).map(String::from);
    let others = ["ĀĀ", "<|im_start|>", "<|im_end|>"].map(String::from);
    bytes.chain(others).collect()
}

fn network(model: Gguf, tokens: usize) -> Gguf {
    let matrix_of_zeros = |_, _| 0.0;
    model
        .matrix("token_embd.weight", tokens, WIDTH, |token, place| match place {
            ONE => 1.0,
            place => bit(token, place, OWN),
        })
        .vector("blk.0.attn_norm.weight", WIDTH, 1.0)
        .matrix("blk.0.attn_q.weight", WIDTH, WIDTH, |output, input| {
            if input == ONE { SHARPNESS * looking_back(output) } else { 0.0 }
        })
        .matrix("blk.0.attn_k.weight", WIDTH, WIDTH, |output, input| {
            if input == ONE && output % 2 == 0 { SHARPNESS } else { 0.0 }
        })
        .matrix("blk.0.attn_v.weight", WIDTH, WIDTH, |output, input| {
            if input < BITS && output == COPIED + input { 1.0 } else { 0.0 }
        })
        .matrix("blk.0.attn_output.weight", WIDTH, WIDTH, |output, input| if input == output { 1.0 } else { 0.0 })
        .vector("blk.0.ffn_norm.weight", WIDTH, 1.0)
        .matrix("blk.0.ffn_gate.weight", FEED_FORWARD, WIDTH, matrix_of_zeros)
        .matrix("blk.0.ffn_up.weight", FEED_FORWARD, WIDTH, matrix_of_zeros)
        .matrix("blk.0.ffn_down.weight", WIDTH, FEED_FORWARD, matrix_of_zeros)
        .vector("output_norm.weight", WIDTH, 1.0)
        .matrix("output.weight", tokens, WIDTH, |token, place| SHARPNESS * bit(token, place, COPIED))
}

/// One bit of a token's number, for the place in a vector, where the number begins at `first`.
fn bit(token: usize, place: usize, first: usize) -> f32 {
    match place.checked_sub(first) {
        Some(bit) if bit < BITS => if token >> bit & 1 == 1 { 1.0 } else { -1.0 },
        _ => 0.0,
    }
}

/// The direction that keys have, as it is [`DISTANCE`] positions earlier.
fn looking_back(place: usize) -> f32 {
    let pair = (place / 2) as f32;
    let angle = DISTANCE as f32 * FREQUENCY_BASE.powf(-2.0 * pair / WIDTH as f32);
    if place % 2 == 0 { angle.cos() } else { -angle.sin() }
}

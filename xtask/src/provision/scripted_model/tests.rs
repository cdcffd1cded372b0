//! What can be checked without a server. That the model loads and replies is covered by the tests that need
//! llama-server.

use std::collections::BTreeSet;

use super::*;

#[test]
fn tokens_are_unique_and_their_numbers_fit_into_the_bits() {
    let tokens = tokens();
    let distinct: BTreeSet<_> = tokens.iter().collect();
    assert_eq!(distinct.len(), tokens.len());
    assert!(tokens.len() <= 1 << BITS);
    assert_eq!(tokens[usize::from(b'a')], "a");
    assert_eq!(tokens[usize::from(b' ')], "Ġ");
}

#[test]
fn attention_sees_exactly_one_distance_in_the_whole_context() {
    let agreement = |distance: usize| -> f32 {
        let pair = |pair: usize| {
            let angle = distance as f32 * frequency(pair);
            query(2 * pair) * angle.cos() - query(2 * pair + 1) * angle.sin()
        };
        (0..WIDTH / 2).map(pair).sum()
    };
    // Both vectors are normalized to a mean square of 1; the product is divided by the root of its length.
    let embedding = WIDTH as f32 / (BITS + 1) as f32;
    let scale = SHARPNESS * SHARPNESS * embedding / (WIDTH as f32).sqrt();
    let best = scale * agreement(DISTANCE);
    let next = (0..65_536)
        .filter(|distance| *distance != DISTANCE)
        .map(agreement)
        .fold(f32::MIN, f32::max);
    // At this distance, the weight is negligible, even summed over all positions.
    assert!(
        best - scale * next > 30.0,
        "{best} against {}",
        scale * next
    );
}

#[test]
fn the_template_in_the_file_leaves_exactly_the_room_attention_looks_back_over() {
    assert_eq!(TEMPLATE.matches("ROOM").count(), 1);
    assert!(TEMPLATE.ends_with(&format!("{MESSAGE_START}{OPENING}{{% endif -%}}\n")));
    let file = file();
    let written = format!("script.text | length, {ROOM} - 1)");
    assert!(
        file.windows(written.len())
            .any(|bytes| bytes == written.as_bytes())
    );
}

#[test]
fn a_truncated_model_file_is_written_again() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path().join("test-env");
    assert!(!is_ready(&folder));
    install(&folder).unwrap();
    assert!(is_ready(&folder));
    let whole = fs::read(folder.join(FILE)).unwrap();
    fs::write(folder.join(FILE), &whole[..whole.len() / 2]).unwrap();
    assert!(!is_ready(&folder));
    install(&folder).unwrap();
    assert_eq!(fs::read(folder.join(FILE)).unwrap(), whole);
}

//! Properties that hold for any text, however it is split.

use proptest::prelude::*;

use super::*;

/// Generates texts made of the markup's own parts and of arbitrary characters.
fn scraps() -> impl Strategy<Value = String> {
    let scrap = prop_oneof![
        prop::sample::select(vec![
            "<",
            "/",
            "｜",
            "|",
            "‖",
            "DSML",
            "DS",
            "ML",
            ">",
            "tool_calls",
            "function_calls",
            "invoke",
            "parameter",
            " name=\"x\"",
            " string=\"true\"",
            "\n",
            "{\"a\":1}",
            LEAK,
            "<｜DSML｜tool_calls>",
            "</｜DSML｜tool_calls>",
            "<|DSML|invoke name=\"n\">",
            "</|DSML|invoke>",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,6}",
    ];
    prop::collection::vec(scrap, 0..12).prop_map(|scraps| scraps.concat())
}

/// Splits a text into deltas.
fn cut(written: &str, cuts: &[prop::sample::Index]) -> Vec<ReplyDelta> {
    let chars: Vec<char> = written.chars().collect();
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(chars.len() + 1)).collect();
    places.extend([0, chars.len()]);
    places.sort_unstable();
    let pieces = places.windows(2).map(|pair| {
        let piece: String = chars[pair[0]..pair[1]].iter().collect();
        text(&piece)
    });
    pieces.collect()
}

fn shown(deltas: &[ReplyDelta]) -> String {
    let texts = deltas.iter().filter_map(|delta| match delta {
        ReplyDelta::Text { text, .. } => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

proptest! {
    #[test]
    fn any_split_of_a_text_gives_the_same_result(
        written in scraps(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..16),
    ) {
        let whole = assembled([text(&written), end()]);
        let split = assembled(cut(&written, &cuts).into_iter().chain([end()]));
        prop_assert_eq!(split, whole);
    }

    #[test]
    fn ordinary_text_passes_unchanged_and_is_held_no_longer_than_needed(
        written in scraps().prop_filter("ordinary", |text| scan::find(text) == TagMatch::Nothing),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..16),
    ) {
        let mut filter = MarkupFilter::default();
        let mut out = VecDeque::new();
        let mut came = String::new();
        for delta in cut(&written, &cuts) {
            if let ReplyDelta::Text { text, .. } = &delta {
                came.push_str(text);
            }
            filter.push(delta, &mut out).unwrap();
            let shown = shown(out.make_contiguous());
            let held = came.strip_prefix(&shown).unwrap();
            // The held part is exactly what some continuation would turn into a tag.
            let could_be = held.is_empty() || ["｜DSML｜", "DSML｜", "SML｜", "ML｜", "L｜", "｜"]
                .iter()
                .any(|rest| scan::find(&format!("{held}{rest}")) == TagMatch::Tag(0));
            prop_assert!(could_be && held.len() <= LONGEST_OPENING, "{:?}", held);
        }
        // An empty reply is an error.
        if !written.trim().is_empty() {
            filter.push(end(), &mut out).unwrap();
            prop_assert_eq!(shown(out.make_contiguous()), written);
        }
    }

    #[test]
    fn no_markup_tag_is_ever_shown(
        written in scraps(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..16),
    ) {
        let mut filter = MarkupFilter::default();
        let mut out = VecDeque::new();
        for delta in cut(&written, &cuts).into_iter().chain([end()]) {
            if filter.push(delta, &mut out).is_err() {
                break;
            }
        }
        for delta in &out {
            if let ReplyDelta::Text { text, .. } = delta {
                prop_assert!(!matches!(scan::find(text), TagMatch::Tag(_)), "{}", text);
            }
        }
        // If no calls were extracted, the emitted pieces don't add up to a tag either.
        if !out.iter().any(|delta| matches!(delta, ReplyDelta::ToolCall { .. })) {
            let shown = shown(out.make_contiguous());
            prop_assert!(!matches!(scan::find(&shown), TagMatch::Tag(_)), "{}", shown);
        }
    }

    #[test]
    fn written_calls_are_decoded_as_intended(
        meant in prop::collection::vec(
            ("[a-z_]{1,12}", prop::collection::btree_map("[a-z]{1,8}", "[^<]{0,20}", 0..4)),
            1..4,
        ),
        bar in prop::sample::select(vec!["｜", "|", "‖", "｜｜", "||"]),
        block in prop::sample::select(vec!["tool_calls", "function_calls"]),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..16),
    ) {
        let mark = format!("{bar}DSML{bar}");
        let calls = meant.iter().map(|(name, parameters)| {
            let parameters = parameters.iter().map(|(key, value)| {
                format!("<{mark}parameter name=\"{key}\" string=\"true\">{value}</{mark}parameter>\n")
            });
            let parameters: String = parameters.collect();
            format!("<{mark}invoke name=\"{name}\">\n{parameters}</{mark}invoke>\n")
        });
        let calls: String = calls.collect();
        let written = format!("<{mark}{block}>\n{calls}</{mark}{block}>");
        let reply = assembled(cut(&written, &cuts).into_iter().chain([end()])).unwrap();
        let made: Vec<_> = reply
            .calls()
            .map(|call| (call.name.to_string(), call.arguments.decode().unwrap()))
            .collect();
        prop_assert_eq!(made, meant);
        prop_assert_eq!(reply.text(), "");
    }
}

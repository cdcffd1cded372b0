//! A reply is the same however its stream was split, and however its blocks were interleaved.

use std::collections::BTreeMap;

use neuraxis_core::{
    BlockIndex, JsonText, ModelRef, Reply, ReplyAssembler, ReplyDelta, ReplyEnd, ReplyFinish,
};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::support::usage;

/// One block of a reply, in the pieces in which it arrives.
#[derive(Debug, Clone)]
struct Block {
    kind: Kind,
    text: String,
    cuts: Vec<Index>,
    /// The state that the provider wants back, and the piece after which it arrives.
    state: Option<Index>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Reasoning,
    Call,
}

fn block() -> impl Strategy<Value = Block> {
    let texts = prop_oneof![
        "\\PC{0,30}",
        select(vec![
            String::new(),
            r#"{"path":"größe/ファイル 🦀.txt","deep":{"list":[1,2.5e-3,null,"\u00e9\n"]}}"#
                .to_owned(),
            "e\u{301}\u{200d}👩\u{200d}👩\u{200d}👧 ende".to_owned(),
        ]),
    ];
    (
        select(vec![Kind::Text, Kind::Reasoning, Kind::Call]),
        texts,
        prop::collection::vec(any::<Index>(), 0..6),
        prop::option::of(any::<Index>()),
    )
        .prop_map(|(kind, text, cuts, state)| Block {
            kind,
            text,
            cuts,
            state,
        })
}

impl Block {
    /// Returns the block as its stream delivers it: cut between characters, including empty pieces.
    fn deltas(&self, index: u32, is_cut: bool) -> Vec<ReplyDelta> {
        let block = BlockIndex(index);
        let mut ends: Vec<usize> = self.text.char_indices().map(|(place, _)| place).collect();
        ends.push(self.text.len());
        let mut cuts: Vec<usize> = self.cuts.iter().map(|cut| *cut.get(&ends)).collect();
        if !is_cut {
            cuts.clear();
        }
        cuts.extend([0, self.text.len()]);
        cuts.sort_unstable();
        let pieces = cuts
            .windows(2)
            .map(|pair| self.text[pair[0]..pair[1]].to_owned());
        let mut deltas: Vec<ReplyDelta> = match self.kind {
            Kind::Text => pieces
                .map(|text| ReplyDelta::Text { block, text })
                .collect(),
            Kind::Reasoning => pieces
                .map(|text| ReplyDelta::Reasoning { block, text })
                .collect(),
            Kind::Call => pieces
                .enumerate()
                .map(|(place, arguments)| ReplyDelta::ToolCall {
                    block,
                    provider_id: (place == 0)
                        .then(|| format!("call_{index}"))
                        .map(Into::into),
                    // Some servers repeat the name with every piece.
                    name: (place == 0 || index == 1)
                        .then(|| "read_file".to_owned())
                        .map(Into::into),
                    arguments,
                })
                .collect(),
        };
        if let Some(state) = &self.state {
            let place = if is_cut {
                state.index(deltas.len() + 1)
            } else {
                deltas.len()
            };
            let state = Some(JsonText::from_text("{\"encrypted\":\"x\"}"));
            let (id, signature) = (Some("rs_1".to_owned()), None);
            deltas.insert(
                place,
                ReplyDelta::State {
                    block,
                    id,
                    signature,
                    state,
                },
            );
        }
        deltas
    }
}

/// Interleaves the streams of blocks, each in its own order.
fn mixed(mut streams: Vec<Vec<ReplyDelta>>, picks: &[Index]) -> Vec<ReplyDelta> {
    let mut deltas = Vec::new();
    for stream in &mut streams {
        stream.reverse();
    }
    let mut picks = picks.iter().cycle();
    while streams.iter().any(|stream| !stream.is_empty()) {
        streams.retain(|stream| !stream.is_empty());
        let place = picks.next().map_or(0, |pick| pick.index(streams.len()));
        deltas.extend(streams[place].pop());
    }
    deltas
}

fn assembled(deltas: Vec<ReplyDelta>) -> Reply {
    let mut assembler = ReplyAssembler::default();
    for delta in deltas {
        assembler.push(delta).unwrap();
    }
    assembler.push(end()).unwrap();
    assembler.finish().unwrap()
}

/// Assembles a reply whose texts are kept separately.
fn assembled_beside(deltas: Vec<ReplyDelta>) -> Reply {
    let mut assembler = ReplyAssembler::default();
    let mut texts = BTreeMap::<BlockIndex, String>::new();
    for delta in deltas {
        if let ReplyDelta::Text { block, text }
        | ReplyDelta::Reasoning { block, text }
        | ReplyDelta::ToolCall {
            block,
            arguments: text,
            ..
        } = &delta
        {
            texts.entry(*block).or_default().push_str(text);
        }
        assembler.push_without_text(delta).unwrap();
    }
    assembler.push(end()).unwrap();
    let text_of = |block| texts.remove(&block).unwrap();
    assembler.finish_with(text_of).unwrap()
}

fn end() -> ReplyDelta {
    ReplyDelta::End(Box::new(ReplyEnd {
        finish: ReplyFinish::Stop,
        usage: usage(1, 1),
        model: ModelRef::new("test", "m"),
    }))
}

proptest! {
    #![proptest_config(super::config())]

    #[test]
    fn any_split_and_interleaving_of_a_stream_gives_the_same_reply(
        blocks in prop::collection::vec(block(), 0..5),
        picks in prop::collection::vec(any::<Index>(), 1..12),
    ) {
        let streams = |is_cut: bool| -> Vec<Vec<ReplyDelta>> {
            let blocks = blocks.iter().zip(0..);
            blocks.map(|(block, index)| block.deltas(index, is_cut)).collect()
        };
        let whole = assembled(streams(false).concat());
        let cut = assembled(mixed(streams(true), &picks));
        prop_assert_eq!(&cut, &whole);
        let beside = assembled_beside(mixed(streams(true), &picks));
        prop_assert_eq!(&beside, &whole);
        let text: String = blocks
            .iter()
            .filter(|block| matches!(block.kind, Kind::Text))
            .map(|block| block.text.as_str())
            .collect();
        prop_assert_eq!(whole.text(), text);
    }
}

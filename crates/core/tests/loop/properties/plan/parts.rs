//! What models, tools, policies and users may say.

use neuraxis_core::{
    Advice, ApprovalDecision, BlockIndex, JsonText, Keep, LlmErrorKind, ModelRef, ReasoningPart,
    Reply, ReplyAdvice, ReplyFinish, ReplyPart, RequestedCall, Source, TextPart, TokenCount,
    ToolClass, ToolFailure, ToolOutcome, ToolOutput, ToolSignal, Usage, Vetting,
};
use proptest::prelude::*;
use proptest::sample::select;

use crate::support::{NOTE, PICK, PUT, READ, RESEARCH, SEND};

/// A result that forces a small context to make room.
const LONG: &str =
    "\"a long result, a long result, a long result, a long result, a long result, a long result\"";

pub(super) fn reply() -> impl Strategy<Value = Reply> {
    let text = select(vec![
        "",
        "",
        " ",
        "One.",
        "Two.",
        "See [one](https://a.example/one) and https://x.example/two [3].",
        "ACCEPT",
        "<tool_call>{}</tool_call>",
    ]);
    let finish = prop_oneof![
        1 => Just(ReplyFinish::Stop),
        16 => Just(ReplyFinish::ToolCalls),
        1 => Just(ReplyFinish::Length),
        1 => Just(ReplyFinish::ContentFilter),
        1 => Just(ReplyFinish::Refused),
    ];
    let calls = prop_oneof![
        1 => Just(Vec::new()),
        8 => prop::collection::vec(call(), 1..5),
    ];
    (any::<bool>(), text, calls, finish, usage(), reply_advice()).prop_map(
        |(thinks, text, calls, finish, usage, advice)| {
            let thought = thinks.then(|| {
                ReplyPart::Reasoning(ReasoningPart {
                    index: BlockIndex(0),
                    text: "Hm.".to_owned(),
                    id: Some("rs_1".to_owned()),
                    signature: None,
                    state: Some(JsonText::from_text("{\"encrypted\":\"x\"}")),
                })
            });
            let text = (!text.is_empty()).then(|| {
                ReplyPart::Text(TextPart {
                    text: text.to_owned(),
                    state: None,
                })
            });
            Reply {
                parts: thought.into_iter().chain(text).chain(calls).collect(),
                finish,
                usage,
                model: ModelRef::new("test", "m"),
                advice: advice.map(Box::new),
            }
        },
    )
}

/// How a program's code may change a reply.
fn reply_advice() -> impl Strategy<Value = Option<ReplyAdvice>> {
    let reason = || "not so".to_owned();
    prop_oneof![
        40 => Just(None),
        2 => Just(Some(ReplyAdvice::Rewritten)),
        2 => Just(Some(ReplyAdvice::AskAgain { reason: reason() })),
        1 => Just(Some(ReplyAdvice::Refused { reason: reason() })),
    ]
}

fn call() -> impl Strategy<Value = ReplyPart> {
    let names = prop_oneof![
        12 => select(vec![READ, READ, PUT, SEND, PICK, NOTE]),
        4 => Just(RESEARCH),
        1 => select(vec!["reed_file", ""]),
    ];
    let arguments = select(vec![
        "{}",
        r#"{ "path":"a" }"#,
        r#"{"path":"b"}"#,
        r#"{"topics":["a","b"]}"#,
        r#"{"topics":["a",{"b":1},"c"]}"#,
        r#"{"topics":[]}"#,
        "```json\n{\"path\":\"a\"}\n```",
        "{\"path\":",
        "",
    ]);
    (names, arguments, prop::option::of(Just("call_0"))).prop_map(|(name, arguments, id)| {
        ReplyPart::ToolCall(RequestedCall {
            provider_id: id.map(str::to_owned).map(Into::into),
            name: name.into(),
            arguments: JsonText::from_text(arguments),
            state: None,
        })
    })
}

pub(super) fn usage() -> impl Strategy<Value = Usage> {
    let count = || {
        prop_oneof![
            4 => (0..1_000_u64).prop_map(TokenCount::measured),
            1 => (0..1_000_u64).prop_map(TokenCount::estimated),
            1 => Just(TokenCount::UNKNOWN),
        ]
    };
    (count(), count(), count()).prop_map(|(prompt, completion, cached)| Usage {
        prompt,
        completion,
        cached,
        ..Usage::default()
    })
}

fn class() -> impl Strategy<Value = ToolClass> {
    select(vec![
        ToolClass::ReadOnly,
        ToolClass::ReadOnly,
        ToolClass::Idempotent,
        ToolClass::Irreversible,
    ])
}

pub(super) fn verdict() -> impl Strategy<Value = Vetting> {
    prop_oneof![
        14 => class().prop_map(Vetting::run),
        4 => class().prop_map(|class| Vetting::ask(class, "it writes")),
        1 => Just(Vetting::Invalid { message: "path: is missing".to_owned() }),
        1 => Just(Vetting::Unknown),
        1 => Just(Vetting::Disabled),
        1 => Just(Vetting::deny("not here")),
    ]
}

pub(super) fn outcome() -> impl Strategy<Value = ToolOutcome> {
    let json = || {
        select(vec![
            "null",
            "\"x\"",
            " { \"a\": 1 } ",
            "[1,\n2]",
            "no json",
            "",
            LONG,
        ])
    };
    let signal = prop_oneof![
        9 => Just(None),
        1 => json().prop_map(|plan| Some(ToolSignal::Plan { plan: JsonText::from_text(plan) })),
        1 => Just(Some(ToolSignal::Clarify { question: "Which?".to_owned() })),
        2 => select(vec![vec![PUT], vec![SEND, PICK, SEND], vec!["gone", READ, NOTE], vec![]])
            .prop_map(|tools| Some(ToolSignal::Found {
                tools: tools.iter().map(|tool| tool.parse().unwrap()).collect(),
            })),
    ];
    let failure = prop_oneof![
        4 => Just(None),
        1 => select(vec![
            ToolFailure::Error,
            ToolFailure::Temporary,
            ToolFailure::Permanent,
            ToolFailure::Timeout,
            ToolFailure::Panic,
        ])
        .prop_map(Some),
    ];
    (
        json(),
        prop::option::of(json()),
        signal,
        failure,
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(value, metadata, signal, failure, keeps, is_read)| {
            if let Some(failure) = failure {
                return ToolOutcome::failed(failure, "it went wrong");
            }
            let mut output = ToolOutput::new(JsonText::from_text("null"));
            output.value = JsonText::from_text(value);
            output.metadata = metadata.map(JsonText::from_text);
            output.signal = signal;
            if is_read {
                output.sources.push(Source::new("https://a.example/one"));
            }
            if !keeps {
                output.keep = Keep::Summary;
                output.summary = Some("a file".to_owned());
            }
            ToolOutcome::done(output)
        })
}

pub(super) fn decision() -> impl Strategy<Value = ApprovalDecision> {
    let edited = select(vec![
        None,
        None,
        Some("{ \"path\":\"b\" }"),
        Some("no json"),
    ]);
    prop_oneof![
        4 => edited.prop_map(|edited| ApprovalDecision::Approve {
            arguments: edited.map(JsonText::from_text),
            remember: None,
        }),
        1 => prop::option::of(Just("no".to_owned())).prop_map(|reason| ApprovalDecision::Deny { reason }),
        1 => Just(ApprovalDecision::Expired),
    ]
}

/// Why a model call fails.
pub(super) fn kind() -> impl Strategy<Value = LlmErrorKind> {
    let overflow = (prop::option::of(0..500_u64), prop::option::of(0..900_u64))
        .prop_map(|(limit, needed)| LlmErrorKind::ContextOverflow { limit, needed });
    prop_oneof![
        3 => select(vec![
            LlmErrorKind::Connection,
            LlmErrorKind::Timeout,
            LlmErrorKind::InvalidResponse,
        ]),
        2 => overflow,
    ]
}

pub(super) fn advice() -> impl Strategy<Value = Advice> {
    let tools = select(vec![vec![], vec![READ], vec![READ, SEND, RESEARCH]]);
    prop_oneof![
        8 => Just(Advice::Continue),
        3 => tools.prop_map(|tools| Advice::Offer {
            tools: tools.iter().map(|tool| tool.parse().unwrap()).collect(),
        }),
        3 => Just(Advice::Amend {
            text: Some("Otherwise.".to_owned()),
            notes: vec!["Be kind.".to_owned()],
        }),
        1 => Just(Advice::Refuse { reply: "No.".to_owned(), reason: "a rule".to_owned() }),
        3 => Just(Advice::TurnDown { message: "not yet".to_owned() }),
        1 => Just(Advice::Stop { reason: "enough".to_owned() }),
    ]
}

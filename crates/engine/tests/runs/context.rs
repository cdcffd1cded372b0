//! Conversations that outgrow their model's context.

use std::sync::Arc;

use neuraxis_core::{
    LlmError, LlmErrorKind, Message, Purpose, RecordBody, Role, RunStatus, ToolChoice,
};
use neuraxis_engine::Orchestrator;
use neuraxis_memory::MemoryStore;
use neuraxis_testkit::{Act, Script, ScriptedModel, ScriptedTool, assert_paired, reply, spec};

use crate::support::{FinishedRun, builder, history, policy, request, run_to_end};

/// A result of about a thousand tokens.
fn long() -> ScriptedTool {
    let value = format!("\"{}\"", "word ".repeat(800));
    ScriptedTool::always(spec("read").read_only(), Act::value(&value))
}

/// Reads `pages` pages, each in a separate call, then answers.
fn reading(pages: usize) -> impl Fn(&neuraxis_core::ModelRequest) -> Script {
    let read = std::sync::atomic::AtomicUsize::new(0);
    move |request| {
        let page = read.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        if page >= pages || request.tool_choice == ToolChoice::None {
            return reply::text("Read.").into();
        }
        let arguments = format!("{{\"page\":{page}}}");
        reply::calls([("read", arguments.as_str())]).into()
    }
}

fn sizes(finished: &FinishedRun) -> Vec<(u64, u64, bool)> {
    let records = finished.records();
    let trims = records.iter().filter_map(|record| match &record.body {
        RecordBody::ContextTrimmed(cut) => Some((cut.messages, cut.tokens, cut.summary.is_some())),
        _ => None,
    });
    trims.collect()
}

#[tokio::test]
async fn long_results_in_a_small_context_are_trimmed_and_the_trimming_recorded() {
    let store = Arc::new(MemoryStore::new());
    let model = Arc::new(ScriptedModel::answering(reading(6)).with_context(4_000));
    let summarizer = Arc::new(ScriptedModel::always(reply::text("Pages were read.")));
    let orchestrator = builder(model.clone())
        .model(Role::ROUTER, summarizer.clone())
        .store(store.clone())
        .tool(Arc::new(long()))
        .build()
        .unwrap();
    // Earlier messages may be dropped; those of the current run may not.
    for question in ["one", "two", "three"] {
        let finished = run_to_end(&orchestrator, request(question)).await;
        finished.assert_valid(RunStatus::Done);
        if question == "one" {
            continue;
        }
        let cuts = sizes(&finished);
        assert!(
            cuts.iter()
                .all(|(messages, tokens, _)| *messages > 0 && *tokens > 0),
            "{cuts:?}"
        );
    }
    assert!(!summarizer.calls().is_empty(), "nothing was summed up");
    for request in model.requests() {
        let messages = request.messages.messages();
        assert!(
            matches!(messages[0].as_ref(), Message::System { .. }),
            "the prompt went"
        );
        assert_paired(&messages[1..]);
    }
    let last = model.requests().pop().unwrap();
    let said: Vec<_> = last
        .messages
        .messages()
        .iter()
        .map(|message| message.text())
        .collect();
    assert!(
        said.iter().any(|text| text == "three"),
        "the last user message went"
    );
    assert_paired(history(store.as_ref()).await.messages());
}

#[tokio::test]
async fn a_summary_replaces_trimmed_messages_and_stays_in_the_session() {
    let store = Arc::new(MemoryStore::new());
    let model =
        Arc::new(ScriptedModel::always(reply::text("word ".repeat(500))).with_context(3_000));
    let summarizer = ScriptedModel::always(reply::text("They said word."));
    let orchestrator = builder(model.clone())
        .model(Role::ROUTER, Arc::new(summarizer))
        .store(store.clone())
        .build()
        .unwrap();
    let mut summaries = 0;
    for _ in 0..8 {
        let finished = run_to_end(&orchestrator, request(&"please ".repeat(60))).await;
        finished.assert_valid(RunStatus::Done);
        summaries += sizes(&finished)
            .iter()
            .filter(|(_, _, summed)| *summed)
            .count();
        let compactions = finished.records();
        let compactions = compactions.iter().filter(|record| {
            matches!(&record.body, RecordBody::LlmCall(call) if call.purpose == Purpose::Compaction)
        });
        assert_eq!(compactions.count(), sizes(&finished).len());
    }
    assert!(summaries > 0);
    let kept = history(store.as_ref()).await;
    assert!(
        kept.messages()
            .iter()
            .any(|message| message.text().contains("They said word."))
    );
    // Compared with 16 messages with 20,000 tokens in all, from the 8 runs.
    assert!(kept.len() < 16, "{}", kept.len());
}

#[tokio::test(start_paused = true)]
async fn reasoning_that_is_not_sent_takes_no_space_in_the_context() {
    let thinks = reply::reasoned("hm ".repeat(1_500), "Yes.");
    let model = Arc::new(ScriptedModel::always(thinks).with_context(2_000));
    let orchestrator = builder(model.clone()).build().unwrap();
    for question in ["one", "two", "three", "four"] {
        let finished = run_to_end(&orchestrator, request(question)).await;
        finished.assert_valid(RunStatus::Done);
        assert!(sizes(&finished).is_empty());
    }
    let last = model.requests().pop().unwrap();
    assert_eq!(last.messages.len(), 1 + 2 * 3 + 1);
}

#[tokio::test]
async fn an_overflow_error_leads_to_one_trimmed_retry() {
    let overflow = || {
        LlmError::new(
            LlmErrorKind::ContextOverflow {
                limit: Some(2_000),
                needed: Some(2_600),
            },
            "too long",
        )
    };
    let model = Arc::new(ScriptedModel::new());
    let orchestrator = builder(model.clone()).build().unwrap();
    for number in 0..4 {
        model.push(reply::text(format!(
            "answer {number} {}",
            "word ".repeat(300)
        )));
        run_to_end(&orchestrator, request("tell me more"))
            .await
            .assert_valid(RunStatus::Done);
    }
    model.push(overflow());
    model.push(reply::text("shorter now"));
    let finished = run_to_end(&orchestrator, request("and now?")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, "shorter now");
    assert_eq!(sizes(&finished).len(), 1);
    let sent: Vec<_> = model
        .requests()
        .iter()
        .rev()
        .take(2)
        .map(|request| request.messages.len())
        .collect();
    assert!(sent[0] < sent[1], "{sent:?}");

    model.push(overflow());
    model.push(overflow());
    let finished = run_to_end(&orchestrator, request("and again?")).await;
    finished.assert_valid(RunStatus::Failed);
    assert!(
        finished.result.reply.contains("does not fit"),
        "{}",
        finished.result.reply
    );
}

#[tokio::test]
async fn an_overflow_in_one_run_leads_to_trimming_in_the_next() {
    let model = ScriptedModel::answering(|request| {
        let messages = request.messages.messages().iter();
        let bytes: usize = messages.map(|message| message.text().len()).sum();
        if bytes > 3_000 {
            let overflow = LlmErrorKind::ContextOverflow {
                limit: Some(5_000),
                needed: Some(6_000),
            };
            return Script::from(LlmError::new(overflow, "too long"));
        }
        Script::from(reply::text("Read."))
    });
    let model = Arc::new(model.with_context(5_000));
    let pages = [
        "{\"page\":1}",
        "{\"page\":2}",
        "{\"page\":3}",
        "{\"page\":4}",
        "{\"page\":5}",
    ];
    model.push(reply::calls(pages.map(|page| ("read", page))));
    let summarizer = Arc::new(ScriptedModel::always(reply::text("Pages were read.")));
    let orchestrator = builder(model)
        .model(Role::ROUTER, summarizer)
        .tool(Arc::new(long()))
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("Read all pages.")).await;
    finished.assert_valid(RunStatus::Failed);
    let finished = run_to_end(&orchestrator, request("And now?")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, "Read.");
    assert_eq!(sizes(&finished).len(), 1);
}

#[tokio::test]
async fn an_agent_s_context_can_be_smaller_than_its_model_s_but_never_larger() {
    let contexts = |model: Option<u64>, agent: Option<u64>| async move {
        let scripted = ScriptedModel::always(reply::text("ok"));
        let scripted = match model {
            Some(tokens) => scripted.with_context(tokens),
            None => scripted,
        };
        let below = crate::support::helper("ask", &[]);
        let below = match agent {
            Some(tokens) => below.context_tokens(tokens),
            None => below,
        };
        let below = below.build().unwrap();
        let orchestrator = builder(scripted).agent_tool(below).build().unwrap();
        let finished = run_to_end(&orchestrator, request("go")).await;
        let records = finished.records();
        let RecordBody::RunStarted(started) = &records[0].body else {
            panic!("{records:?}")
        };
        let agents = &started.spec.agents;
        agents
            .values()
            .next()
            .and_then(|agent| agent.context_tokens)
    };
    assert_eq!(contexts(Some(8_000), None).await, Some(8_000));
    assert_eq!(contexts(Some(8_000), Some(2_000)).await, Some(2_000));
    assert_eq!(contexts(Some(8_000), Some(90_000)).await, Some(8_000));
    assert_eq!(contexts(None, Some(2_000)).await, Some(2_000));
}

#[tokio::test]
async fn the_maximum_reply_is_at_most_half_of_an_agent_s_largest_context() {
    for (small, setting, most) in [
        (Some(6_000), "", 8_192),
        (Some(6_000), "first_role = 'router'", 8_192),
        (Some(6_000), "role = 'router'", 3_000),
        (None, "role = 'router'", 8_192),
    ] {
        let written = format!("[agents.main_thread]\n{setting}\n");
        let router = ScriptedModel::always(reply::text("Yes."));
        let router = match small {
            Some(tokens) => router.with_context(tokens),
            None => router,
        };
        let orchestrator = large_and_small(router, &written);
        let finished = run_to_end(&orchestrator, request("go")).await;
        let root = crate::written_agents::started(&finished).root;
        assert_eq!(root.max_output_tokens, Some(most), "{setting} {small:?}");
    }
}

/// Two models; the second serves what the configuration assigns to `router`.
fn large_and_small(small: ScriptedModel, written: &str) -> Orchestrator {
    let large = ScriptedModel::always(reply::text("word ".repeat(500))).with_context(100_000);
    builder(large)
        .model(Role::ROUTER, Arc::new(small))
        .tool(Arc::new(long()))
        .policy(policy(written))
        .build()
        .unwrap()
}

#[tokio::test]
async fn an_agent_s_context_is_limited_by_the_smallest_model_that_serves_its_turns() {
    let gathers =
        "opening = { gather = { role = 'router', tool = 'read', default_arguments = '{}' } }";
    for (setting, bound) in [
        ("first_role = 'router'", 2_000),
        ("after_calls_role = 'router'", 2_000),
        (gathers, 2_000),
        ("compaction = { summarize = { role = 'router' } }", 100_000),
        ("digest_after = 9", 100_000),
    ] {
        let written = format!("[agents.main_thread]\n{setting}\n");
        let small = || ScriptedModel::always(reply::text("Yes.")).with_context_when_asked(2_000);
        let orchestrator = large_and_small(small(), &written);
        let finished = run_to_end(&orchestrator, request("go")).await;
        finished.assert_valid(RunStatus::Done);
        let root = crate::written_agents::started(&finished).root;
        assert_eq!(root.context_tokens, Some(bound), "{setting}");
        // A request that cannot fit it is refused with an error that names it.
        let small = small().named(neuraxis_core::ModelRef::new("test", "small"));
        let orchestrator = large_and_small(small, &written);
        let asked = orchestrator.stream(request(&"word".repeat(4_000))).await;
        match asked {
            Ok(_) => assert_eq!(bound, 100_000, "{setting}"),
            Err(error) => {
                let told = error.to_string();
                assert!(
                    told.contains("test/small's context of 2000 tokens"),
                    "{told}"
                );
                assert_eq!(bound, 2_000, "{setting}");
            }
        }
    }
}

#[tokio::test]
async fn a_sub_agent_s_context_is_limited_by_its_smallest_model_too() {
    let written = "[agents.main_thread]\nagents = ['below']\n[agents.below]\nfirst_role = 'router'";
    let small = ScriptedModel::always(reply::text("Yes.")).with_context_when_asked(2_000);
    let finished = run_to_end(&large_and_small(small, written), request("go")).await;
    let spec = crate::written_agents::started(&finished);
    assert_eq!(spec.root.context_tokens, Some(100_000));
    let below = spec.agents.values().find(|it| it.profile.name == "below");
    assert_eq!(below.unwrap().context_tokens, Some(2_000));
}

#[tokio::test]
async fn messages_to_summarize_are_cut_to_the_summarizer_s_context() {
    let summarizer = ScriptedModel::always(reply::text("They said word."));
    let summarizer = Arc::new(summarizer.with_context_when_asked(1_000));
    let answers = ScriptedModel::always(reply::text("word ".repeat(1_500)));
    let orchestrator = builder(answers.with_context(8_000))
        .model(Role::ROUTER, summarizer.clone())
        .build()
        .unwrap();
    for _ in 0..8 {
        run_to_end(&orchestrator, request(&"please ".repeat(60)))
            .await
            .assert_valid(RunStatus::Done);
    }
    let asked = summarizer.requests();
    assert!(!asked.is_empty(), "nothing was summed up");
    for request in asked {
        let bytes: usize = request
            .messages
            .messages()
            .iter()
            .map(|it| it.text().len())
            .sum();
        let reply = request.max_output_tokens.unwrap();
        assert!(
            bytes / 3 + usize::try_from(reply).unwrap() <= 1_020,
            "{bytes} bytes, {reply}"
        );
    }
}

#[tokio::test]
async fn a_context_size_known_only_on_request_applies_from_the_first_run() {
    let store = Arc::new(MemoryStore::new());
    let answers = ScriptedModel::always(reply::text("word ".repeat(500)));
    let model = Arc::new(answers.with_context_when_asked(3_000));
    let orchestrator = builder(model.clone()).store(store).build().unwrap();
    let mut cuts = 0;
    for _ in 0..8 {
        let finished = run_to_end(&orchestrator, request(&"please ".repeat(60))).await;
        finished.assert_valid(RunStatus::Done);
        cuts += sizes(&finished).len();
        assert!(!finished.kinds().contains(&"llm_failed"));
    }
    assert!(cuts > 0, "nothing was left out");
    // Also without sessions and policy.
    let history = (0..8).map(|_| Message::user("please ".repeat(400)));
    let answered = Orchestrator::builder()
        .model(Role::REASONING, model)
        .build_agent()
        .unwrap();
    let execution = answered.execute_with_history(history.collect()).await;
    let sent = execution.unwrap().message_history.len();
    assert!(sent < 9, "{sent}");
}

#[tokio::test]
async fn trimmed_messages_are_not_summarized_by_a_role_the_mode_forbids() {
    let model =
        Arc::new(ScriptedModel::always(reply::text("word ".repeat(500))).with_context(3_000));
    let router = Arc::new(ScriptedModel::always(reply::text("They said word.")));
    let orchestrator = builder(model)
        .policy(policy("modes.exploratory.roles = ['reasoning']"))
        .model(Role::ROUTER, router.clone())
        .build()
        .unwrap();
    let mut cuts = 0;
    for _ in 0..8 {
        let finished = run_to_end(&orchestrator, request(&"please ".repeat(60))).await;
        finished.assert_valid(RunStatus::Done);
        cuts += sizes(&finished).len();
    }
    assert!(cuts > 0, "nothing was left out");
    assert_eq!(
        router.calls().len(),
        0,
        "a role that may not serve was asked"
    );
}

/// A tool whose definition takes about `tokens` tokens.
fn wordy(name: &str, tokens: usize) -> Arc<ScriptedTool> {
    let mut tool = spec(name).read_only().build();
    tool.description = "word".repeat(tokens).into();
    Arc::new(ScriptedTool::always(tool, Act::value("1")))
}

#[tokio::test(start_paused = true)]
async fn a_small_context_is_offered_only_tools_that_fit_and_a_warning_names_the_rest() {
    let model = Arc::new(ScriptedModel::always(reply::text("Yes.")).with_context(4_000));
    let orchestrator = builder(model.clone())
        .tool(wordy("first", 1_000))
        .tool(wordy("second", 3_000))
        .tool(wordy("third", 500))
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("Can you?")).await;
    finished.assert_valid(RunStatus::Done);
    let sent = model.requests().pop().unwrap();
    let offered: Vec<_> = sent.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(offered, ["first", "third", "read_output"]);
    let warned = finished
        .records()
        .iter()
        .find_map(|record| match &record.body {
            RecordBody::Warning(warning) => Some((**warning).clone()),
            _ => None,
        });
    let warned = warned.unwrap();
    assert_eq!(warned.code, "tools_left_out");
    assert!(
        warned.message.ends_with("not offered: second"),
        "{}",
        warned.message
    );
    neuraxis_engine::replay(&Default::default(), &finished.records()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_message_that_cannot_fit_is_refused_with_the_sizes() {
    let model = ScriptedModel::always(reply::text("Yes.")).with_context(2_000);
    let orchestrator = builder(model).tool(wordy("first", 500)).build().unwrap();
    let error = orchestrator
        .stream(request(&"word".repeat(4_000)))
        .await
        .unwrap_err();
    let told = error.to_string();
    assert!(
        told.contains("testkit/scripted's context of 2000 tokens"),
        "{told}"
    );
    // No tool would be offered together with it.
    assert!(told.contains("the definitions of 0 tools"), "{told}");
    assert!(told.contains("the messages about 4004"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_first_request_too_long_for_the_server_reports_the_sizes() {
    let overflow = LlmErrorKind::ContextOverflow {
        limit: Some(2_000),
        needed: Some(3_000),
    };
    let program = || {
        let error = LlmError::new(overflow.clone(), "too long");
        builder(ScriptedModel::new().then(Script::from(error)))
    };
    for (program, size, fewer) in [
        (program().tool(wordy("first", 500)), "2 tools about 6", true),
        (program(), "0 tools about 0", false),
    ] {
        let finished = run_to_end(&program.build().unwrap(), request("Can you?")).await;
        let reply = finished.result.reply;
        let size = format!("the definitions of {size}");
        assert!(reply.contains(&size), "{reply}");
        assert_eq!(reply.contains("offer fewer tools"), fewer, "{reply}");
        assert!(reply.contains("fewer tokens per minute"), "{reply}");
    }
}

//! The fakes follow the rules of their ports, and every rule is mounted.

use std::fs;
use std::path::Path;

mod the_scripted_model {
    use neuraxis_testkit::conformance::llm_client::Subject;
    use neuraxis_testkit::{Script, ScriptedModel, reply, request};

    fn subject() -> Subject {
        let model = ScriptedModel::answering(|request| {
            let asked = request
                .messages
                .messages()
                .first()
                .map(|message| message.text())
                .unwrap_or_default();
            match asked.as_str() {
                "think" => Script::from(reply::reasoned("hm, hm", "a longer answer")).split(3),
                "call" => Script::from(reply::text_and_calls(
                    "so:",
                    [("look", r#"{"at":"it"}"#), ("go", "{}")],
                )),
                _ => Script::from(reply::text("hello there")).split(4),
            }
        });
        let requests = [request("hello"), request("think"), request("call")];
        Subject::new(model, requests).with_stalled(ScriptedModel::always(Script::hanging()))
    }

    neuraxis_testkit::llm_client_suite!(subject());
}

mod a_client_that_does_not_stream {
    use neuraxis_core::{LlmError, ModelRequest, Reply};
    use neuraxis_ports::{CallContext, LlmClient, ModelInfo, async_trait};
    use neuraxis_testkit::conformance::llm_client::Subject;
    use neuraxis_testkit::{Script, ScriptedModel, reply, request};

    /// Leaves streaming to the port's default implementation.
    #[derive(Debug)]
    struct Whole(ScriptedModel);

    #[async_trait]
    impl LlmClient for Whole {
        async fn respond(
            &self,
            request: &ModelRequest,
            ctx: &CallContext,
        ) -> Result<Reply, LlmError> {
            self.0.respond(request, ctx).await
        }

        fn info(&self) -> ModelInfo {
            self.0.info()
        }
    }

    fn subject() -> Subject {
        let model = ScriptedModel::answering(|request| {
            let asked = request.messages.messages().first();
            match asked.map(|message| message.text()).as_deref() {
                Some("think") => reply::reasoned("hm, hm", "a longer answer"),
                Some("call") => {
                    reply::text_and_calls("so:", [("look", r#"{"at":"it"}"#), ("go", "{}")])
                }
                _ => reply::text("hello there"),
            }
        });
        let requests = [request("hello"), request("think"), request("call")];
        let stalled = Whole(ScriptedModel::always(Script::hanging()));
        Subject::new(Whole(model), requests).with_stalled(stalled)
    }

    neuraxis_testkit::llm_client_suite!(subject());
}

mod the_scripted_tool {
    use std::sync::Arc;

    use neuraxis_testkit::{ScriptedTool, spec};

    neuraxis_testkit::tool_suite!(
        Arc::new(ScriptedTool::echoing(spec("echo").read_only())),
        r#"{"say":"hello"}"#
    );
}

mod the_hanging_tool {
    use std::sync::Arc;

    use neuraxis_ports::Tool;
    use neuraxis_testkit::conformance::tool::a_cancelled_call_ends_promptly;
    use neuraxis_testkit::{Act, ScriptedTool, spec};

    #[tokio::test]
    async fn ends_when_it_is_cancelled() {
        let hanging = ScriptedTool::always(spec("hang"), Act::hanging());
        // The same type as a tool that was created from a function.
        let hanging: Arc<dyn Tool> = Arc::new(hanging);
        a_cancelled_call_ends_promptly((hanging, "{}")).await;
    }
}

mod the_recording_sink {
    use neuraxis_testkit::RecordingSink;

    neuraxis_testkit::trace_sink_suite!(RecordingSink::default());
}

mod the_scripted_approver {
    use neuraxis_testkit::ScriptedApprover;

    neuraxis_testkit::approver_suite!(ScriptedApprover::new());
}

mod the_virtual_clock {
    use std::time::Duration;

    use neuraxis_testkit::VirtualClock;

    neuraxis_testkit::clock_suite!(VirtualClock::ticking(Duration::from_millis(1)));
}

mod the_counting_ids {
    use neuraxis_testkit::CountingIds;

    neuraxis_testkit::ids_suite!(CountingIds::new());
}

mod the_scripted_search {
    use std::sync::Arc;
    use std::time::Duration;

    use neuraxis_ports::{WebSearch, WebSearchError};
    use neuraxis_testkit::ScriptedSearch;
    use neuraxis_testkit::conformance::web_search::{ReceivedQueries, SearchScene, Subject};

    fn subject() -> Subject {
        Subject::new(|scene| async move {
            let error = match scene {
                SearchScene::Finds(hits) => return made(ScriptedSearch::new(hits)),
                SearchScene::RefusesKey => WebSearchError::Unauthorized,
                SearchScene::IsBusy => WebSearchError::RateLimited {
                    retry_after: Some(Duration::from_secs(7)),
                },
                SearchScene::RefusesQuestion => WebSearchError::Refused { why: "no".into() },
                SearchScene::Fails => WebSearchError::Failing { status: 503 },
                SearchScene::IsNoService => WebSearchError::InvalidResponse { why: "no".into() },
                _ => WebSearchError::Timeout,
            };
            made(ScriptedSearch::failing(error))
        })
    }

    fn made(search: ScriptedSearch) -> (Arc<dyn WebSearch>, ReceivedQueries) {
        let search = Arc::new(search);
        let asked = Arc::clone(&search);
        (search, Arc::new(move || asked.queries()))
    }

    neuraxis_testkit::web_search_suite!(subject());
}

#[test]
fn every_rule_of_a_suite_is_mounted_by_its_macro() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance");
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            continue;
        }
        let suite = fs::read_to_string(&path).unwrap();
        let (_, list) = suite.split_once("mount_rules!").unwrap();
        let (list, _) = list.rsplit_once("] }").unwrap();
        let mounted: Vec<&str> = list
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .collect();
        let parts = fs::read_dir(path.with_extension("")).into_iter().flatten();
        let parts: String = parts
            .map(|part| fs::read_to_string(part.unwrap().path()).unwrap())
            .collect();
        let whole = format!("{suite}{parts}");
        let rules = whole
            .split("\npub async fn ")
            .skip(1)
            .map(|rest| rest.split(['(', '<']).next().unwrap());
        for rule in rules {
            assert!(mounted.contains(&rule), "{rule} is mounted nowhere");
        }
    }
}

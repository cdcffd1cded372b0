//! The model follows the rules of its port.

use neuraxis_offline::OfflineModel;
use neuraxis_testkit::conformance::llm_client::Subject;
use neuraxis_testkit::{messages, request, request_of, spec};

fn subject() -> Subject {
    let tools = [
        spec("current_time").read_only().build(),
        spec("system_health").read_only().build(),
    ];
    let mut calls = request("What time is it, and how is the CPU?");
    calls.tools = tools.into();
    let report = request_of([
        neuraxis_core::Message::user("How is the CPU?"),
        messages::calls([("call_1", "system_health", "{}")]),
        messages::result(
            "call_1",
            "system_health",
            r#"{"summary":["CPU 3 % of 8 cores"],"warnings":[]}"#,
        ),
    ]);
    Subject::new(
        OfflineModel::new(),
        [request("Write me a poem."), calls, report],
    )
}

neuraxis_testkit::llm_client_suite!(subject());

//! A wall clock that jumps: time limits and the order of records do not depend on it.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::jiff::SignedDuration;
use neuraxis_core::{RunStatus, Seq, ToolFailure};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{Clock, RunLog as _};
use neuraxis_testkit::{Act, Aftermath, ScriptedModel, ScriptedTool, VirtualClock, reply, spec};

use crate::support::{builder, request};

#[tokio::test(start_paused = true)]
async fn a_clock_jump_of_two_hours_changes_no_timeout_and_no_order() {
    for jump in [2_i64, -2] {
        let (store, clock) = (Arc::new(MemoryStore::new()), Arc::new(VirtualClock::new()));
        let jumping = clock.clone();
        let look = ScriptedTool::answering(spec("look").read_only(), move |_| {
            let by = SignedDuration::from_hours(jump);
            jumping.set(jumping.now().checked_add(by).unwrap());
            Act::value("1").after(Duration::from_secs(5))
        });
        let slow = ScriptedTool::always(spec("slow").read_only(), Act::hanging());
        let model = ScriptedModel::new()
            .then(reply::calls([("look", "{}")]))
            .then(reply::calls([("slow", "{}")]))
            .then(reply::text("ok"));
        let orchestrator = builder(model)
            .store(store.clone())
            .clock(clock.clone())
            .tools([Arc::new(look) as Arc<_>, Arc::new(slow) as Arc<_>])
            .build()
            .unwrap();
        let (before, began) = (clock.now(), tokio::time::Instant::now());
        let result = orchestrator.handle(request("go")).await.unwrap();
        assert_eq!(result.status, RunStatus::Done);
        // Five seconds for one tool, and the thirty-second time limit of a tool.
        assert_eq!(began.elapsed().as_secs(), 35, "{jump}");
        let records = store.records(result.run_id, Seq(0)).await.unwrap();
        Aftermath::of(&records).assert_ended();
        let active: Vec<_> = records
            .iter()
            .filter_map(|record| record.active_ms)
            .collect();
        assert!(active.is_sorted(), "{active:?}");
        let told = records.last().unwrap().at;
        assert_eq!(told > before, jump > 0, "the records tell the wall's time");
        let timed_out = records.iter().any(|record| {
            matches!(&record.body, neuraxis_core::RecordBody::ToolResult(result)
                if result.failure == Some(ToolFailure::Timeout))
        });
        assert!(timed_out);
    }
}

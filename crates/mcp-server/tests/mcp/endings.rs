//! Calls that are cancelled, and clients that disconnect.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::RunStatus;
use neuraxis_mcp_server::McpServer;
use neuraxis_ports::CancellationToken;
use neuraxis_testkit::{Script, ScriptedModel};
use rmcp::model::{
    CallToolRequest, CallToolResult, ClientConfig, ClientRequest, ElicitRequestParams,
    ElicitResult, ErrorData,
};
use rmcp::service::{PeerRequestOptions, RequestContext, RunningService, ServiceError};
use rmcp::{ClientHandler, RoleClient, ServiceExt};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::support::{ERAS, Person, Served, connect, request, server, status, text, until};

/// A user who is asked and does not answer.
pub(crate) struct Silent(pub(crate) Person);

impl ClientHandler for Silent {
    fn get_info(&self) -> ClientConfig {
        self.0.get_info()
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.0.asked.lock().unwrap().push(format!("{request:?}"));
        std::future::pending().await
    }
}

pub(crate) async fn connect_silent(
    server: &McpServer,
    person: Silent,
) -> RunningService<RoleClient, Silent> {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (input, output) = tokio::io::split(ours);
    tokio::spawn(server.clone().serve(input, output, std::future::pending()));
    person.serve(theirs).await.unwrap()
}

/// A call in the session `s1` whose model has been called.
async fn asked(
    served: &Served,
    model: &ScriptedModel,
) -> JoinHandle<Result<CallToolResult, ServiceError>> {
    let peer = served.client.peer().clone();
    let call = request("ask", json!({"message": "x", "session": "s1"}));
    let calling = tokio::spawn(async move { peer.call_tool(call).await });
    until("the model is asked", async || model.open_calls() == 1).await;
    calling
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_call_cancels_its_run() {
    for era in &ERAS {
        let model = Arc::new(ScriptedModel::always(Script::hanging()));
        let (server, orchestrator) = server(&model, &[]);
        let served = connect(&server, era, &Person::absent()).await;
        let call = request("ask", json!({"message": "x", "session": "s1"}));
        let call = ClientRequest::CallToolRequest(CallToolRequest::new(call));
        let options = PeerRequestOptions::no_options();
        let sent = served.client.send_cancellable_request(call, options);
        let sent = sent.await.unwrap();
        until("the model is asked", async || model.open_calls() == 1).await;
        sent.cancel(Some("changed my mind".to_owned()))
            .await
            .unwrap();
        until("the run has ended", async || {
            status(&orchestrator, "s1").await == Some(RunStatus::Interrupted)
        })
        .await;
        assert_eq!(model.open_calls(), 0);
        // The session is free, and the connection still works.
        assert_eq!(served.client.list_all_tools().await.unwrap().len(), 3);
        served.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_disconnects_mid_run_interrupts_the_run() {
    for era in &ERAS {
        let model = Arc::new(ScriptedModel::always(Script::hanging()));
        let (server, orchestrator) = server(&model, &[]);
        let served = connect(&server, era, &Person::absent()).await;
        let calling = asked(&served, &model).await;
        drop(served.client);
        calling.abort();
        // Serving ends only once the run has ended.
        served.server.await.unwrap().unwrap();
        assert_eq!(
            status(&orchestrator, "s1").await,
            Some(RunStatus::Interrupted)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_client_does_not_cancel_its_run_while_the_orchestrator_stops() {
    let model = Arc::new(ScriptedModel::always(Script::hanging()));
    let (server, orchestrator) = server(&model, &[]);
    let stopping = CancellationToken::new();
    let server = server.stopping(stopping.clone());
    let served = connect(&server, &ERAS[0], &Person::absent()).await;
    let calling = asked(&served, &model).await;
    stopping.cancel();
    drop(served.client);
    calling.abort();
    served.server.await.unwrap().unwrap();
    assert_eq!(status(&orchestrator, "s1").await, Some(RunStatus::Running));
}

#[tokio::test(start_paused = true)]
async fn a_lost_client_still_cancels_its_run_after_asking_has_ended() {
    let model = Arc::new(ScriptedModel::always(Script::hanging()));
    let (server, orchestrator) = server(&model, &[]);
    let until = CancellationToken::new();
    let server = server.asking_until(until.clone());
    let served = connect(&server, &ERAS[1], &Person::absent()).await;
    let calling = asked(&served, &model).await;
    until.cancel();
    drop(served.client);
    calling.abort();
    served.server.await.unwrap().unwrap();
    let status = status(&orchestrator, "s1").await;
    assert_eq!(status, Some(RunStatus::Interrupted));
}

#[tokio::test(start_paused = true)]
async fn a_call_names_the_session_when_its_run_is_left_to_the_next_server() {
    for era in &ERAS {
        let model = Arc::new(ScriptedModel::always(Script::hanging()));
        let (server, orchestrator) = server(&model, &[]);
        let served = connect(&server, era, &Person::absent()).await;
        let calling = asked(&served, &model).await;
        let left = orchestrator.suspend(Duration::ZERO).await;
        let result = calling.await.unwrap().unwrap();
        assert_eq!(result.is_error, Some(true));
        let message = text(&result);
        let begins = format!("run {} of session s1 has not ended: ", left[0]);
        assert!(message.starts_with(&begins), "{message}");
        assert!(message.contains("the next one resumes it"), "{message}");
        assert!(message.contains("Do not repeat the request"), "{message}");
        assert!(message.contains("neuraxis://sessions/s1"), "{message}");
        assert_eq!(status(&orchestrator, "s1").await, Some(RunStatus::Running));
        served.leave().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_server_cancels_its_runs_and_ends() {
    let model = Arc::new(ScriptedModel::always(Script::hanging()));
    let (server, orchestrator) = server(&model, &[]);
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (input, output) = tokio::io::split(ours);
    let (stop_sender, stopped) = tokio::sync::oneshot::channel::<()>();
    let stop = async { drop(stopped.await) };
    let serving = tokio::spawn(server.serve(input, output, stop));
    let client = Person::absent().serve(theirs).await.unwrap();
    let peer = client.peer().clone();
    let call = request("ask", json!({"message": "x", "session": "s1"}));
    tokio::spawn(async move { peer.call_tool(call).await });
    until("the model is asked", async || model.open_calls() == 1).await;
    stop_sender.send(()).unwrap();
    serving.await.unwrap().unwrap();
    assert_eq!(
        status(&orchestrator, "s1").await,
        Some(RunStatus::Interrupted)
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_nothing_is_no_error() {
    let (server, _) = server(&Arc::new(ScriptedModel::new()), &[]);
    let (ours, theirs) = tokio::io::duplex(64);
    let (input, output) = tokio::io::split(ours);
    drop(theirs);
    server
        .serve(input, output, std::future::pending())
        .await
        .unwrap();
}

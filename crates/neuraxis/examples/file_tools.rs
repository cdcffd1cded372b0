//! The file tools, confined to one folder, with calls chosen by rules instead of a model.
//!
//! `cargo run -p neuraxis --example file_tools`; it works in a temporary folder and needs no key and no network.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::fs;
use std::sync::Arc;

use anyhow::Result;
use neuraxis::memory::MemoryStore;
use neuraxis::offline::OfflineModel;
use neuraxis::{Channel, Mode, Orchestrator, Role, tools};

#[tokio::main]
async fn main() -> Result<()> {
    let project = tempfile::tempdir()?;
    fs::write(
        project.path().join("notes.txt"),
        "Buy milk.\nCall Ada about the engine.\n",
    )?;

    let orchestrator = Orchestrator::builder()
        .model(Role::CODING, Arc::new(OfflineModel))
        .tools(tools::project_files(project.path())?)
        .store(Arc::new(MemoryStore::default()))
        .build()?;
    let session = "example".parse()?;
    let questions = [
        "List the files.",
        "Search for \"Ada\".",
        "Read notes.txt",
        "Read ../secrets.txt",
    ];
    for question in questions {
        let result = orchestrator
            .handle_user_request(&session, question, Mode::MODERATE, Channel::CODE_TASK)
            .await?;
        println!("> {question}\n{}\n", result.reply);
    }
    Ok(())
}

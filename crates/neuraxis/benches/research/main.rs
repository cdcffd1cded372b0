//! One deep-research request whose lead assigns 1, 10 and 50 topics at the same time: the cost of researchers that work
//! concurrently.
//!
//! Run it with `cargo xtask bench research`. Everything happens in this process and in memory. The model takes half a
//! second per answer. Each researcher calls it three times, searches once and reads three pages of 20 kB in parallel.
//! The limits are those of [`POLICY`]: the default ones would end the larger rounds early.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints what it measured"
)]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use cpu_time::ProcessTime;
use neuraxis::brainstem::{Policy, PolicyConfig};
use neuraxis::core::{JsonText, Message, ModelRequest, Source, ToolOutput};
use neuraxis::memory::MemoryStore;
use neuraxis::{Channel, Mode, Orchestrator, Role, UserRequest};
use neuraxis_testkit::{Act, Script, ScriptedModel, ScriptedTool, reply, spec};

/// The number of topics per round.
const ROUNDS: [usize; 3] = [1, 10, 50];

/// How long the model takes for each answer.
const THINKING: Duration = Duration::from_millis(500);

/// The size of a page in bytes.
const PAGE: usize = 20_000;

/// The number of pages that a researcher reads.
const PAGES: usize = 3;

const POLICY: &str = r#"
[channels.deep_research]
self_check = "never"

[agents.deep_research]
max_tool_calls = 1_000
parallel_agents = 50

[agents.researcher]
parallel = "all"
"#;

fn main() -> ExitCode {
    let measured = tokio::runtime::Runtime::new()
        .context("there is no runtime")
        .and_then(|runtime| runtime.block_on(measure()));
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure() -> Result<()> {
    println!("| researchers | wall time | processor time | most memory | sources cited |");
    println!("| ---: | ---: | ---: | ---: | ---: |");
    for topics in ROUNDS {
        let orchestrator = orchestrator(topics)?;
        let (wall, processor) = (Instant::now(), ProcessTime::now());
        let request = UserRequest::new(format!("round-{topics}").parse()?, "What is known?")
            .channel(Channel::DEEP_RESEARCH)
            .mode(Mode::EXPLORATORY);
        let result = orchestrator.handle(request).await?;
        let cited = result.sources.len();
        ensure!(
            cited == PAGES * topics,
            "{cited} sources of {topics} topics: {}",
            result.reply
        );
        println!(
            "| {topics} | {:.1} s | {:.2} s | {} | {cited} |",
            wall.elapsed().as_secs_f64(),
            processor.elapsed().as_secs_f64(),
            most_memory(),
        );
    }
    Ok(())
}

fn orchestrator(topics: usize) -> Result<Orchestrator> {
    let search = ScriptedTool::echoing(spec("web_search").read_only());
    let fetch = ScriptedTool::answering(spec("web_fetch").read_only(), |arguments| {
        let url = format!("https://a.example/{}", arguments.as_str().len());
        let url = arguments
            .as_str()
            .split('"')
            .nth(3)
            .map_or(url, str::to_owned);
        let page = JsonText::string(&"word ".repeat(PAGE / 5));
        Act::output(ToolOutput::new(page).with_source(Source::new(url)))
    });
    let model = ScriptedModel::answering(move |request| answer(request, topics).after(THINKING));
    let policy = Policy::layered(PolicyConfig::from_toml(POLICY)?)?;
    let built = Orchestrator::builder()
        .model(Role::REASONING, Arc::new(model))
        .tool(Arc::new(search))
        .tool(Arc::new(fetch))
        .policy(policy)
        .store(Arc::new(MemoryStore::default()))
        .build()?;
    Ok(built)
}

/// Returns what the lead or a researcher says next.
fn answer(request: &ModelRequest, topics: usize) -> Script {
    let messages = request.messages.messages();
    let results = messages
        .iter()
        .filter(|it| matches!(***it, Message::Tool(_)));
    let results: Vec<String> = results.map(|message| message.text()).collect();
    let is_lead = request
        .tools
        .iter()
        .any(|tool| tool.name.as_str() == "research");
    let said = match (is_lead, results.len()) {
        (true, 0) => {
            let names: Vec<String> = (0..topics)
                .map(|topic| format!("\"topic-{topic}\""))
                .collect();
            let arguments = format!("{{\"topics\":[{}]}}", names.join(","));
            reply::calls([("research", arguments.as_str())])
        }
        (true, _) => reply::text(results.concat()),
        (false, 0) => reply::calls([("web_search", r#"{"query":"what is known"}"#)]),
        (false, 1) => {
            let pages: Vec<String> = urls(messages)
                .map(|url| format!("{{\"url\":\"{url}\"}}"))
                .collect();
            reply::calls(pages.iter().map(|page| ("web_fetch", page.as_str())))
        }
        (false, _) => {
            let read: Vec<String> = urls(messages).collect();
            reply::text(format!("It is so: {} .", read.join(" and ")))
        }
    };
    said.into()
}

/// Returns the addresses of the pages of a researcher's topic.
fn urls(messages: &[Arc<Message>]) -> impl Iterator<Item = String> {
    let mut users = messages
        .iter()
        .filter(|it| matches!(***it, Message::User { .. }));
    let topic = users
        .next()
        .map(|message| message.text())
        .unwrap_or_default();
    (0..PAGES).map(move |page| format!("https://a.example/{topic}/{page}"))
}

/// Returns the process's peak memory, if the system reports it.
fn most_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = most.and_then(|most| most.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.map_or_else(|| "?".to_owned(), |most| format!("{} MiB", most / 1_024))
}

//! Deep research, from end to end: a model that follows rules, a search service and a site of a hundred pages.

mod model;
mod web;

use serde_json::Value;

use crate::machine::Machine;
use model::{MADE_UP, Model};
use web::{Site, TOPICS};

fn machine(model: &Model, site: &Site, search: &Site) -> Machine {
    let text = format!(
        "[models.reasoning]\nprovider = 'openai'\napi = 'chat'\nmodel = 'gpt-test'\n\
         base_url = '{}/v1'\napi_key_env = 'MY_KEY'\n\
         [web]\nallow_hosts = ['{}']\n\
         [web.search]\nprovider = 'searxng'\nbase_url = '{}'\n",
        model.server.url(),
        site.host(),
        search.url()
    );
    Machine::new().with_file("neuraxis.toml", text)
}

fn ask(machine: &Machine) -> Value {
    ask_with(machine, &[])
}

fn ask_with(machine: &Machine, more: &[&str]) -> Value {
    let arguments = [
        "ask",
        "--channel",
        "deep_research",
        "--mode",
        "exploratory",
        "--format",
        "json",
    ];
    let question = ["How does the earth change?"];
    let mut command = machine.command(arguments.iter().chain(more).chain(&question));
    command.env("MY_KEY", "sk-test");
    let done = command.output().unwrap();
    let (stdout, stderr) = (
        String::from_utf8(done.stdout).unwrap(),
        String::from_utf8(done.stderr).unwrap(),
    );
    assert!(done.status.success(), "{stderr}\n{stdout}");
    serde_json::from_str(&stdout).unwrap()
}

#[test]
fn deep_research_plans_reads_in_parallel_closes_a_gap_and_cites_only_pages_it_read() {
    let topics = TOPICS.map(str::to_owned);
    let (model, site) = (Model::start(&topics), web::pages());
    let search = web::search(&site);
    let machine = machine(&model, &site, &search);
    let result = ask(&machine);

    assert_eq!(
        model.at_the_same_time(),
        topics.len(),
        "researchers work at the same time"
    );
    let reply = result["reply"].as_str().unwrap();
    let sources = result["sources"].as_array().unwrap();
    assert_eq!(sources.len(), 4 * topics.len(), "{reply}");
    let read = site.asked();
    for source in sources {
        let url = source["url"].as_str().unwrap();
        let path = url.strip_prefix(&site.url()).unwrap();
        assert!(
            read.iter().any(|target| target == path),
            "{url} was not read"
        );
        assert!(
            source["title"].as_str().unwrap().contains("at station"),
            "{source}"
        );
    }
    assert!(reply.contains("- Finding 0 is certain [1].\n"), "{reply}");
    assert!(
        reply.contains("\n1. [") && reply.contains("1 citation was removed"),
        "{reply}"
    );
    assert!(
        !reply.contains(MADE_UP) && !reply.contains("evil.example"),
        "{reply}"
    );

    let steps = result["steps"].as_array().unwrap();
    let kinds: Vec<&str> = steps
        .iter()
        .map(|step| step["type"].as_str().unwrap())
        .collect();
    assert!(kinds.contains(&"plan"), "{kinds:?}");
    let is_refused = |step: &&Value| {
        step["metadata"]["error"]
            .to_string()
            .contains("blocked_address")
    };
    assert!(
        steps.iter().filter(is_refused).count() > 0,
        "the page of nobody's is refused: {steps:#?}"
    );
}

#[test]
fn a_page_is_fetched_once_per_run_however_many_researchers_read_it() {
    let topics = ["tides", "tides of the sea"].map(str::to_owned);
    let (model, site) = (Model::start(&topics), web::pages());
    let search = web::search(&site);
    ask(&machine(&model, &site, &search));
    let mut read = site.asked();
    read.retain(|target| target.starts_with("/page/"));
    read.sort_unstable();
    let all = read.len();
    read.dedup();
    assert_eq!(read.len(), all, "{read:?}");
}

#[test]
fn research_that_reaches_its_deadline_answers_from_the_pages_read_so_far() {
    let topics = TOPICS.map(str::to_owned);
    let (model, site) = (Model::losing_the_last(&topics), web::pages());
    let search = web::search(&site);
    let machine = machine(&model, &site, &search);
    let result = ask_with(&machine, &["--set", "modes.exploratory.deadline=10s"]);
    assert_eq!(result["finish_reason"], "deadline", "{result}");
    assert_eq!(result["status"], "done", "{result}");
    let reply = result["reply"].as_str().unwrap();
    assert!(reply.contains("- Finding 0 is certain [1].\n"), "{reply}");
    let sources = result["sources"].as_array().unwrap();
    assert_eq!(sources.len(), 4 * topics.len(), "{reply}");
}

#[test]
fn research_without_a_search_service_reports_that_none_is_configured() {
    let question = [
        "ask",
        "--channel=deep_research",
        "--mode=exploratory",
        "What is new?",
    ];
    let done = Machine::new().command(question).output().unwrap();
    let stderr = String::from_utf8(done.stderr).unwrap();
    // No rule does research.
    assert_eq!(done.status.code(), Some(6), "{stderr}");
    assert!(
        stderr.contains("no search service is configured"),
        "{stderr}"
    );
    assert!(stderr.contains("doctor"), "{stderr}");
}

#[cfg(unix)]
#[test]
fn interrupting_research_also_stops_a_researcher_that_never_returns() {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::process::Stdio;

    use rustix::process::{Pid, Signal, kill_process};

    let topics = TOPICS.map(str::to_owned);
    let (model, site) = (Model::losing_the_last(&topics), web::pages());
    let search = web::search(&site);
    let machine = machine(&model, &site, &search);
    let mut command = machine.command([
        "ask",
        "--channel=deep_research",
        "--mode=exploratory",
        "--format=events",
        "How does the earth change?",
    ]);
    let command = command.env("MY_KEY", "sk-test").stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut heard = String::new();
    loop {
        let before = heard.len();
        assert_ne!(stdout.read_line(&mut heard).unwrap(), 0, "{heard}");
        let line = &heard[before..];
        if line.contains("\"type\":\"tool_result\"") && line.contains("web_fetch") {
            break;
        }
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    stdout.read_to_string(&mut heard).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{heard}");
    let last = heard.lines().last().unwrap();
    let last: Value = serde_json::from_str(last).unwrap();
    assert_eq!(
        (&last["type"], &last["finish_reason"]),
        (&"final".into(), &"cancelled".into()),
        "{last}"
    );
}

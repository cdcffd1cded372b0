//! Examples in README and documents, used unchanged. Every shell command runs on a machine for its document and must
//! end with code 0, except where the table here says otherwise; every block of TOML must be a valid configuration.
//!
//! Commands of the server are run by the tests of `neuraxis-server`. Rust is compiled by those of the crate `neuraxis`.

use std::path::Path;
use std::process::Command;

use neuraxis_testkit::documents::{Block, CommandOutput, blocks, run_all};

use crate::machine::{Done, Machine};
use crate::scripted::{Scripted, Turn};

/// What is expected of a command instead of code 0.
#[derive(Debug, Clone, Copy)]
enum Instead {
    /// This code.
    Exits(i32),
    /// The command is not run, for this reason.
    IsNotRun(&'static str),
}
use Instead::{Exits, IsNotRun};

const PERSON: Instead = IsNotRun("a person at a terminal is asked");
const NETWORK: Instead = IsNotRun("it reaches the network");
const WORKSPACE: Instead = IsNotRun("it builds the workspace");
const OTHERS: Instead = IsNotRun("it starts somebody else's service");
/// The machine of this document has no model.
const NO_MODEL: Instead = Exits(6);

/// Commands, identified by their beginning, that do not end with code 0.
const EXCEPTIONS: [(&str, &str, Instead); 20] = [
    (
        "README.md",
        "neuraxis() {",
        IsNotRun("it builds the program that is there"),
    ),
    ("README.md", "export OPENAI_API_KEY", NETWORK),
    ("README.md", "git log -3 | neuraxis", NO_MODEL),
    ("README.md", "neuraxis -f README.md", NO_MODEL),
    ("README.md", "neuraxis ask \"${store[@]}\"", Exits(5)),
    ("README.md", "neuraxis trust add", Exits(2)),
    ("README.md", "cargo xtask", WORKSPACE),
    ("README.md", "cargo run -p neuraxis --example", WORKSPACE),
    (
        "docs/evals.md",
        "neuraxis eval evals.toml --set",
        IsNotRun("it takes another model"),
    ),
    (
        "docs/mcp.md",
        "neuraxis mcp add",
        IsNotRun("a package is fetched"),
    ),
    (
        "docs/mcp.md",
        "neuraxis mcp test",
        IsNotRun("its server is in that package"),
    ),
    // No call in this machine's runs produced that much output.
    (
        "docs/long-results.md",
        "neuraxis runs output last a0_",
        Exits(1),
    ),
    // Its last run has ended.
    ("docs/runs.md", "neuraxis runs steer", Exits(1)),
    ("docs/observability.md", "podman ", OTHERS),
    ("docs/performance.md", "cargo ", WORKSPACE),
    // On this machine, no session has an owner.
    (
        "docs/privacy.md",
        "neuraxis sessions export --owner",
        Exits(1),
    ),
    (
        "docs/sessions.md",
        "neuraxis sessions delete --owner",
        Exits(1),
    ),
    (
        "docs/pipes.md",
        "neuraxis -m anthropic",
        IsNotRun("it takes a key of Anthropic"),
    ),
    ("docs/web.md", "neuraxis tools call web_fetch", NETWORK),
    ("docs/policy.md", "neuraxis trust add", PERSON),
];

/// Documents whose commands depend on what a model says.
const WITH_MODEL: [&str; 7] = [
    "docs/answers.md",
    "docs/evals.md",
    "docs/long-results.md",
    "docs/mcp.md",
    "docs/observability.md",
    "docs/pipes.md",
    "docs/runs.md",
];

/// The commands that set up a document's environment before its first command.
const PRELUDE: &str = r#"
neuraxis() { "$NEURAXIS" "$@"; }
git init -q . && git config user.name t && git config user.email t@example.com
git add README.md && git commit -q -m "The first words" && printf 'more\n' >> README.md
neuraxis ask --session begun "What time is it?" >/dev/null 2>&1
"#;

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns whether a block is run by the tests of the server.
fn is_of_server(block: &Block) -> bool {
    ["neuraxis-server", "127.0.0.1:8787"]
        .iter()
        .any(|word| block.text.contains(word))
}

fn exception(document: &str, command: &str) -> Option<usize> {
    EXCEPTIONS
        .iter()
        .position(|(of, begins, _)| *of == document && command.starts_with(begins))
}

/// Replaces placeholders of the documents with values from actual runs.
fn filled_in(command: &str) -> String {
    let question =
        r#"$(neuraxis approvals "${store[@]}" list --format json | jq -r '.[0].question')"#;
    let head = "$(neuraxis sessions verify trip --format json | jq -r '.[0].head')";
    command
        .replace("cargo run -p neuraxis-cli --", "neuraxis")
        .replace(" RUN", " last")
        .replace("9b7a5c31", "last")
        .replace("QUESTION ", &format!("{question} "))
        .replace("expect HEAD", &format!("expect {head}"))
}

fn machine_of(document: &str, model: &Scripted) -> Machine {
    let machine = if WITH_MODEL.contains(&document) {
        model.machine_with_roles()
    } else {
        Machine::new()
    };
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    machine
        .with_file("README.md", readme)
        .with_file("main.rs", "fn main() {}\n")
        .with_file("error.log", "it failed\n")
        .with_file("screenshot.png", PNG)
        .with_file("place.json", PLACE)
        .with_file("evals.toml", EVALS)
        .with_file("team-policy.toml", "[rules.none]\nanswer = \"deny\"\ntools = [\"run_command\"]\n")
        .with_file("policy-cases.toml", "[[case]]\nmode = \"moderate\"\nchannel = \"chat\"\ntool = \"current_time\"\nexpect = \"allow\"\n")
}

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde";
const PLACE: &str = r#"{"title":"Place","type":"object","required":["city"],"properties":{"city":{"type":"string"}}}"#;
const EVALS: &str = "[[case]]\nname = \"it answers\"\nmessage = \"What time is it?\"\ncheck = [{ max_turns = 3 }]\n";

fn run(document: &str, commands: &[String]) -> Vec<CommandOutput> {
    let model = Scripted::start(std::iter::repeat_n(
        Turn::Says(&[r#"{"city":"Delft"}"#]),
        200,
    ));
    let machine = machine_of(document, &model);
    let ours = machine.command([""; 0]);
    let mut shell = Command::new("bash");
    for (name, value) in ours.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell
        .env("NEURAXIS", ours.get_program())
        .env("MY_KEY", "k")
        .env("NEURAXIS_MODELS__CODING__PROVIDER", "offline")
        .current_dir(machine.path(""));
    if WITH_MODEL.contains(&document) {
        shell.env_remove("NEURAXIS_MODELS__CODING__PROVIDER");
    }
    let commands: Vec<String> = commands.iter().map(|it| filled_in(it)).collect();
    run_all(&mut shell, PRELUDE, &commands, machine.root()).unwrap()
}

#[test]
fn every_documented_command_exits_with_the_expected_code() {
    let blocks = blocks(&root()).unwrap();
    let ours = || blocks.iter().filter(|block| !is_of_server(block));
    let mut documents: Vec<&str> = ours().map(|block| block.document.as_str()).collect();
    documents.dedup();
    let mut used = [false; EXCEPTIONS.len()];
    let mut wrong = Vec::new();
    let mut count = 0;
    for document in documents {
        let of_document = ours().filter(|block| block.document == document);
        let mut commands: Vec<String> = of_document.flat_map(Block::commands).collect();
        commands.retain(|command| {
            let place = exception(document, command);
            used[place.unwrap_or(0)] |= place.is_some();
            match place.map(|place| EXCEPTIONS[place].2) {
                Some(IsNotRun(why)) => {
                    println!("{document}: {command}: not run: {why}");
                    false
                }
                _ => true,
            }
        });
        if commands.is_empty() {
            continue;
        }
        for (command, ran) in commands.iter().zip(run(document, &commands)) {
            count += 1;
            let expected = match exception(document, command).map(|place| EXCEPTIONS[place].2) {
                Some(Exits(code)) => code,
                _ => 0,
            };
            if ran.code != expected || ran.stderr.contains("panicked") {
                wrong.push(format!(
                    "{document}: {command}: expected {expected}: {ran:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(count > 60, "{count} commands were run");
    let unused: Vec<_> = EXCEPTIONS
        .iter()
        .zip(used)
        .filter(|(_, used)| !used)
        .collect();
    assert!(unused.is_empty(), "no document has these: {unused:?}");
}

/// Blocks that are not a configuration on their own, identified by a word in them, and the tests that cover them.
const NO_CONFIGURATION: [(&str, &str); 2] = [
    (
        "[[case]]",
        "cases of a policy or an eval, which the tests of each run",
    ),
    ("[dependencies]", "what a program that embeds it builds on"),
];

#[test]
fn every_toml_block_in_the_documents_is_a_valid_configuration() {
    let mut count = 0;
    for block in blocks(&root()).unwrap() {
        let is_other = NO_CONFIGURATION
            .iter()
            .any(|(word, _)| block.text.contains(word));
        if block.language != "toml" || is_other {
            continue;
        }
        count += 1;
        let prices = root().join("crates/brainstem/public-prices.toml");
        let machine = Machine::new()
            .with_file("block.toml", &block.text)
            .with_file("prices.toml", std::fs::read(prices).unwrap());
        let done: Done = machine
            .command(["config", "show", "--config", "block.toml"])
            .output()
            .unwrap()
            .into();
        let place = format!("{}:{}", block.document, block.line);
        assert_eq!(done.code, Some(0), "{place}: {done:?}");
    }
    assert!(count > 15, "{count} blocks");
}

/// The front page of the crate `neuraxis` is compiled and run with its tests, and so are the pages that its source
/// names.
#[test]
fn every_rust_block_in_the_documents_is_compiled() {
    let source = std::fs::read_to_string(root().join("crates/neuraxis/src/lib.rs")).unwrap();
    let front = source.lines().filter_map(|line| line.strip_prefix("//!"));
    let shown = front.filter(|line| !line.starts_with(" # "));
    let shown: String = shown
        .map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)))
        .collect();
    for block in blocks(&root()).unwrap() {
        let kind = block.language.split(',').next().unwrap_or_default();
        if kind != "rust" || block.language.contains("ignore") {
            continue;
        }
        let is_compiled = match block.document.as_str() {
            "README.md" => shown.contains(&block.text),
            page => source.contains(&format!("include_str!(\"../../../{page}\")")),
        };
        assert!(is_compiled, "{}:{}", block.document, block.line);
    }
}

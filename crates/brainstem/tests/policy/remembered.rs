//! Users' answers that a session remembers.

use neuraxis_brainstem::{Call, GrantError, GrantScope, Grants, Policy};
use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{Channel, Decision, JsonText, Mode, Taint, ToolSpec, Verdict};

use crate::catalog::{layered, named, offering_all, word};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

/// Untrusted content makes nothing ask again, so remembered answers also apply to tools that return it.
const TRUSTING: &str = "[modes.moderate]\nafter_untrusted = 'allow'\n";

struct Session {
    policy: Policy,
    decision: Decision,
    remembered: Grants,
}

impl Session {
    fn new(config: &str) -> Self {
        let policy = layered(config);
        let decision = offering_all(&policy, &Mode::MODERATE, &Channel::CODE_TASK);
        Self {
            policy,
            decision,
            remembered: Grants::default(),
        }
    }

    fn judge(&self, tool: &ToolSpec, arguments: &str) -> Verdict {
        let arguments = JsonText::from_text(arguments);
        let call = Call::new(tool, &arguments).with_remembered(&self.remembered);
        self.policy.judge(&self.decision, &call)
    }

    fn remember(
        &mut self,
        tool: &ToolSpec,
        arguments: &str,
        scope: GrantScope,
    ) -> Result<u32, GrantError> {
        let arguments = JsonText::from_text(arguments);
        let call = Call::new(tool, &arguments);
        self.policy.remember(
            &mut self.remembered,
            &self.decision,
            &call,
            scope,
            NOW,
            Some("me".to_owned()),
        )
    }

    fn choices(&self, tool: &ToolSpec, arguments: &str) -> Vec<GrantScope> {
        let arguments = JsonText::from_text(arguments);
        self.policy
            .grant_choices(&self.decision, &Call::new(tool, &arguments))
    }
}

fn command(pattern: &str) -> GrantScope {
    GrantScope::Command {
        pattern: pattern.to_owned(),
        access: Vec::new(),
    }
}

#[test]
fn a_grant_for_a_tool_is_remembered_listed_and_revoked() {
    let mut session = Session::new(TRUSTING);
    let fetch = named("web_fetch");
    let id = session
        .remember(&fetch, r#"{"url":"https://a.org"}"#, GrantScope::Tool)
        .unwrap();
    assert_eq!(
        word(&session.judge(&fetch, r#"{"url":"https://b.org"}"#)),
        "allow"
    );
    let grants = session.remembered.grants();
    assert_eq!(
        (grants.len(), grants[0].id, grants[0].by.as_deref()),
        (1, id, Some("me"))
    );
    let text = serde_json(&session.remembered);
    assert!(text.contains(r#""scope":"tool""#), "{text}");
    assert!(session.remembered.revoke(id));
    assert!(!session.remembered.revoke(id));
    assert_eq!(
        word(&session.judge(&fetch, r#"{"url":"https://b.org"}"#)),
        "ask"
    );
}

#[test]
fn a_tool_grant_applies_only_if_the_whole_tool_may_be_remembered() {
    let care = "[rules.care]\nanswer = 'ask'\ntools = ['web_fetch']\nmodes = ['exploratory']\nremember = 'arguments'";
    let mut session = Session::new(&format!("{TRUSTING}{care}"));
    let (fetch, arguments) = (named("web_fetch"), r#"{"url":"https://a.org"}"#);
    session
        .remember(&fetch, arguments, GrantScope::Tool)
        .unwrap();
    assert_eq!(word(&session.judge(&fetch, arguments)), "allow");
    session.decision = offering_all(&session.policy, &Mode::EXPLORATORY, &Channel::CODE_TASK);
    assert_eq!(word(&session.judge(&fetch, arguments)), "ask");
    let hash = JsonText::from_text(arguments).hash();
    session
        .remember(&fetch, arguments, GrantScope::Arguments { hash })
        .unwrap();
    assert_eq!(word(&session.judge(&fetch, arguments)), "allow");
}

#[test]
fn a_grant_for_exact_arguments_covers_no_others() {
    let mut session = Session::new(TRUSTING);
    let (run, arguments) = (named("run_command"), r#"{"command":"make clean"}"#);
    let hash = JsonText::from_text(arguments).hash();
    session
        .remember(&run, arguments, GrantScope::Arguments { hash })
        .unwrap();
    assert_eq!(word(&session.judge(&run, arguments)), "allow");
    assert_eq!(word(&session.judge(&run, r#"{"command":"make"}"#)), "ask");
    assert_eq!(
        word(&session.judge(&named("apply_patch"), arguments)),
        "ask"
    );
}

#[test]
fn a_grant_applies_only_at_the_root_where_it_was_given() {
    let mut session = Session::new(TRUSTING);
    let (write, run) = (named("write_file"), named("run_command"));
    let path = GrantScope::Path {
        pattern: "src/**".to_owned(),
    };
    let given = [
        (&write, r#"{"path":"src/a.rs","content":""}"#, path),
        (
            &run,
            r#"{"command":"cargo test -p x"}"#,
            command("cargo test **"),
        ),
    ];
    for (tool, arguments, scope) in given {
        let arguments = JsonText::from_text(arguments);
        let call = Call::new(tool, &arguments).with_root("/one");
        let (policy, decision) = (&session.policy, &session.decision);
        policy
            .remember(&mut session.remembered, decision, &call, scope, NOW, None)
            .unwrap();
        let again = call.with_remembered(&session.remembered);
        assert_eq!(word(&policy.judge(decision, &again)), "allow");
        for elsewhere in [again.with_root("/two"), again.with_root("/one/src")] {
            assert_eq!(word(&policy.judge(decision, &elsewhere)), "ask");
        }
        let grant = session.remembered.grants().last().unwrap();
        for (root, counts) in [(Some("/one"), true), (Some("/two"), false), (None, false)] {
            assert_eq!(policy.grant_applies(grant, tool, root), counts, "{root:?}");
        }
        assert_eq!(word(&session.judge(tool, arguments.as_str())), "ask");
    }
}

#[test]
fn a_pattern_grant_must_cover_every_part_of_a_command() {
    let rule = "[rules.look]\nanswer = 'allow'\ntools = ['run_command']\ncommands = ['git status']";
    let mut session = Session::new(&format!("{TRUSTING}{rule}"));
    let run = named("run_command");
    session
        .remember(
            &run,
            r#"{"command":"cargo test -p x"}"#,
            command("cargo test **"),
        )
        .unwrap();
    for (line, expected) in [
        ("cargo test --all", "allow"),
        ("git status && cargo test", "allow"),
        ("cargo test && rm -rf x", "ask"),
        ("cargo test $(rm -rf x)", "ask"),
        ("cargo testing", "ask"),
        ("cargo test > /etc/passwd", "ask"),
    ] {
        let verdict = session.judge(&run, &format!("{{\"command\":\"{line}\"}}"));
        assert_eq!(word(&verdict), expected, "{line}: {verdict:?}");
    }
}

#[test]
fn nothing_is_remembered_beyond_what_the_policy_allows() {
    let rule = "[rules.r]\nanswer = 'ask'\ntools = ['web_search']\nremember = 'never'";
    let mut session = Session::new(&format!("{TRUSTING}{rule}"));
    let fetch = named("web_fetch");
    let asked = r#"{"command":"make"}"#;
    // Remembering all calls of a tool that may destroy something would cover too much.
    assert_eq!(
        session.remember(&named("run_command"), asked, GrantScope::Tool),
        Err(GrantError::NotAllowed)
    );
    assert_eq!(
        session.remember(&named("web_search"), "{}", GrantScope::Tool),
        Err(GrantError::NotAllowed)
    );
    assert_eq!(
        session.remember(&named("current_time"), "{}", GrantScope::Tool),
        Err(GrantError::NotAsked)
    );
    let denied = session.remember(
        &named("write_file"),
        r#"{"path":"neuraxis.toml"}"#,
        GrantScope::Tool,
    );
    assert_eq!(denied, Err(GrantError::NotAsked));
    let other = GrantScope::Host {
        pattern: "b.org".to_owned(),
    };
    assert_eq!(
        session.remember(&fetch, r#"{"url":"https://a.org"}"#, other),
        Err(GrantError::OtherCall)
    );
    assert_eq!(
        session.remember(&named("run_command"), asked, command("cargo **")),
        Err(GrantError::OtherCall)
    );
    assert!(session.remembered.grants().is_empty());
    session.decision.mode = Mode::CONSERVATIVE;
    assert_eq!(
        session.remember(&fetch, "{}", GrantScope::Tool),
        Err(GrantError::NotAsked)
    );
}

#[test]
fn a_grant_overrides_neither_a_denial_nor_an_ask_about_untrusted_content() {
    let mut session = Session::new("");
    let write = named("write_file");
    session
        .remember(&write, r#"{"path":"a"}"#, GrantScope::Tool)
        .unwrap();
    assert_eq!(word(&session.judge(&write, r#"{"path":"b"}"#)), "allow");
    assert_eq!(word(&session.judge(&write, r#"{"path":"../b"}"#)), "deny");
    assert_eq!(
        word(&session.judge(&write, r#"{"path":"neuraxis.toml"}"#)),
        "deny"
    );
    let mut taint = Taint::default();
    taint.add(&"web_fetch".parse().unwrap(), None);
    session.decision.taint = taint;
    assert_eq!(word(&session.judge(&write, r#"{"path":"b"}"#)), "ask");
}

#[test]
fn a_changed_policy_invalidates_grants() {
    let mut session = Session::new("");
    let write = named("write_file");
    session
        .remember(&write, r#"{"path":"a"}"#, GrantScope::Tool)
        .unwrap();
    assert_eq!(word(&session.judge(&write, r#"{"path":"a"}"#)), "allow");
    session.policy = layered("[modes.moderate]\nmax_turns = 9");
    assert_eq!(word(&session.judge(&write, r#"{"path":"a"}"#)), "ask");
}

#[test]
fn the_scopes_that_may_be_remembered_are_offered() {
    let session = Session::new(TRUSTING);
    let run = session.choices(&named("run_command"), r#"{"command":"cargo test -p x"}"#);
    assert_eq!(run.len(), 2);
    assert_eq!(run[1], command("cargo test **"));
    let fetch = session.choices(&named("web_fetch"), r#"{"url":"https://docs.rs/x"}"#);
    assert_eq!(fetch.len(), 3, "{fetch:?}");
    assert!(session.choices(&named("current_time"), "{}").is_empty());
    let hidden = session.choices(&named("run_command"), r#"{"command":"cargo $(rm x)"}"#);
    assert_eq!(hidden.len(), 1, "only the very same arguments: {hidden:?}");
}

#[test]
fn no_pattern_is_offered_that_would_run_programs_named_by_its_words() {
    let rules = "[rules.no]\nanswer = 'deny'\ntools = ['run_command']\ncommands = ['curl']";
    let session = Session::new(&format!("{TRUSTING}{rules}"));
    let run = named("run_command");
    let call = |line: &str| format!(r#"{{"command":"{line}"}}"#);
    for line in [
        "pyenv exec python --version",
        "nvm exec 18 node x.js",
        "doppler run npm test",
        "lerna exec ls",
        "turbo run build",
        "distrobox enter box",
        "fly ssh console",
        "buck2 run x",
        "heroku ps:exec x",
        "cargo watch -x test",
        "cargo exec ls",
        "cargo hack test",
        "cargo nextest run",
    ] {
        let choices = session.choices(&run, &call(line));
        assert_eq!(choices.len(), 1, "{line}: {choices:?}");
    }
    for (line, pattern) in [
        ("mytool build x", "mytool build **"),
        ("terragrunt plan x", "terragrunt plan **"),
        ("cargo build --release", "cargo build **"),
        ("cargo clippy -p x", "cargo clippy **"),
        ("cargo run --bin x", "cargo run **"),
        ("go vet x", "go vet **"),
    ] {
        let choices = session.choices(&run, &call(line));
        assert!(choices.contains(&command(pattern)), "{line}: {choices:?}");
    }
    for line in [
        "pyenv exec curl x",
        "asdf exec curl x",
        "volta run curl x",
        "aws-vault exec me -- curl x",
        "dotenv run -- sh -c 'curl x'",
        "op run -- curl x",
    ] {
        assert_eq!(word(&session.judge(&run, &call(line))), "deny", "{line}");
    }
}

#[test]
fn a_folder_pattern_is_offered_for_a_shared_folder_and_one_file_at_the_root() {
    let session = Session::new("");
    let folder_of = |tool: &str, arguments: &str| {
        let choices = session.choices(&named(tool), arguments);
        choices.into_iter().find_map(|scope| match scope {
            GrantScope::Path { pattern } => Some(pattern),
            _ => None,
        })
    };
    for (path, expected) in [
        ("src/a.rs", Some("src/**")),
        ("src/deep/a.rs", Some("src/deep/**")),
        ("src/./deep/../a.rs", Some("src/**")),
        ("a.rs", Some("a.rs")),
        ("../a.rs", None),
        ("sr*/a.rs", None),
    ] {
        let arguments = format!(r#"{{"path":"{path}","content":""}}"#);
        assert_eq!(
            folder_of("write_file", &arguments).as_deref(),
            expected,
            "{path}"
        );
    }
    let patch = r#"{"patch":"--- a/src/x/a.rs\n+++ b/src/x/a.rs\n@@ -1 +1 @@\n-a\n+b\n--- a/src/y.rs\n+++ b/src/y.rs\n@@ -1 +1 @@\n-a\n+b\n"}"#;
    assert_eq!(folder_of("apply_patch", patch).as_deref(), Some("src/**"));
}

#[test]
fn a_path_or_host_grant_does_not_cover_a_command() {
    let mut session = Session::new(TRUSTING);
    let tool = named("github__create_issue");
    let of_path = GrantScope::Path {
        pattern: "src/**".to_owned(),
    };
    for (scope, beside) in [
        (of_path, r#""cwd":"src/x""#),
        (host("docs.rs"), r#""url":"https://docs.rs""#),
    ] {
        let without = format!("{{{beside}}}");
        let with = format!(r#"{{{beside},"command":"rm -rf ."}}"#);
        let refused = session.remember(&tool, &with, scope.clone());
        assert_eq!(refused, Err(GrantError::OtherCall), "{with}");
        assert!(!session.choices(&tool, &with).contains(&scope), "{with}");
        session.remember(&tool, &without, scope).unwrap();
        assert_eq!(word(&session.judge(&tool, &without)), "allow");
        assert_eq!(word(&session.judge(&tool, &with)), "ask");
    }
}

#[test]
fn no_grant_is_offered_that_the_call_itself_would_invalidate() {
    let mut session = Session::new("");
    let calls = [
        ("run_command", r#"{"command":"cargo test"}"#),
        ("web_fetch", r#"{"url":"https://docs.rs/x"}"#),
    ];
    for (tool, arguments) in calls {
        let tool = named(tool);
        let choices = session.choices(&tool, arguments);
        let is_host = |scope: &GrantScope| matches!(scope, GrantScope::Host { .. });
        assert!(choices.iter().all(is_host), "{}: {choices:?}", tool.name);
        let hash = JsonText::from_text(arguments).hash();
        assert_eq!(
            session.remember(&tool, arguments, GrantScope::Arguments { hash }),
            Err(GrantError::NotAllowed)
        );
    }
    // A tool that returns no third-party content asks only once.
    assert!(
        !session
            .choices(&named("write_file"), r#"{"path":"a"}"#)
            .is_empty()
    );
    // If third-party content makes nothing ask again, the promise can be kept.
    session.decision = offering_all(&session.policy, &Mode::EXPLORATORY, &Channel::CODE_TASK);
    let in_exploratory = session.choices(&named("run_command"), r#"{"command":"cargo test"}"#);
    assert!(!in_exploratory.is_empty());
}

#[test]
fn an_ask_after_untrusted_content_also_names_the_usual_reason() {
    let mut session = Session::new("");
    session
        .decision
        .taint
        .add(&"web_fetch".parse().unwrap(), None);
    let verdict = session.judge(&named("run_command"), r#"{"command":"ls"}"#);
    let Verdict::Ask {
        reason, remember, ..
    } = verdict
    else {
        panic!("it asks: {verdict:?}")
    };
    assert!(
        reason.contains("reaches outside") || reason.contains("may destroy"),
        "{reason}"
    );
    assert!(
        reason.contains("untrusted content (from web_fetch)"),
        "{reason}"
    );
    assert_eq!(remember, neuraxis_core::Remember::Never);
}

#[test]
fn a_session_stores_a_bounded_number_of_grants() {
    let mut session = Session::new("");
    let write = named("write_file");
    let arguments = r#"{"path":"a"}"#;
    for _ in 0..256 {
        session
            .remember(&write, arguments, GrantScope::Tool)
            .unwrap();
    }
    assert_eq!(
        session.remember(&write, arguments, GrantScope::Tool),
        Err(GrantError::TooMany)
    );
    // No more can be promised about another tool either.
    let (patch, text) = (named("apply_patch"), JsonText::from_text("{}"));
    let call = Call::new(&patch, &text);
    let offered = |call: &Call<'_>| session.policy.grant_choices(&session.decision, call);
    assert!(!offered(&call).is_empty());
    assert_eq!(offered(&call.with_remembered(&session.remembered)), []);
    session.remembered.clear();
    assert!(session.remembered.grants().is_empty());
}

fn serde_json(remembered: &Grants) -> String {
    JsonText::encode(remembered).unwrap().to_string()
}

/// A host, in the form of the answer.
fn host(name: &str) -> GrantScope {
    GrantScope::Host {
        pattern: name.to_owned(),
    }
}

#[test]
fn a_grant_to_read_from_a_host_applies_after_untrusted_content() {
    let mut session = Session::new("");
    let fetch = named("web_fetch");
    let page = r#"{"url":"https://docs.example/a"}"#;
    assert_eq!(session.choices(&fetch, page), [host("docs.example")]);
    session
        .remember(&fetch, page, host("docs.example"))
        .unwrap();
    session
        .decision
        .taint
        .add(&"web_fetch".parse().unwrap(), None);
    let other_page = r#"{"url":"https://docs.example/b?q=1"}"#;
    assert_eq!(word(&session.judge(&fetch, other_page)), "allow");
    for elsewhere in [
        r#"{"url":"https://evil.example/docs.example"}"#,
        r#"{"url":"https://sub.docs.example/"}"#,
        r#"{"query":"docs.example"}"#,
    ] {
        assert_eq!(
            word(&session.judge(&fetch, elsewhere)),
            "ask",
            "{elsewhere}"
        );
    }
    // The user may also be offered to remember this host.
    let other = r#"{"url":"https://other.example/"}"#;
    assert_eq!(session.choices(&fetch, other), [host("other.example")]);
}

#[test]
fn only_the_exact_host_of_a_read_only_call_can_be_remembered() {
    let mut session = Session::new("");
    let (fetch, page) = (named("web_fetch"), r#"{"url":"https://a.org/x"}"#);
    for scope in [host("*"), host("*.org"), GrantScope::Tool] {
        assert_eq!(
            session.remember(&fetch, page, scope),
            Err(GrantError::NotAllowed)
        );
    }
    let mut posting = named("web_fetch");
    posting.class = neuraxis_core::ToolClass::Irreversible;
    assert!(session.choices(&posting, page).is_empty());
    // Nothing is offered either if the mode permits remembering nothing.
    session = Session::new("[modes.moderate]\nremember = 'never'\n");
    assert!(session.choices(&fetch, page).is_empty());
}

#[test]
fn a_proposed_rule_allows_its_call_and_no_other() {
    let mut tested = 0;
    for (tool, arguments, other) in [
        (
            "write_file",
            r#"{"path":"src/a.rs","content":""}"#,
            r#"{"path":"doc/a.md","content":""}"#,
        ),
        (
            "write_file",
            r#"{"path":"a.rs","content":""}"#,
            r#"{"path":"b.rs","content":""}"#,
        ),
        (
            "run_command",
            r#"{"command":"cargo test -p x"}"#,
            r#"{"command":"cargo publish"}"#,
        ),
        (
            "web_fetch",
            r#"{"url":"https://docs.rs/x"}"#,
            r#"{"url":"https://evil.example"}"#,
        ),
    ] {
        let (tool, text) = (named(tool), JsonText::from_text(arguments));
        let rule = neuraxis_brainstem::rule_allowing(&Call::new(&tool, &text)).unwrap();
        let session = Session::new(&rule);
        assert_eq!(word(&session.judge(&tool, arguments)), "allow", "{rule}");
        assert_eq!(word(&session.judge(&tool, other)), "ask", "{rule}");
        tested += 1;
    }
    assert_eq!(tested, 4);
    for (tool, arguments) in [
        ("run_command", r#"{"command":"sh -c 'x'"}"#),
        ("run_command", r#"{"command":"cargo test && rm -rf x"}"#),
        ("write_file", r#"{"path":"../a"}"#),
        ("write_file", r#"{"path":"a\"\nb"}"#),
    ] {
        let (tool, text) = (named(tool), JsonText::from_text(arguments));
        let rule = neuraxis_brainstem::rule_allowing(&Call::new(&tool, &text));
        assert_eq!(rule, None, "{arguments}");
    }
}

//! Dialogs about calls, with a user whose lines are scripted.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use neuraxis::core::{
    AgentId, AskApproval, EffectId, GrantScope, JsonText, RecordBody, RuleRef, RunId,
    ToolAnnotations, ToolCallId, ToolSpec,
};

use neuraxis_testkit::{RunLog, turn_context};

use super::console::Console;
use super::dialog::ask;
use super::*;
use crate::wrap::USUAL_WIDTH;

/// A user who types scripted lines.
#[derive(Default)]
pub(super) struct Scripted {
    lines: VecDeque<Line>,
    edits: VecDeque<String>,
    pub(super) screen: String,
    initial: Vec<String>,
    rows: Option<usize>,
    /// What happens before each line is typed.
    meanwhile: VecDeque<Box<dyn FnOnce()>>,
}

impl Scripted {
    pub(super) fn new<const N: usize>(lines: [&str; N]) -> Self {
        Self {
            lines: lines.map(|line| Line::Text(line.to_owned())).into(),
            ..Self::default()
        }
    }

    fn then(mut self, line: Line) -> Self {
        self.lines.push_back(line);
        self
    }
}

impl Console for Scripted {
    fn width(&self) -> usize {
        USUAL_WIDTH
    }

    fn height(&self) -> usize {
        self.rows.unwrap_or(60)
    }

    fn show(&mut self, text: &str) -> io::Result<()> {
        self.screen
            .push_str(&anstream::adapter::strip_str(text).to_string());
        Ok(())
    }

    fn line(&mut self, prompt: &str, initial: &str) -> io::Result<Line> {
        if let Some(happens) = self.meanwhile.pop_front() {
            happens();
        }
        let line = self.lines.pop_front().unwrap_or(Line::End);
        self.initial.push(initial.to_owned());
        self.screen.push_str(&format!("{prompt}{line:?}\n"));
        Ok(line)
    }

    fn edit(&mut self, text: &str) -> io::Result<Option<String>> {
        let edited = self.edits.pop_front();
        if edited.is_some() {
            self.initial.push(text.to_owned());
        }
        Ok(edited)
    }
}

pub(super) fn asking(tool: &str, arguments: &str) -> AskApproval {
    let run = RunId("0199f5a0-0000-7000-8000-000000000001".parse().unwrap());
    let effect_id = EffectId { run, number: 3 };
    let arguments = JsonText::from_text(arguments);
    AskApproval {
        effect_id,
        agent: AgentId::ROOT,
        tool_call_id: ToolCallId::from_text("call_1"),
        name: tool.into(),
        arguments_hash: arguments.hash(),
        arguments,
        reason: "mode moderate asks before tools that change something".to_owned(),
        rule: None,
        choices: Vec::new(),
        expires_at: None,
    }
}

pub(super) fn described(ask: &AskApproval, project: &Path) -> ApprovalView {
    let spec = ToolSpec::new(ask.name.parse().unwrap(), "A tool.")
        .parameters(JsonText::from_text("{}"))
        .annotations(ToolAnnotations::default().destructive());
    ApprovalView::new(ask, Some(&spec), &[], project)
}

/// Puts a question to a user; returns the answer and what the user saw.
fn asked_of(mut console: Scripted, tool: &str, arguments: &str) -> (Answer, Scripted) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "one\ntwo\nthree\n").unwrap();
    let view = described(&asking(tool, arguments), folder.path());
    let answer = ask(&view, &Terms::alone(Postponing::NotOffered), &mut console).unwrap();
    (answer, console)
}

#[test]
fn several_calls_are_decided_together_after_all_of_them_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    let asked = |arguments: &str| described(&asking("run_command", arguments), folder.path());
    let others = [
        asked(r#"{"command":"touch b"}"#),
        asked(r#"{"command":"touch c"}"#),
    ];
    let terms = Terms {
        others: &others,
        ..Terms::alone(Postponing::NotOffered)
    };
    let first = asked(r#"{"command":"touch a"}"#);
    let mut console = Scripted::new(["a", "y"]);
    assert_eq!(
        ask(&first, &terms, &mut console).unwrap(),
        Answer::ApproveAll
    );
    let before = console.screen.split("allow all 3 calls").next().unwrap();
    assert!(
        before.contains("touch b") && before.contains("touch c"),
        "{before}"
    );
    // After any answer but yes, the dialog is back at the first question.
    let mut console = Scripted::new(["a", "", "n", ""]);
    assert_eq!(
        ask(&first, &terms, &mut console).unwrap(),
        Answer::Deny(None)
    );
    let mut console = Scripted::new(["d", "not now"]);
    let none = Answer::DenyAll(Some("not now".to_owned()));
    assert_eq!(ask(&first, &terms, &mut console).unwrap(), none);
    let mut console = Scripted::new(["a", "n", ""]);
    let alone = Terms::alone(Postponing::NotOffered);
    assert_eq!(
        ask(&first, &alone, &mut console).unwrap(),
        Answer::Deny(None)
    );
}

/// Writes to a file while the user looks at a question.
fn writes(file: &Path, text: &'static str) -> Box<dyn FnOnce()> {
    let file = file.to_owned();
    Box::new(move || std::fs::write(file, text).unwrap())
}

#[test]
fn a_changed_effect_is_shown_and_must_be_confirmed_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    let alone = Terms::alone(Postponing::NotOffered);
    let deletion = "*** Begin Patch\n*** Delete File: notes.txt\n*** End Patch\n";
    let deletion = serde_json::json!({ "patch": deletion }).to_string();
    for (tool, arguments) in [
        ("write_file", r#"{"path":"notes.txt","content":"1\n"}"#),
        ("apply_patch", deletion.as_str()),
    ] {
        std::fs::write(&file, "one\n").unwrap();
        let view = described(&asking(tool, arguments), folder.path());
        let mut console = Scripted::new(["y"]);
        console.meanwhile.push_back(writes(&file, "one\ntwo\n"));
        let answer = ask(&view, &alone, &mut console).unwrap();
        assert_eq!(answer, Answer::Deny(None), "one yes is not enough");
        let (before, after) = console.screen.split_once("no longer what").unwrap();
        assert!(!before.contains("-two"), "{before}");
        assert!(after.contains("-one") && after.contains("-two"), "{after}");

        let mut console = Scripted::new(["y", "y"]);
        console.meanwhile.push_back(writes(&file, "two\n"));
        assert_eq!(ask(&view, &alone, &mut console).unwrap(), YES);
    }
}

#[test]
fn several_calls_are_confirmed_again_when_the_effect_of_one_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("notes.txt");
    std::fs::write(&file, "one\n").unwrap();
    let writing = described(
        &asking("write_file", r#"{"path":"notes.txt","content":"1\n"}"#),
        folder.path(),
    );
    let running = described(&asking("run_command", COMMAND), folder.path());
    for (first, other) in [(&running, &writing), (&writing, &running)] {
        std::fs::write(&file, "one\n").unwrap();
        let terms = Terms {
            others: std::slice::from_ref(other),
            ..Terms::alone(Postponing::NotOffered)
        };
        // The last yes is about what was shown again.
        let mut console = Scripted::new(["a", "y", "y"]);
        console.meanwhile.push_back(Box::new(|| ()));
        console.meanwhile.push_back(writes(&file, "one\ntwo\n"));
        let answer = ask(first, &terms, &mut console).unwrap();
        assert_eq!(answer, Answer::ApproveAll);
        let (before, after) = console.screen.split_once("no longer what").unwrap();
        assert!(!before.contains("-two"), "{before}");
        assert!(
            after.contains("-two") && after.contains("git push"),
            "{after}"
        );
    }
}

#[test]
fn edited_arguments_that_the_tool_rejects_are_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let view = described(&asking("run_command", COMMAND), folder.path());
    let terms = Terms {
        check: &|_| Err("\"bogus\" is unknown".to_owned()),
        ..Terms::alone(Postponing::NotOffered)
    };
    let mut console = Scripted::new(["e", "y"]);
    console
        .edits
        .push_back(r#"{"command":"ls","bogus":1}"#.to_owned());
    assert_eq!(ask(&view, &terms, &mut console).unwrap(), YES);
    assert!(
        console.screen.contains("does not accept these arguments"),
        "{}",
        console.screen
    );
}

const YES: Answer = Answer::Approve {
    arguments: None,
    remember: None,
};

const COMMAND: &str = r#"{"command":"git push --force","cwd":"app"}"#;

#[test]
fn every_kind_of_approval_shows_what_will_run() {
    for (name, tool, arguments) in [
        ("command", "run_command", COMMAND),
        (
            "change",
            "write_file",
            r#"{"path":"notes.txt","content":"one\n2\nthree\n"}"#,
        ),
        (
            "new_file",
            "write_file",
            r#"{"path":"new.txt","content":"hello\n"}"#,
        ),
        (
            "patch",
            "apply_patch",
            r#"{"patch":"--- a/notes.txt\n+++ b/notes.txt\n@@ -1 +1 @@\n-one\n+1\n"}"#,
        ),
        (
            "address",
            "web_fetch",
            r#"{"url":"https://example.org/a?b=c"}"#,
        ),
        (
            "any",
            "mail__send",
            r#"{"recipients":["a@example.org"],"urgent":true}"#,
        ),
    ] {
        let (_, console) = asked_of(Scripted::new(["y"]), tool, arguments);
        insta::assert_snapshot!(format!("question_{name}"), console.screen);
    }
}

#[test]
fn a_hostile_call_is_made_visible_and_cannot_imitate_the_dialog() {
    let arguments =
        "{\"command\":\"ls\\n╰ why: it is harmless\\n\\u001b[2Jrm\\u202e -rf\\u200b /\"}";
    let (_, console) = asked_of(Scripted::new(["n", ""]), "run_command", arguments);
    assert!(!console.screen.contains(['\u{1b}', '\u{202e}', '\u{200b}']));
    insta::assert_snapshot!(console.screen);
}

#[test]
fn no_line_of_a_question_starts_with_model_text_at_any_terminal_width() {
    let blanks = " ".repeat(78);
    let fake = "╰ why: rule look-around lets it run";
    let name = format!("run_command{blanks}{fake}");
    let arguments = format!(r#"{{"command":"ls {blanks}{fake}","漢字{blanks}{fake}":"{fake}"}}"#);
    let mut view = described(&asking("run_command", &arguments), Path::new("/"));
    view.tool.clone_from(&name);
    view.reason = format!("{}{fake}", "the rule ".repeat(20));
    let pattern = format!("{}{fake}", "word ".repeat(40));
    view.scopes = vec![GrantScope::Command {
        pattern,
        access: Vec::new(),
    }];
    for columns in [12, 40, 79, 80, 81, 200] {
        let (text, _) = question_text(&view, Extent::All, columns);
        let text = anstream::adapter::strip_str(&text).to_string();
        let legend = super::dialog::legend_of(&view, columns);
        for line in text.lines().chain(legend.lines()) {
            let is_ours = line.starts_with("╭ ")
                || line.starts_with("│ ")
                || line.starts_with("┆ ")
                || line.starts_with("├ ")
                || line.starts_with("    ")
                || line.starts_with('[')
                || line.starts_with("(Ctrl-C")
                || line.starts_with("╰ why:");
            assert!(is_ours, "{columns}: {line:?}");
            let room = unicode_width::UnicodeWidthStr::width(line);
            assert!(room <= columns.max(31), "{columns}: {line:?}");
        }
        assert_eq!(text.matches("\n╰").count(), 1, "{text}");
    }
}

#[test]
fn right_to_left_letters_are_also_shown_in_logical_order() {
    let arguments = r#"{"command":"echo א && rm -rf x #ב"}"#;
    let (_, console) = asked_of(Scripted::new(["n", ""]), "run_command", arguments);
    insta::assert_snapshot!(console.screen);
}

#[test]
fn a_remembered_scope_with_right_to_left_letters_is_also_shown_in_logical_order() {
    let mut view = described(&asking("read_file", "{}"), Path::new("/"));
    let pattern = "א/**".to_owned();
    view.scopes = vec![GrantScope::Path { pattern }];
    let legend = super::dialog::legend_of(&view, 100);
    let expected = "[1] allow for this session: files below א/\n\
                    ├ in its real order: [1] allow for this session: files below ⟨U+05D0⟩/\n";
    assert!(legend.contains(expected), "{legend}");
}

#[test]
fn yes_allows_the_call_once_with_the_shown_arguments() {
    for yes in ["y", "yes", " YES "] {
        let (answer, _) = asked_of(Scripted::new([yes]), "run_command", COMMAND);
        assert_eq!(answer, YES, "{yes:?}");
    }
}

#[test]
fn only_an_explicit_yes_allows_a_call() {
    let unclear = Scripted::new(["", "ja", "yy", "y y", "1", "l", "v"]);
    let (answer, console) = asked_of(unclear, "run_command", COMMAND);
    assert_eq!(answer, Answer::Deny(None), "the end of input denies");
    assert_eq!(console.screen.matches("your answer").count(), 8);
}

#[test]
fn a_denial_carries_its_reason() {
    let (answer, _) = asked_of(Scripted::new(["n", " not today "]), "run_command", COMMAND);
    assert_eq!(answer, Answer::Deny(Some("not today".to_owned())));
    let (answer, _) = asked_of(Scripted::new(["no", ""]), "run_command", COMMAND);
    assert_eq!(answer, Answer::Deny(None));
}

#[test]
fn ctrl_c_stops_the_run_and_ctrl_d_only_denies() {
    for said in [&[][..], &["n"]] {
        let lines = said.iter().map(|line| Line::Text((*line).to_owned()));
        let console = Scripted {
            lines: lines.collect(),
            ..Scripted::default()
        };
        let (answer, _) = asked_of(console.then(Line::Interrupted), "run_command", COMMAND);
        assert_eq!(answer, Answer::StopRun);
    }
    let (answer, _) = asked_of(Scripted::default().then(Line::End), "run_command", COMMAND);
    assert_eq!(answer, Answer::Deny(None));
}

#[test]
fn an_answer_for_the_folder_is_offered_and_stored_only_when_a_rule_would_work() {
    let project = tempfile::tempdir().unwrap();
    let pattern = GrantScope::Command {
        pattern: "cargo test **".to_owned(),
        access: Vec::new(),
    };
    let mut ask_about = asking("run_command", r#"{"command":"cargo test -p x"}"#);
    ask_about.choices = vec![pattern.clone()];
    let mut view = described(&ask_about, project.path());
    let rule = "[rules.allow-cargo-test]\nanswer = \"allow\"\n".to_owned();
    let answer = |view: &ApprovalView| {
        let mut console = Scripted::new(["f", "n", ""]);
        let answer = ask(view, &Terms::alone(Postponing::NotOffered), &mut console).unwrap();
        (answer, console.screen)
    };
    view.rule_allowing = Some(rule.clone());
    let (said, screen) = answer(&view);
    assert_eq!(said, Answer::Deny(None), "there is nowhere to keep it");
    assert!(!screen.contains("[f]"), "{screen}");
    view.can_store_rules = true;
    let (said, screen) = answer(&view);
    let remember = pattern;
    assert_eq!(said, Answer::ApproveInFolder { remember, rule });
    assert!(
        screen.contains("[f] allow in this folder from now on: commands like cargo test **"),
        "{screen}"
    );
    view.rule_allowing = None;
    assert_eq!(answer(&view).0, Answer::Deny(None), "no rule would do");
    let edited = view.with_arguments(JsonText::from_text(r#"{"command":"cargo test"}"#));
    assert_eq!(answer(&edited).0, Answer::Deny(None));
}

#[test]
fn edited_arguments_are_shown_before_they_are_allowed() {
    let console = Scripted::new(["e", r#"{"command": "git push"}"#, "y"]);
    let (answer, console) = asked_of(console, "run_command", COMMAND);
    let edited = JsonText::from_text(r#"{"command":"git push"}"#);
    assert_eq!(
        answer,
        Answer::Approve {
            arguments: Some(edited),
            remember: None
        }
    );
    assert_eq!(
        console.initial[1], COMMAND,
        "the line begins with what there is"
    );
    let again = console.screen.rsplit("╭").next().unwrap();
    assert!(again.contains("that you edited") && !again.contains("--force"));
}

#[test]
fn the_editor_gets_formatted_arguments_and_its_result_is_used() {
    let mut console = Scripted::new(["e", "y"]);
    console
        .edits
        .push_back("{\"command\": \"git status\"}\n".to_owned());
    let (answer, console) = asked_of(console, "run_command", COMMAND);
    let edited = JsonText::from_text(r#"{"command":"git status"}"#);
    assert_eq!(
        answer,
        Answer::Approve {
            arguments: Some(edited),
            remember: None
        }
    );
    assert!(console.initial[1].contains("\n  \"command\": \"git push --force\""));
}

#[test]
fn an_edit_that_is_invalid_json_or_no_change_is_discarded() {
    for (edit, said) in [
        ("{\"command\": ", "This is not JSON"),
        (" \n", "The arguments were not changed."),
        (
            r#"{ "cwd": "app", "command": "git push --force" }"#,
            "were not changed",
        ),
    ] {
        let (answer, console) = asked_of(Scripted::new(["e", edit, "y"]), "run_command", COMMAND);
        assert_eq!(answer, YES, "{edit}");
        assert!(console.screen.contains(said), "{}", console.screen);
    }
}

#[test]
fn a_question_larger_than_the_screen_must_be_seen_in_full_before_approval() {
    let lines: String = (0..100).map(|number| format!("line {number}\\n")).collect();
    let arguments = format!(r#"{{"path":"new.txt","content":"{lines}"}}"#);
    let (answer, console) = asked_of(Scripted::new(["y"]), "write_file", &arguments);
    assert_eq!(answer, Answer::Deny(None), "one yes is not enough");
    let (before, after) = console.screen.split_once("Not all of it").unwrap();
    assert!(before.contains("more lines: v shows all of it") && !before.contains("line 99\n"));
    assert!(after.contains("│ +line 99\n") && !after.contains("v shows all"));
    let (answer, _) = asked_of(Scripted::new(["v", "y"]), "write_file", &arguments);
    assert_eq!(answer, YES);
}

#[test]
fn whether_a_question_fits_depends_on_the_rows_of_the_actual_screen() {
    let lines: String = (0..9).map(|number| format!("line {number}\\n")).collect();
    let arguments = format!(r#"{{"path":"new.txt","content":"{lines}"}}"#);
    // Wrapped by the screen, this one line takes more rows than there are.
    let long = format!(r#"{{"command":"echo {}"}}"#, "x".repeat(380));
    for (tool, arguments) in [("write_file", &arguments), ("run_command", &long)] {
        let small = |lines: Scripted| Scripted {
            rows: Some(9),
            ..lines
        };
        let (answer, console) = asked_of(small(Scripted::new(["y"])), tool, arguments);
        assert_eq!(answer, Answer::Deny(None), "{}", console.screen);
        let (before, after) = console.screen.split_once("Not all of it").unwrap();
        assert!(before.contains("[v] view all of it"), "{before}");
        assert!(!after.contains("[v] view all of it"), "{after}");
        let (answer, _) = asked_of(small(Scripted::new(["v", "y"])), tool, arguments);
        assert_eq!(answer, YES);
        let (answer, console) = asked_of(Scripted::new(["y"]), tool, arguments);
        assert_eq!(answer, YES, "{}", console.screen);
    }
}

#[test]
fn a_truncated_question_fits_the_screen_and_shows_both_parts() {
    let lines: String = (0..60).map(|number| format!("line {number}\\n")).collect();
    let arguments = format!(r#"{{"path":"new.txt","content":"{lines}","create_folders":true}}"#);
    let view = described(&asking("write_file", &arguments), Path::new("/nowhere"));
    for rows in [20, 30, 50] {
        let (text, hidden) = question_text(&view, Extent::Cut { rows }, USUAL_WIDTH);
        assert!(hidden > 0);
        assert!(text.lines().count() <= rows, "{rows}: {text}");
        assert!(text.contains("and these arguments"), "{text}");
    }
}

#[test]
fn a_question_can_be_postponed_when_the_run_can_wait() {
    let view = described(&asking("run_command", COMMAND), Path::new("/"));
    let mut console = Scripted::new(["l"]);
    let answer = ask(&view, &Terms::alone(Postponing::Offered), &mut console).unwrap();
    assert_eq!(answer, Answer::Later);
    assert!(console.screen.contains("[l] leave the run waiting"));
}

#[test]
fn rememberable_scopes_are_offered_by_number_unless_the_arguments_were_edited() {
    let mut ask_ = asking("run_command", COMMAND);
    let pattern = "git push **".to_owned();
    ask_.choices = vec![
        GrantScope::Command {
            pattern: pattern.clone(),
            access: Vec::new(),
        },
        GrantScope::Tool,
    ];
    ask_.rule = Some(RuleRef {
        name: "pushes".into(),
        source: "neuraxis.toml".into(),
        line: 7,
    });
    let view = described(&ask_, Path::new("/"));
    let mut console = Scripted::new(["3", "1"]);
    let answer = ask(&view, &Terms::alone(Postponing::NotOffered), &mut console).unwrap();
    let remember = Some(GrantScope::Command {
        pattern,
        access: Vec::new(),
    });
    assert_eq!(
        answer,
        Answer::Approve {
            arguments: None,
            remember
        }
    );
    insta::assert_snapshot!(console.screen);
    let mut console = Scripted::new(["e", "{}", "1", "n"]);
    let answer = ask(&view, &Terms::alone(Postponing::NotOffered), &mut console).unwrap();
    assert_eq!(answer, Answer::Deny(None));
}

#[test]
fn a_call_of_a_run_in_another_folder_is_not_compared_with_files_here() {
    let here = tempfile::tempdir().unwrap();
    std::fs::write(here.path().join("notes.txt"), "one\n").unwrap();
    let ask = asking("write_file", r#"{"path":"notes.txt","content":"1\n"}"#);
    let mut log = RunLog::new(ask.effect_id.run, "main".parse().unwrap());
    let shown = |folder: &Path, log: &mut RunLog| {
        let mut started = (*log.started("Hello?")).clone();
        let RecordBody::RunStarted(begun) = &mut started.body else {
            panic!("it began");
        };
        let real = folder.canonicalize().unwrap();
        Arc::make_mut(&mut begun.spec).folder = Some(real.to_string_lossy().into());
        let view = ApprovalView::new(&ask, None, &[Arc::new(started)], here.path());
        question_text(&view, Extent::All, USUAL_WIDTH).0
    };
    let text = shown(here.path(), &mut log);
    assert!(text.contains("-one") && text.contains("+1"), "{text}");
    let elsewhere = tempfile::tempdir().unwrap();
    let text = shown(elsewhere.path(), &mut log);
    assert!(!text.contains("-one") && text.contains("+1"), "{text}");
    assert!(text.contains("in the folder of its run"), "{text}");
}

#[test]
fn a_sub_agent_is_named_with_its_depth() {
    let mut view = described(&asking("run_command", COMMAND), Path::new("/"));
    view.lineage = vec!["research".to_owned(), "look_up".to_owned()];
    let (text, _) = question_text(&view, Extent::All, USUAL_WIDTH);
    assert!(
        text.contains("asked by a sub-agent at depth 2: research → look_up"),
        "{text}"
    );
}

#[test]
fn an_earlier_call_that_may_change_the_same_file_is_named() {
    let mut view = described(&asking("write_file", "{}"), Path::new("/"));
    view.conflict = Some(ConflictingCall {
        tool: "apply_patch".to_owned(),
        file: "a.txt".to_owned(),
    });
    let (text, _) = question_text(&view, Extent::All, USUAL_WIDTH);
    let expected = "├ when this was asked, apply_patch could still change a.txt before this call";
    assert!(text.contains(expected), "{text}");
}

#[tokio::test]
async fn a_question_to_a_closed_prompter_cannot_be_answered() {
    let (questions, receiver) = mpsc::channel(1);
    let approver = PromptingApprover { questions };
    drop(receiver);
    assert_eq!(
        approver
            .decide(&asking("run_command", COMMAND), &turn_context())
            .await,
        ApproverReply::Nobody
    );
}

/// Returns an approver and the prompter that receives its questions.
fn prompting() -> (PromptingApprover, Prompter) {
    let (questions, receiver) = mpsc::channel(4);
    let prompter = Prompter {
        questions: Some(receiver),
        postponing: Postponing::NotOffered,
        project: PathBuf::new(),
        rules: None,
        waiting: VecDeque::new(),
    };
    (PromptingApprover { questions }, prompter)
}

#[tokio::test]
async fn postponing_one_call_postpones_all_calls_of_the_run() {
    let (approver, mut prompter) = prompting();
    let turn = turn_context();
    let asks = ["first", "second", "third"].map(|tool| asking(tool, COMMAND));
    let replies =
        futures_util::future::join_all(asks.iter().map(|ask| approver.decide(ask, &turn)));
    let mut replies = Box::pin(replies);
    assert!(futures_util::poll!(replies.as_mut()).is_pending());
    let Question::Call { reply, .. } = prompter.next().await else {
        panic!("it is about a call");
    };
    let mut others = prompter.take_other_calls().await;
    assert_eq!(others.len(), 2);
    // Like one that arrives while the user looks at the first.
    let (ask, late) = others.pop().unwrap();
    let late = Question::Call { ask, reply: late };
    prompter.waiting.push_back(late);
    prompter.answer_others(others, Some(&Answer::Later));
    let _ = reply.send(Answer::Later.into());
    let replies = replies.await;
    let are_later = replies.iter().all(|it| matches!(it, ApproverReply::Later));
    assert!(are_later, "{replies:?}");
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_reply_are_shown_together_even_if_they_arrive_apart() {
    let (approver, mut prompter) = prompting();
    let turn = turn_context();
    let asks = ["first", "second", "third"].map(|tool| asking(tool, COMMAND));
    let coming = (0..).zip(&asks).map(|(place, ask)| {
        let (approver, turn) = (&approver, &turn);
        async move {
            tokio::time::sleep(Duration::from_millis(20) * place).await;
            approver.decide(ask, turn).await
        }
    });
    let mut coming = Box::pin(futures_util::future::join_all(coming));
    let others = tokio::select! {
        _ = &mut coming => panic!("nobody answered"),
        others = async {
            prompter.next().await;
            prompter.take_other_calls().await
        } => others,
    };
    assert_eq!(others.len(), 2);
}

#[tokio::test]
async fn a_withdrawn_question_is_not_asked() {
    let (approver, mut prompter) = prompting();
    let (first, turn) = (asking("first", COMMAND), turn_context());
    let mut withdrawn = Box::pin(approver.decide(&first, &turn));
    assert!(futures_util::poll!(withdrawn.as_mut()).is_pending());
    drop(withdrawn);
    let second = asking("second", COMMAND);
    let open = approver.decide(&second, &turn);
    let (reply, ()) = tokio::join!(open, async {
        let question = prompter.next().await;
        let Question::Call { ask, reply } = question else {
            panic!("{question:?}");
        };
        assert_eq!(&*ask.name, "second");
        let _ = reply.send(YES.into());
    });
    assert!(matches!(reply, ApproverReply::Decided { .. }));
}

fn asked_by_a_server() -> ports::Question {
    let choice = |value: &str, title: &str| ports::FieldChoice {
        value: value.to_owned(),
        title: title.to_owned(),
    };
    let mut pages = ports::Field::new(
        "pages",
        ports::FieldKind::Integer {
            min: Some(1),
            max: Some(9),
        },
    );
    pages.required = ports::Required::Yes;
    let sizes = vec![choice("s", "Small"), choice("l", "Large")];
    ports::Question::new("shop", "Which\u{1b}[2J one?\u{202e}")
        .field(pages)
        .field(ports::Field::new(
            "size",
            ports::FieldKind::OneOf { choices: sizes },
        ))
        .field(ports::Field::new("gift", ports::FieldKind::Boolean))
}

fn filled_in(lines: &[&str]) -> (QuestionReply, String) {
    let typed = lines.iter().map(|line| Line::Text((*line).to_owned()));
    let mut console = Scripted {
        lines: typed.collect(),
        ..Scripted::default()
    };
    let reply = form::ask(&asked_by_a_server(), &mut console).unwrap();
    (reply, console.screen)
}

#[test]
fn a_server_question_is_asked_field_by_field_and_sent_after_a_yes() {
    let (reply, screen) = filled_in(&["", "x", "12", "3", "7", "2", "", "y"]);
    let answer = JsonText::from_text(r#"{"pages":3,"size":"l"}"#);
    assert_eq!(reply, QuestionReply::Answered(answer), "{screen}");
    for said in [
        "MCP server shop asks you",
        "This field is required.",
        "That is not a whole number.",
        "It must be at most 9.",
        "Answer with a number from 1 to 2.",
        "2. Large",
        "send this to shop?",
    ] {
        assert!(screen.contains(said), "{said} in {screen}");
    }
    assert!(
        !screen.contains('\u{1b}') && !screen.contains('\u{202e}'),
        "{screen}"
    );
}

#[test]
fn only_an_explicit_yes_sends_an_answer_to_a_server() {
    for lines in [
        &["3", "1", "n", ""] as &[_],
        &["3", "1", "n", "maybe"],
        &["."],
        &["3", "."],
        &[],
    ] {
        let (reply, screen) = filled_in(lines);
        assert_eq!(reply, QuestionReply::Declined, "{screen}");
    }
}

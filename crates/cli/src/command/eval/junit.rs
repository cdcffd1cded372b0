//! Results as JUnit XML, for CI services: a suite for the file, and a test case for each case.

use std::borrow::Cow;
use std::io;

use neuraxis::evals::{CaseReport, CaseStatus, Report};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

/// The writer of a document.
type Xml = Writer<Vec<u8>>;

/// Formats results as a document.
pub(super) fn of(file: &str, report: &Report) -> io::Result<String> {
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let totals = &report.totals;
    let counts = [
        ("tests", report.cases.len().to_string()),
        ("failures", totals.failed.to_string()),
        ("errors", totals.errors.to_string()),
        ("skipped", totals.not_run.to_string()),
        ("time", seconds(report.took_ms)),
    ];
    let file = allowed(file);
    let counts = || counts.iter().map(|(name, value)| (*name, value.as_str()));
    let suites = xml
        .create_element("testsuites")
        .with_attribute(("name", "neuraxis eval"));
    suites
        .with_attributes(counts())
        .write_inner_content(|xml| {
            let at = report.started_at.strftime("%Y-%m-%dT%H:%M:%S").to_string();
            let suite = xml
                .create_element("testsuite")
                .with_attribute(("name", &*file));
            let suite = suite.with_attribute(("timestamp", at.as_str()));
            suite.with_attributes(counts()).write_inner_content(|xml| {
                report
                    .cases
                    .iter()
                    .try_for_each(|case| test_case(xml, &file, case))
            })?;
            Ok(())
        })?;
    xml.write_event(Event::Text(BytesText::new("\n")))?;
    String::from_utf8(xml.into_inner()).map_err(io::Error::other)
}

fn test_case(xml: &mut Xml, file: &str, case: &CaseReport) -> io::Result<()> {
    let active = case.attempts.iter().map(|attempt| attempt.active_ms);
    let time = seconds(active.fold(0, u64::saturating_add));
    let name = allowed(&case.name);
    let element = xml
        .create_element("testcase")
        .with_attribute(("classname", file))
        .with_attribute(("name", &*name))
        .with_attribute(("time", time.as_str()));
    element.write_inner_content(|xml| {
        let kind = match case.status {
            CaseStatus::Passed => None,
            CaseStatus::Failed => Some("failure"),
            CaseStatus::Error => Some("error"),
            _ => Some("skipped"),
        };
        let reasons = case.reasons();
        let rate = format!("{} of {} attempts passed", case.passes(), case.planned);
        if let Some(kind) = kind {
            let message = allowed(reasons.first().unwrap_or(&rate)).into_owned();
            let element = xml
                .create_element(kind)
                .with_attribute(("message", &*message));
            match kind {
                "skipped" => element.write_empty()?,
                _ => element.write_text_content(BytesText::new(&allowed(&reasons.join("\n"))))?,
            };
        }
        let lines = case.attempts.iter().map(|attempt| {
            let run = attempt.run_id.map(|run| format!(" (run {run})"));
            let answer = attempt.answer.as_deref().unwrap_or_default();
            format!("{}{}: {answer}", attempt.number, run.unwrap_or_default())
        });
        let lines = lines.collect::<Vec<_>>().join("\n");
        let output = xml.create_element("system-out");
        output.write_text_content(BytesText::new(&allowed(&format!("{rate}\n{lines}"))))?;
        Ok(())
    })?;
    Ok(())
}

fn seconds(millis: u64) -> String {
    format!("{}.{:03}", millis / 1_000, millis % 1_000)
}

/// Removes characters that XML 1.0 does not allow, even escaped.
fn allowed(text: &str) -> Cow<'_, str> {
    let is_allowed = |letter: char| matches!(letter, '\t' | '\n' | '\r' | '\u{20}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    match text.chars().all(is_allowed) {
        true => Cow::Borrowed(text),
        false => {
            let visible = text.chars().map(|letter| match is_allowed(letter) {
                true => letter,
                false => '\u{fffd}',
            });
            Cow::Owned(visible.collect())
        }
    }
}

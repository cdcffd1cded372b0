//! `neuraxis eval FILE`: runs cases, and shows and stores the results.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use neuraxis::cassette::Redactor;
use neuraxis::core::log::describe::counted;
use neuraxis::evals::{
    Case, CaseFault, CaseReport, Comparison, EvalFile, FileFault, Report, Source,
};
use neuraxis::ports::CancellationToken;
use neuraxis_app::{Config, secrets_of};

use super::engines::Engines;
use super::results::{Results, earlier};
use super::table::{self, StoredRuns};
use crate::command::ask::CassetteArguments;
use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::output::{ObjectFormat, Output};
use crate::progress::Progress;
use crate::setup::Setup;

/// The default number of attempts at a time: low enough for the rate limits of most providers.
const JOBS: NonZeroU32 = NonZeroU32::new(4).unwrap();

/// Where to find what a file of cases may contain.
const WHAT_IT_MAY_HOLD: &str = "`neuraxis eval --help` shows an example case; `neuraxis help evals` lists everything a case can contain";

#[derive(Debug, Args)]
pub(super) struct Run {
    /// The file of cases, in TOML
    #[arg(required = true)]
    file: Option<PathBuf>,

    /// Run only the cases whose name contains this text; may be given several times
    #[arg(long = "case", value_name = "TEXT")]
    cases: Vec<String>,

    /// The number of attempts at a time; default: 4, or 1 with --replay
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroU32>,

    /// The number of attempts of each case, whatever the case says
    #[arg(long, value_name = "N")]
    repeat: Option<NonZeroU32>,

    /// Apply the approvals that are written in cases: read the file first
    #[arg(long)]
    approve: bool,

    /// What to print: a table, or one JSON object
    #[arg(long, value_enum, default_value_t = ObjectFormat::Text)]
    format: ObjectFormat,

    /// Write the results to this file as JSON, replacing it if it exists
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Write the results to this file as JUnit XML
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,

    /// Compare with earlier results written by --out, and fail only if something got worse
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,

    /// Continue an eval that was stopped: keep the cases that passed or failed in these earlier results, and run the
    /// others
    #[arg(long, value_name = "FILE", conflicts_with = "cases")]
    resume: Option<PathBuf>,

    #[command(flatten)]
    cassette: CassetteArguments,
}

impl Run {
    pub(super) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let path = self.file.clone().unwrap_or_default();
        let mut file = EvalFile::read(&path).map_err(|fault| unreadable(&path, fault))?;
        let named = named(&file.cases);
        let left_out = self.choose(&path, &mut file.cases)?;
        self.refuse_approvals(&file.cases)?;
        let loaded = setup.load()?;
        let secrets = secrets_of(&loaded.config, &loaded.environment);
        let (before, done) = self.earlier_results(&file.cases, &left_out, &secrets)?;
        let redactor = secrets.clone();
        let files = (self.out.as_deref(), self.junit.as_deref());
        let mut results = Results::begin(secrets, &self.others(&path, &named), files)?;
        let engines = Engines::open(&loaded, &file, self.cassette.chosen()).await?;
        if let Err(fault) = engines.check(&loaded.config, &file) {
            // A recording that was not replayed is expected here.
            let _ = engines.close().await;
            return Err(faulty(&path, fault, &loaded.config));
        }

        let stop = CancellationToken::new();
        let interrupt = Interrupt::watch({
            let stop = stop.clone();
            move |_| stop.cancel()
        });
        let jobs = self.jobs.unwrap_or(match engines.replays() {
            // The recording may have different answers to the same request, so attempts run in the order of the file.
            true => NonZeroU32::MIN,
            false => JOBS,
        });
        let mut evals = engines.evals().judge(file.judge.clone()).stop_on(stop);
        evals = evals.redact(move |text| redactor.text(text).into_owned());
        evals = evals.jobs(usize::try_from(jobs.get()).unwrap_or(usize::MAX));
        if let Some(times) = self.repeat {
            evals = evals.repeat(times.get());
        }
        if let Some(done) = done {
            evals = evals.resume(done);
        }
        let progress = Progress::new();
        progress.activity(&counted(file.cases.len() as u64, "case"));
        let mut kept = Ok(());
        let report = evals.run_watched(&file.cases, |report, ended| {
            if let Some(case) = ended {
                progress.activity(&table::progress(report, case));
            }
            if kept.is_ok() {
                kept = match ended {
                    Some(_) => results.update(report),
                    None => results.flush(report),
                };
            }
        });
        let report = report.await;
        // Cleaned like the earlier results, and before these are written and shown.
        let report = results.clean(&report);
        progress.hide();
        let closed = engines.close().await;
        // The results were paid for, so they are shown even if a file cannot be written.
        let finished = kept.and_then(|()| results.finish(&path, &report));

        let comparison = before.map(|before| report.compare(&before));
        let kept = |number: usize| match file.cases.get(number).map(|case| &case.source) {
            _ if !engines.stores_runs() => StoredRuns::None,
            Some(Source::Log(_)) => StoredRuns::Judges,
            _ => StoredRuns::All,
        };
        self.show(&results, &report, comparison.as_ref(), kept)?;
        finished?;
        closed?;
        match interrupt.signal() {
            Some(signal) => Err(CommandError::interrupted(signal)),
            None => verdict(&report, comparison.as_ref()),
        }
    }

    /// Reads the results to compare with, without the cases that were left out, and those to continue from. Both are
    /// read before anything is written: `--out` may name the latter.
    fn earlier_results(
        &self,
        cases: &[Case],
        left_out: &[String],
        secrets: &Redactor,
    ) -> Result<(Option<Report>, Option<Report>), CommandError> {
        let read = |file: Option<&Path>, purpose: &str| {
            file.map(|file| earlier(file, purpose)).transpose()
        };
        // In results, names are written without secrets.
        let clean = |name: &str| secrets.text(name).into_owned();
        let mut before = read(self.compare.as_deref(), "compare with")?;
        if let Some(before) = &mut before {
            // Cases that were not chosen are not gone.
            let left_out: Vec<String> = left_out.iter().map(|name| clean(name)).collect();
            let is_chosen = |case: &CaseReport| !left_out.contains(&case.name);
            before.cases.retain(is_chosen);
        }
        let mut done = read(self.resume.as_deref(), "resume")?;
        if let Some(done) = &mut done {
            restore_names(done, cases, clean);
        }
        Ok((before, done))
    }

    /// Returns the files that are read or recorded to, with what they are.
    fn others<'a>(&'a self, cases: &'a Path, named: &'a [PathBuf]) -> Vec<(&'a Path, &'a str)> {
        let mut others = vec![(cases, "the cases file")];
        let recording = self.cassette.file().map(|file| (file, "the recording"));
        let earlier = self.compare.as_deref();
        let earlier = earlier.map(|file| (file, "the earlier results that they are compared with"));
        others.extend(recording.into_iter().chain(earlier));
        let named = named.iter().map(PathBuf::as_path);
        others.extend(named.map(|file| (file, "a file that a case names")));
        others
    }

    /// Removes the cases that were not asked for, and returns their names.
    fn choose(&self, path: &Path, cases: &mut Vec<Case>) -> Result<Vec<String>, CommandError> {
        let is_in = |part: &String| cases.iter().any(|case| case.name.contains(part.as_str()));
        if let Some(part) = self.cases.iter().find(|part| !is_in(part)) {
            let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
            let error = anyhow!("no case in {} has {part:?} in its name", path.display());
            let hint = format!("its cases are: {}", names.join(", "));
            return Err(CommandError::usage(error).hint(hint));
        }
        let is_meant = |case: &Case| {
            let mut parts = self.cases.iter();
            self.cases.is_empty() || parts.any(|part| case.name.contains(part.as_str()))
        };
        let left_out = cases.iter().filter(|case| !is_meant(case));
        let left_out: Vec<String> = left_out.map(|case| case.name.clone()).collect();
        cases.retain(is_meant);
        Ok(left_out)
    }

    /// Refuses approvals in cases unless `--approve` confirms that the user has read them.
    fn refuse_approvals(&self, cases: &[Case]) -> Result<(), CommandError> {
        if self.approve {
            return Ok(());
        }
        let mut approving = cases.iter().filter(|case| !case.approve.is_empty());
        let Some(case) = approving.next() else {
            return Ok(());
        };
        let calls: Vec<String> = case.approve.iter().map(ToString::to_string).collect();
        let error = anyhow!(
            "case \"{}\" approves calls: {}",
            case.name,
            calls.join(", ")
        );
        Err(CommandError::usage(error).hint(
            "read what the cases approve, then add --approve to approve those calls when policy asks",
        ))
    }

    fn show(
        &self,
        results: &Results,
        report: &Report,
        comparison: Option<&Comparison>,
        kept: impl Fn(usize) -> StoredRuns,
    ) -> Result<(), CommandError> {
        let mut output = Output::new();
        match self.format {
            ObjectFormat::Text => {
                let text = table::in_text(report, comparison, kept);
                output.lines(&results.without_keys(&text))?;
            }
            ObjectFormat::Json => output.line(&results.in_json(report, comparison))?,
        }
        Ok(())
    }
}

/// Gives the cases of earlier results the names that they have in the file: in results, names are written without
/// secrets. Of several cases with the same name there, the first is the first in the file, and so on.
fn restore_names(earlier: &mut Report, cases: &[Case], clean: impl Fn(&str) -> String) {
    for case in cases {
        let written = clean(&case.name);
        if written == case.name {
            continue;
        }
        let mut earlier = earlier.cases.iter_mut();
        if let Some(same) = earlier.find(|earlier| earlier.name == written) {
            same.name.clone_from(&case.name);
        }
    }
}

/// Returns the recordings and logs that cases name.
fn named(cases: &[Case]) -> Vec<PathBuf> {
    let files = cases.iter().filter_map(|case| match &case.source {
        Source::Cassette(file) | Source::Log(file) => Some(file.clone()),
        _ => None,
    });
    files.collect()
}

/// Returns the error for an unusable file of cases, with what to do.
pub(super) fn unreadable(path: &Path, fault: FileFault) -> CommandError {
    let shown = path.display();
    let (error, what, hint) = match fault {
        FileFault::Io(error) => (
            anyhow::Error::new(error),
            format!("cannot read {shown}"),
            "`neuraxis eval add FILE RUN` creates a first case from a run (`neuraxis runs list`)",
        ),
        fault => {
            let is_toml = path.extension().is_some_and(|it| it == "toml");
            let what = match is_toml {
                true => shown.to_string(),
                false => format!("{shown} is not a file of cases"),
            };
            (anyhow::Error::new(fault), what, WHAT_IT_MAY_HOLD)
        }
    };
    CommandError::usage(error.context(what)).hint(hint)
}

/// Returns the error for a case that cannot run, with what to do: a name in it may be defined in a file that is
/// ignored.
fn faulty(path: &Path, fault: CaseFault, config: &Config) -> CommandError {
    let error = anyhow::Error::new(fault).context(path.display().to_string());
    let error = CommandError::usage(error).hint(WHAT_IT_MAY_HOLD);
    let ignored = config.found().filter(|found| found.notice().is_some());
    ignored.into_iter().fold(error, |error, found| {
        let file = found.path().display();
        error.hint(format!(
            "./{file} is ignored because it is not trusted: read it, then trust it (`neuraxis trust add`); where \
             nothing should be remembered, such as in CI, add --config {file}, which is read instead of your own"
        ))
    })
}

/// Returns an error if the results require one.
fn verdict(report: &Report, comparison: Option<&Comparison>) -> Result<(), CommandError> {
    if let Some(comparison) = comparison {
        let totals = &report.totals;
        if totals.errors > 0 && totals.passed + totals.failed == 0 {
            return Err(CommandError::failed(anyhow!(
                "no case could be judged, so it is unknown whether any got worse"
            )));
        }
        if comparison.is_fine() {
            return Ok(());
        }
        let (worse, new) = (comparison.worse.len(), comparison.new_failures.len());
        let new_ones = "do not pass, and are new or were not run or had an error before";
        let parts = [(worse, "got worse"), (new, new_ones)];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        return Err(CommandError::failed(anyhow!(
            "of the cases {}",
            parts.join(", ")
        )));
    }
    if report.passed() {
        return Ok(());
    }
    let all = report.cases.len();
    let bad = all as u64 - report.totals.passed;
    Err(CommandError::failed(anyhow!(
        "{bad} of {} did not pass",
        counted(all as u64, "case")
    )))
}

//! What survives the server: its folder, its database, the model, and what clients and tools observed.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use neuraxis::Orchestrator;
use neuraxis::core::{ApprovalDecided, EffectId, Record, Role, RunId, RunStatus, Seq};
use neuraxis::engine::ApprovalKey;
use neuraxis::memory::MemoryStore;
use neuraxis::ports::{RunLog as _, SessionIndex as _};
use neuraxis_sql::{SqlConfig, SqlStore};
use neuraxis_testkit::{Aftermath, Postgres, ScriptedModel, SilentProxy};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::child;
use crate::model::{Model, Said};
use crate::server::Server;

/// A secret that the server is given and must not reveal.
pub(crate) const CANARY: &str = "canary-5e1d0c";

/// The time limit on anything.
const PATIENCE: Duration = Duration::from_secs(30);

/// The polling interval for another process.
const PAUSE: Duration = Duration::from_millis(3);

/// The kind of database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    InFile,
    OnServer,
}

/// The program that runs as the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// `neuraxis-server` as it is built.
    Real,
    /// This test binary, as a server with tools that leave traces.
    WithTools,
}

pub(crate) struct World {
    pub(crate) model: Model,
    pub(crate) store: SqlStore,
    program: Program,
    folder: TempDir,
    pub(crate) url: String,
    pub(crate) postgres: Mutex<Option<Postgres>>,
    /// The server's connection to its database; the test connects directly.
    pub(crate) proxy: Option<SilentProxy>,
    pages: Option<u32>,
}

/// Optional settings of a world.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Terms<'a> {
    /// Additions to the section `[store]`.
    pub(crate) store: &'a str,
    /// Additions to the configuration.
    pub(crate) more: &'a str,
    /// The maximum number of pages of the server's file; for the program with tools.
    pub(crate) pages: Option<u32>,
    /// Whether the server connects to its database through a proxy.
    pub(crate) proxied: bool,
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !is_so().await {
            tokio::time::sleep(PAUSE).await;
        }
    });
    assert!(waited.await.is_ok(), "in vain: {what}");
}

impl World {
    pub(crate) async fn new(program: Program, kept: Kept, script: fn(usize) -> Said) -> Self {
        Self::configured(program, kept, script, "").await
    }

    /// Creates a world with additions to its configuration.
    pub(crate) async fn configured(
        program: Program,
        kept: Kept,
        script: fn(usize) -> Said,
        more: &str,
    ) -> Self {
        let terms = Terms {
            more,
            ..Terms::default()
        };
        Self::on(program, kept, script, terms).await
    }

    /// Creates a world with the given settings.
    pub(crate) async fn on(
        program: Program,
        kept: Kept,
        script: fn(usize) -> Said,
        terms: Terms<'_>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (url, postgres) = match kept {
            Kept::InFile => {
                let file = folder.path().join("sessions.db");
                (format!("sqlite://{}", file.display()), None)
            }
            Kept::OnServer => {
                let postgres = Postgres::start();
                (postgres.url(), Some(postgres))
            }
        };
        let model = Model::start(script).await;
        let proxy = match terms.proxied {
            true => Some(SilentProxy::start(&url).await),
            false => None,
        };
        let server_url = proxy.as_ref().map_or(&*url, SilentProxy::url);
        let Terms { store, more, .. } = terms;
        let pays = match program {
            // It has no such tool, and refuses rules about unknown tools.
            Program::Real => "",
            Program::WithTools => "[rules.pay]\nanswer = \"allow\"\ntools = [\"pay\"]\n",
        };
        let config = format!(
            "[store]\nurl = {server_url:?}\n{store}\n[models.reasoning]\nprovider = \"openai\"\napi = \"chat\"\n\
             base_url = {:?}\nmodel = \"scripted\"\napi_key_env = \"MODEL_KEY\"\n\
             {pays}{more}",
            model.url()
        );
        fs::write(folder.path().join("neuraxis.toml"), config).unwrap();
        build_journalctl(folder.path());
        let store = SqlStore::open(&SqlConfig::new(&url)).await.unwrap();
        Self {
            model,
            store,
            program,
            folder,
            url,
            postgres: Mutex::new(postgres),
            proxy,
            pages: terms.pages,
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the server and waits until it listens.
    pub(crate) async fn start(&self) -> Server {
        self.started(self.command(&[])).await
    }

    /// Like [`start`](Self::start), with additional variables.
    pub(crate) async fn start_with(&self, variables: &[(&str, &str)]) -> Server {
        let mut command = self.command(&[]);
        command.envs(variables.iter().copied());
        self.started(command).await
    }

    /// Starts a worker and waits until it listens.
    pub(crate) async fn start_worker(&self) -> Server {
        self.start_worker_with(&[]).await
    }

    /// Like [`start_worker`](Self::start_worker), with additional variables.
    pub(crate) async fn start_worker_with(&self, variables: &[(&str, &str)]) -> Server {
        let mut command = self.command(&[]);
        if self.program == Program::Real {
            command = self.program_command(&[], &["worker", "--config", "neuraxis.toml"]);
        }
        command
            .env(child::WORKER, "1")
            .envs(variables.iter().copied());
        self.started(command).await
    }

    /// Starts the server with a file size limit of this many blocks of 512 bytes; a write beyond it fails.
    pub(crate) async fn start_with_blocks(&self, blocks: u32) -> Server {
        let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        self.started(self.command(&["/bin/sh", "-c", &limited]))
            .await
    }

    /// Returns the command that starts the server, appended to another command.
    pub(crate) fn command(&self, before: &[&str]) -> Command {
        let arguments = ["--listen", "127.0.0.1:0", "--config", "neuraxis.toml"];
        self.program_command(before, &arguments)
    }

    fn program_command(&self, before: &[&str], arguments: &[&str]) -> Command {
        let folder = self.folder();
        let (program, arguments): (PathBuf, &[&str]) = match self.program {
            Program::Real => (env!("CARGO_BIN_EXE_neuraxis-server").into(), arguments),
            Program::WithTools => (
                std::env::current_exe().unwrap(),
                &[
                    "--exact",
                    "random::a_run_survives_kills_at_random_points_on_sqlite",
                    "--nocapture",
                ],
            ),
        };
        let words = before.iter().map(OsStr::new);
        let mut words = words
            .chain([program.as_os_str()])
            .chain(arguments.iter().map(OsStr::new));
        let mut command = Command::new(words.next().unwrap());
        command.args(words);
        let log = fs::File::options()
            .create(true)
            .append(true)
            .open(folder.join("log"));
        command
            .current_dir(folder)
            .env_clear()
            .env("HOME", folder)
            // It is also the home folder, which is not a project unless configured as one.
            .env("NEURAXIS_TOOLS__ROOT", folder)
            .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
            .env("MODEL_KEY", CANARY)
            .env("NEURAXIS_SERVER__MODES", r#"["exploratory"]"#)
            .env(child::FOLDER, folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.unwrap())
            .kill_on_drop(true);
        if let Some(pages) = self.pages {
            command.env(child::PAGES, pages.to_string());
        }
        command
    }

    async fn started(&self, mut command: Command) -> Server {
        let folder = self.folder();
        let mut process = command.spawn().unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        let url = loop {
            line.clear();
            let read = stdout.read_line(&mut line).await.unwrap();
            let log = || fs::read_to_string(folder.join("log"));
            assert!(read > 0, "the server does not start: {:?}", log());
            if let Some((_, url)) = line.trim_end().split_once("listening on ") {
                break url.to_owned();
            }
        };
        Server {
            process,
            channel: match self.program {
                Program::Real => "system_health",
                Program::WithTools => "chat",
            },
            url,
            _stdout: stdout,
        }
    }

    /// Holds up a tool, or releases it.
    pub(crate) fn hold_tool(&self, name: &str) {
        fs::write(self.folder().join(format!("hold-{name}")), "").unwrap();
    }

    pub(crate) fn let_tools_go(&self) {
        for name in ["look", "note", "pay", "pay_asked", child::LOOKING] {
            // Most are not held up.
            let _ = fs::remove_file(self.folder().join(format!("hold-{name}")));
        }
    }

    /// Returns the effect of each time that a tool of this name started or finished.
    pub(crate) fn effects(&self, what: &str, name: &str) -> Vec<EffectId> {
        let text = fs::read_to_string(self.folder().join("effects")).unwrap_or_default();
        let effects = text.lines().filter_map(|line| {
            let mut words = line.split(' ');
            let is_it = words.next() == Some(what)
                && words.next().is_some_and(|it| name.is_empty() || it == name);
            is_it.then(|| words.next().unwrap().parse().unwrap())
        });
        effects.collect()
    }

    /// Returns how often calls of a tool were inspected.
    pub(crate) fn inspections(&self, name: &str) -> usize {
        let text = fs::read_to_string(self.folder().join("looks")).unwrap_or_default();
        text.lines().filter(|line| *line == name).count()
    }

    /// Returns the session's run, if there is one with records.
    pub(crate) async fn run(&self) -> Option<RunId> {
        self.run_of("s").await
    }

    /// Returns a session's run, if there is one with records.
    pub(crate) async fn run_of(&self, session: &str) -> Option<RunId> {
        let session = session.parse().unwrap();
        let runs = self.store.runs(&session).await.ok()?;
        runs.first()
            .filter(|run| run.records > 0)
            .map(|run| run.run_id)
    }

    /// Makes a decision valid for this installation, using the key that its servers created.
    pub(crate) fn sign(&self, run: RunId, decided: ApprovalDecided) -> ApprovalDecided {
        let key = self.folder().join(".local/share/neuraxis/approval.key");
        let digits = fs::read_to_string(key).unwrap();
        let mut bytes = [0; ApprovalKey::BYTES];
        for (place, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).unwrap();
        }
        let engine = Orchestrator::builder()
            .model(Role::REASONING, Arc::new(ScriptedModel::new()))
            .store(Arc::new(MemoryStore::default()))
            .approval_key(ApprovalKey::new(bytes));
        engine.build().unwrap().approvals().sign(run, decided)
    }

    pub(crate) async fn records(&self, run: RunId) -> Vec<Arc<Record>> {
        self.store.records(run, Seq(0)).await.unwrap()
    }

    /// Waits until the run has ended.
    pub(crate) async fn ended(&self, run: RunId) {
        until("the run ends", async || {
            let run = self.store.run(run).await.unwrap();
            run.ended_at.is_some()
        })
        .await;
    }

    /// Waits until the run waits for input and no process drives it.
    pub(crate) async fn put_aside(&self, run: RunId) {
        until("the run is put aside", async || {
            let run = self.store.run(run).await.unwrap();
            run.status == RunStatus::Waiting && run.leased_until.is_none()
        })
        .await;
    }

    /// Checks everything that must hold of a run that has ended, with the server dead.
    pub(crate) async fn check(&self, run: RunId, received: &[String]) {
        self.check_in("s", run, received).await;
    }

    /// Checks what must hold of each run that has ended, however it ended.
    pub(crate) async fn check_end(&self, run: RunId, received: &[String]) {
        let records = self.records(run).await;
        let irreversible = ["pay", "pay_asked"];
        let effects = irreversible.map(|name| self.effects("begun", name));
        let effects = effects.concat();
        Aftermath::of(&records)
            .received(received)
            .effects(&effects)
            .folder(self.folder())
            .canary(CANARY)
            .assert_ended();
    }

    /// Like [`check`](Self::check), for a run of any session.
    pub(crate) async fn check_in(&self, session: &str, run: RunId, received: &[String]) {
        self.check_end(run, received).await;
        let session = session.parse().unwrap();
        assert!(self.store.verify(&session, None).await.is_ok());
        let history = self.store.history(&session).await.unwrap();
        // A history that needs repair would be repaired at the start of the next run.
        let text = history.messages().last().unwrap().text();
        assert_eq!(text, "All is done.");
    }
}

/// Creates the program that the tool `system_health` runs to find errors: it writes a line each time.
fn build_journalctl(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;

    let script = folder.join("journalctl");
    let text = format!(
        "#!/bin/sh\necho begun >> '{0}/journal'\nwhile [ -e '{0}/hold-journal' ]; do sleep 0.01; done\n",
        folder.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
}

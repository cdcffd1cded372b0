//! A user's machine: a working directory, a home folder, and none of the variables of the test's own environment.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use neuraxis::core::ContentHash;
use neuraxis_app::{Environment, TrustList};
use serde_json::Value;
use tempfile::TempDir;

/// Variables that change the output.
const PRINTING: [&str; 8] = [
    "COLUMNS",
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "TERM",
    "CI",
    "LC_ALL",
    "LC_CTYPE",
];

/// A user's machine. It is deleted when dropped.
pub(crate) struct Machine {
    folder: TempDir,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["work", "home"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    /// Creates a machine with a model that answers by rules, and a file of cases.
    pub(crate) fn offline_with_cases(cases: &str) -> Self {
        let models = "[models.reasoning]\nprovider = 'offline'\n";
        let machine = Self::new().with_file("neuraxis.toml", models);
        machine.with_file("evals.toml", cases)
    }

    /// Adds a file to the working directory. A `neuraxis.toml` is written by the user and trusted.
    pub(crate) fn with_file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        fs::write(self.path(name), &content).unwrap();
        if name == "neuraxis.toml" {
            let environment = Environment::new("/").with_data_dir(self.data_dir());
            let folder = self.path("").canonicalize().unwrap();
            let list = TrustList::of(&environment).unwrap();
            list.trust(&folder, ContentHash::of(content.as_ref()))
                .unwrap();
        }
        self
    }

    /// Adds an untrusted `neuraxis.toml` that came with the working directory.
    pub(crate) fn with_untrusted(self, content: impl AsRef<[u8]>) -> Self {
        fs::write(self.path("neuraxis.toml"), content).unwrap();
        self
    }

    /// Returns the user's home folder.
    pub(crate) fn home(&self) -> std::path::PathBuf {
        self.folder.path().join("home")
    }

    /// Adds a file to the user's home folder, readable only by the user.
    pub(crate) fn with_private(self, name: &str, content: &str) -> Self {
        let file = self.home().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, content).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        }
        self
    }

    fn data_dir(&self) -> std::path::PathBuf {
        self.home().join("data/neuraxis")
    }

    /// Returns the path of a file in the working directory.
    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("work").join(name)
    }

    /// Returns the file in which sessions are stored.
    pub(crate) fn database(&self) -> std::path::PathBuf {
        self.folder.path().join("home/data/neuraxis/sessions.db")
    }

    /// Returns a command that is not yet started.
    pub(crate) fn command<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("neuraxis"));
        let home = self.folder.path().join("home");
        command
            .args(arguments)
            .current_dir(self.folder.path().join("work"))
            .env("HOME", &home)
            .env("XDG_CONFIG_HOME", home.join("config"))
            .env("XDG_DATA_HOME", home.join("data"))
            .env("XDG_STATE_HOME", home.join("state"))
            .stdin(Stdio::null());
        let ours = std::env::vars_os().map(|(name, _)| name);
        let ours = ours.filter(|name| name.to_string_lossy().starts_with("NEURAXIS_"));
        for name in ours.chain(PRINTING.map(Into::into)) {
            command.env_remove(name);
        }
        for name in ["EDITOR", "VISUAL"] {
            command.env_remove(name);
        }
        command.env("USER", "tester").env("TZ", "Etc/UTC");
        // The locale of a usual terminal.
        command.env("LANG", "C.UTF-8");
        // The keys of the user who runs the tests must not matter either.
        for name in ["OPENAI", "DEEPSEEK", "ANTHROPIC", "GEMINI"] {
            command.env_remove(format!("{name}_API_KEY"));
            command.env_remove(format!("{name}_BASE_URL"));
        }
        // Otherwise a model server that happens to run here would answer instead of the rules.
        command.env("NEURAXIS_DISCOVERY__LOCAL_SERVERS", "false");
        command
    }

    /// Returns a shell script, in which `"$0"` is the binary under test.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let ours = self.command([""; 0]);
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).arg(ours.get_program());
        for (name, value) in ours.get_envs() {
            match value {
                Some(value) => shell.env(name, value),
                None => shell.env_remove(name),
            };
        }
        shell.current_dir(self.path("")).stdin(Stdio::null());
        shell
    }

    /// Runs a command.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Done {
        self.command(arguments).output().unwrap().into()
    }

    /// Runs a command with the key that a scripted model expects.
    pub(crate) fn run_with_key<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Done {
        let mut command = self.command(arguments);
        command.env("MY_KEY", "k").output().unwrap().into()
    }

    /// Runs a command with text on standard input.
    pub(crate) fn run_with_input<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        input: impl AsRef<[u8]>,
    ) -> Done {
        let file = self.folder.path().join("input");
        fs::write(&file, input).unwrap();
        let input = fs::File::open(file).unwrap();
        self.command(arguments)
            .stdin(input)
            .output()
            .unwrap()
            .into()
    }

    /// Returns the ids of the runs of a session, the newest first.
    pub(crate) fn runs(&self, session: &str) -> Vec<String> {
        let list = ["runs", "list", "--session", session, "--format", "json"];
        let list: Vec<Value> = serde_json::from_str(&self.run(list).stdout_of(0)).unwrap();
        let ids = list.iter().map(|run| run["run_id"].as_str().unwrap());
        ids.map(str::to_owned).collect()
    }

    /// Returns the folder that contains everything of this machine.
    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Done {
    /// Checks the exit code and returns standard output.
    #[track_caller]
    pub(crate) fn stdout_of(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        self.stdout
    }

    /// Checks the exit code and that standard output is empty, and returns standard error.
    #[track_caller]
    pub(crate) fn complaint(self, code: i32) -> String {
        assert_eq!(
            (self.code, self.stdout.as_str()),
            (Some(code), ""),
            "{self:?}"
        );
        self.stderr
    }

    /// Parses standard output as one JSON value per line.
    #[track_caller]
    pub(crate) fn events(self) -> Vec<Value> {
        events(&self.stdout_of(0))
    }
}

/// Parses one JSON value per line.
#[track_caller]
pub(crate) fn events(lines: &str) -> Vec<Value> {
    lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

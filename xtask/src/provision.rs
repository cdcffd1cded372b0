//! What the tests need besides the repository: installed on first use and reused afterward.
//!
//! Everything is in `target/test-env`, so deleting that folder resets it. Tests find it through environment variables,
//! and are marked `#[ignore = "needs …"]`: they run only if all of it is installed, except what is optional.

mod debian;
mod gguf;
mod llama_server;
mod npm;
mod page_driver;
mod postgres;
mod registries;
mod restate;
mod scripted_model;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::Context;

use crate::cargo::workspace_root;

/// Something that tests need.
struct Provision {
    /// A name for messages.
    name: &'static str,
    /// Returns whether it is in the given folder, complete and ready for use.
    is_ready: fn(&Path) -> bool,
    /// Installs it into the given folder, replacing the remains of an earlier attempt.
    install: fn(&Path) -> anyhow::Result<()>,
    /// The variables through which tests find it, with paths relative to that folder.
    variables: &'static [(&'static str, &'static str)],
    /// `None` if no ignored test runs without it.
    optional: Option<Optional>,
}

/// A provision whose own tests alone are left out if it is unavailable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Optional(
    /// A part of the names of these tests.
    pub(crate) &'static str,
    /// Returns whether it may be missing on CI too, where skipped tests would go unnoticed.
    pub(crate) fn() -> bool,
);

/// In the order of installation; a later one may use an earlier one.
const PROVISIONS: &[Provision] = &[
    Provision {
        name: "llama-server",
        is_ready: llama_server::is_ready,
        install: llama_server::install,
        variables: &[
            ("TEST_NEURAXIS_LLAMA_SERVER", llama_server::PROGRAM),
            ("TEST_NEURAXIS_LLAMA_LIBS", llama_server::LIBRARIES),
        ],
        optional: None,
    },
    Provision {
        name: "the scripted model",
        is_ready: scripted_model::is_ready,
        install: scripted_model::install,
        variables: &[("TEST_NEURAXIS_GGUF", scripted_model::FILE)],
        optional: None,
    },
    Provision {
        name: "PostgreSQL",
        is_ready: postgres::is_ready,
        install: postgres::install,
        variables: &[
            ("TEST_NEURAXIS_POSTGRES", postgres::PROGRAMS),
            ("TEST_NEURAXIS_POSTGRES_TEMPLATE", postgres::TEMPLATE),
        ],
        optional: None,
    },
    Provision {
        name: "the server of Restate",
        is_ready: restate::is_ready,
        install: restate::install,
        variables: &[("TEST_NEURAXIS_RESTATE", restate::PROGRAM)],
        optional: Some(Optional("real_restate", npm::is_absent)),
    },
    Provision {
        name: "MCP servers",
        is_ready: |folder| registries::are_ready(&registries::MCP_SERVERS, folder),
        install: |folder| registries::install(&registries::MCP_SERVERS, folder),
        variables: &[
            ("TEST_NEURAXIS_MCP_NODE", "mcp/node/node_modules/.bin"),
            ("TEST_NEURAXIS_MCP_PYTHON", "mcp/python/bin"),
        ],
        optional: None,
    },
    Provision {
        name: "the TypeScript client of MCP",
        is_ready: |folder| npm::MCP_CLIENT.are_ready(folder),
        install: |folder| npm::MCP_CLIENT.install(folder),
        variables: &[("TEST_NEURAXIS_MCP_CLIENT", "mcp-client/node_modules")],
        optional: None,
    },
    Provision {
        name: "SearXNG",
        is_ready: |folder| debian::SEARX.is_ready(folder),
        install: |folder| debian::SEARX.install(folder),
        variables: &[("TEST_NEURAXIS_SEARXNG", debian::SEARX.link)],
        optional: Some(Optional("real_searxng", || true)),
    },
    Provision {
        name: "systemd-analyze",
        is_ready: |folder| debian::SYSTEMD_ANALYZE.is_ready(folder),
        install: |folder| debian::SYSTEMD_ANALYZE.install(folder),
        variables: &[(
            "TEST_NEURAXIS_SYSTEMD_ANALYZE",
            debian::SYSTEMD_ANALYZE.link,
        )],
        optional: Some(Optional("real_systemd", || true)),
    },
    Provision {
        name: "libfaketime",
        is_ready: |folder| debian::FAKETIME.is_ready(folder),
        install: |folder| debian::FAKETIME.install(folder),
        variables: &[("TEST_NEURAXIS_FAKETIME", debian::FAKETIME.link)],
        optional: Some(Optional("clock_jumps", || true)),
    },
    Provision {
        name: "the client of AG-UI",
        is_ready: |folder| npm::AGUI_CLIENT.are_ready(folder),
        install: |folder| npm::AGUI_CLIENT.install(folder),
        variables: &[("TEST_NEURAXIS_AGUI_CLIENT", "agui-client/node_modules")],
        optional: None,
    },
    Provision {
        name: "clients of OpenAI's API",
        is_ready: |folder| registries::are_ready(&registries::OPENAI_CLIENTS, folder),
        install: |folder| registries::install(&registries::OPENAI_CLIENTS, folder),
        variables: &[
            ("TEST_NEURAXIS_OPENAI_NODE", "openai/node/node_modules"),
            ("TEST_NEURAXIS_OPENAI_PYTHON", "openai/python/bin/python"),
        ],
        optional: None,
    },
    Provision {
        name: "schemathesis",
        is_ready: |folder| registries::are_ready(&registries::SCHEMATHESIS, folder),
        install: |folder| registries::install(&registries::SCHEMATHESIS, folder),
        variables: &[(
            "TEST_NEURAXIS_SCHEMATHESIS",
            "schemathesis/bin/schemathesis",
        )],
        optional: None,
    },
    Provision {
        name: "linters of deployments",
        is_ready: |folder| registries::are_ready(&registries::DEPLOY_LINTERS, folder),
        install: |folder| registries::install(&registries::DEPLOY_LINTERS, folder),
        variables: &[
            ("TEST_NEURAXIS_DEPLOY_LINTERS", "deploy-linters/bin"),
            (
                "TEST_NEURAXIS_CONTAINER_LINTER",
                "container-linter/node_modules/.bin/dockerfile-utils",
            ),
        ],
        optional: Some(Optional("deploy_files::lint", || true)),
    },
    Provision {
        name: "a browser",
        is_ready: page_driver::is_ready,
        install: page_driver::install,
        variables: &[
            ("TEST_NEURAXIS_PAGE_DRIVER", page_driver::PACKAGES),
            ("TEST_NEURAXIS_CHROMIUM", page_driver::CHROMIUM),
        ],
        optional: None,
    },
];

/// A provision that could not be installed.
#[derive(Debug)]
pub(crate) struct Missing {
    /// A name for messages.
    pub(crate) name: &'static str,
    /// Why it is missing: what it requires, and what happened.
    pub(crate) reason: anyhow::Error,
    /// Which tests are left out without it, if not all ignored ones.
    pub(crate) optional: Option<Optional>,
}

/// Installs whatever is missing, and returns what could not be installed.
pub(crate) fn all() -> Vec<Missing> {
    provide(PROVISIONS, &folder())
}

/// Returns the variables through which tests find everything.
pub(crate) fn variables() -> Vec<(&'static str, PathBuf)> {
    let variables = PROVISIONS.iter().flat_map(|it| it.variables);
    variables
        .map(|(name, path)| (*name, folder().join(path)))
        .collect()
}

/// Returns the names of required provisions that are missing, without installing them.
pub(crate) fn missing_names() -> Vec<&'static str> {
    let required = PROVISIONS.iter().filter(|it| it.optional.is_none());
    let absent = required.filter(|it| !(it.is_ready)(&folder()));
    absent.map(|it| it.name).collect()
}

/// Prepares llama-server with the scripted model, on a port of the loopback interface.
pub(crate) fn scripted_llama_server(port: u16) -> Command {
    let mut command = llama_server::command(&folder());
    command
        .arg("--model")
        .arg(folder().join(scripted_model::FILE))
        // Otherwise it is named by the path of its file.
        .args(["--alias", "scripted.gguf"])
        .args(["--host", "127.0.0.1", "--port", &port.to_string()])
        .args("--jinja --device none --ctx-size 65536 --parallel 2 --threads 1".split(' '));
    command
}

/// Removes a folder, if it exists.
fn remove(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

fn folder() -> PathBuf {
    workspace_root().join("target/test-env")
}

fn provide(provisions: &[Provision], folder: &Path) -> Vec<Missing> {
    let mut missing = Vec::new();
    for provision in provisions {
        if let Err(reason) = provide_one(provision, folder) {
            println!("{}: {reason:#}", provision.name);
            missing.push(Missing {
                name: provision.name,
                reason,
                optional: provision.optional,
            });
        }
    }
    missing
}

fn provide_one(provision: &Provision, folder: &Path) -> anyhow::Result<()> {
    let name = provision.name;
    if (provision.is_ready)(folder) {
        println!("{name}: ready");
        return Ok(());
    }
    println!("{name}: installing");
    (provision.install)(folder)?;
    anyhow::ensure!(
        (provision.is_ready)(folder),
        "it was installed but is still not ready"
    );
    println!("{name}: installed");
    Ok(())
}

/// Runs `cargo xtask env`: prints the variables through which tests find what was provisioned, for running one of them
/// by hand. Only the variables go to standard output, for a shell to evaluate.
pub(crate) fn print_variables() -> ExitCode {
    let absent = missing_names();
    if !absent.is_empty() {
        eprintln!(
            "missing: {}; `cargo xtask test` installs what is missing",
            absent.join(", ")
        );
        return ExitCode::FAILURE;
    }
    for (name, path) in variables() {
        println!("{}", export(name, &path));
    }
    ExitCode::SUCCESS
}

/// Returns the line that sets a variable in a POSIX shell.
fn export(name: &str, path: &Path) -> String {
    let quoted = path.to_string_lossy().replace('\'', r"'\''");
    format!("export {name}='{quoted}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: Provision = Provision {
        name: "what is ready",
        is_ready: |_| true,
        install: |_| anyhow::bail!("installed twice"),
        variables: &[],
        optional: None,
    };

    #[test]
    fn an_installed_tool_is_not_installed_again() {
        assert!(provide(&[READY], Path::new("unused")).is_empty());
    }

    #[test]
    fn a_failed_installation_is_named_and_does_not_prevent_the_others() {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path().join("deep/test-env");
        let impossible = Provision {
            name: "a model server",
            is_ready: |_| false,
            install: |_| anyhow::bail!("no network"),
            ..READY
        };
        let later = Provision {
            is_ready: Path::is_dir,
            install: |folder| Ok(std::fs::create_dir_all(folder)?),
            ..READY
        };
        let missing = provide(&[impossible, later], &folder);
        let missing: Vec<_> = missing
            .iter()
            .map(|it| format!("{}: {:#}", it.name, it.reason))
            .collect();
        assert_eq!(missing, ["a model server: no network"]);
        assert!(folder.is_dir());
    }

    #[test]
    fn an_installation_that_installs_nothing_is_an_error() {
        let nothing = Provision {
            is_ready: |_| false,
            install: |_| Ok(()),
            ..READY
        };
        let missing = provide(&[nothing], Path::new("unused"));
        let reason = missing[0].reason.to_string();
        assert_eq!(reason, "it was installed but is still not ready");
    }

    #[test]
    fn a_path_with_spaces_and_quotes_is_one_word_to_the_shell() {
        let line = export("FILE", Path::new("/it's here/model"));
        assert_eq!(line, r"export FILE='/it'\''s here/model'");
    }
}

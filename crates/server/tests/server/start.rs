//! How the program starts, or why it does not.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use tempfile::TempDir;

use crate::support::Program;
use crate::support::program::{command, folder_with, make_key};

/// Starts the program, which must refuse to run. Returns its exit code and its output.
async fn refusal(folder: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
    let mut command = command(folder);
    command.args(arguments).envs(variables.iter().copied());
    let output = command.output().await.unwrap();
    assert_eq!(
        String::from_utf8(output.stdout).unwrap(),
        "",
        "nothing is listening"
    );
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[tokio::test]
async fn an_address_that_other_machines_can_reach_is_refused_without_a_key() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let (code, said) = refusal(folder().path(), &["--listen", address], &[]).await;
        assert_eq!(code, 2, "{said}");
        assert!(
            said.contains(&format!(
                "{address} is not a loopback address: without keys"
            )),
            "{said}"
        );
        assert!(said.contains("listen on 127.0.0.1 or [::1]"), "{said}");
    }
}

#[tokio::test]
async fn a_non_loopback_address_in_the_configuration_is_refused_with_its_position() {
    let text = "[server]\nlisten = '0.0.0.0:0'\n";
    let folder = folder_with(text);
    let (code, said) = refusal(folder.path(), &[], &[]).await;
    assert_eq!(code, 2, "{said}");
    let expected = "error: neuraxis.toml:2:1: server.listen: 0.0.0.0:0 is not a loopback address";
    assert!(said.starts_with(expected), "{said}");
    // The command line takes precedence.
    let program = Program::start_in(folder, |_| {}).await;
    assert_eq!(
        program
            .client()
            .ask("s", &serde_json::json!({"message": "hello"}))
            .await
            .0,
        200
    );
}

#[tokio::test]
async fn a_worker_is_refused_with_the_local_driver_or_an_in_memory_store() {
    let folder = folder();
    let (code, said) = refusal(folder.path(), &["worker"], &[]).await;
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("driver.kind is local (the default), so servers drive their own runs"),
        "{said}"
    );
    let text = "[driver]\nkind = 'restate'\n[store]\nurl = 'memory:'\n";
    fs::write(folder.path().join("neuraxis.toml"), text).unwrap();
    let config = ["worker", "--config", "neuraxis.toml"];
    let (code, said) = refusal(folder.path(), &config, &[]).await;
    assert_eq!(code, 2, "{said}");
    let expected = "error: neuraxis.toml:4:1: store.url: a worker must share the store";
    assert!(said.starts_with(expected), "{said}");
}

#[tokio::test]
async fn the_configured_address_is_used_for_listening() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let variables = [("NEURAXIS_SERVER__LISTEN", &*address)];
    let (code, said) = refusal(folder().path(), &[], &variables).await;
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains(&format!("error: cannot listen on {address}")),
        "{said}"
    );
}

#[tokio::test]
async fn wrong_usage_and_configuration_exit_with_code_2_and_name_the_error() {
    let folder = folder();
    fs::write(folder.path().join("wrong.toml"), "[store]\n[sotre]\n").unwrap();
    for (arguments, variables, expected) in [
        (
            &["--listen", "localhost"][..],
            &[][..],
            "expected an IP address and a port, such as 127.0.0.1:8787",
        ),
        (&["--port", "80"], &[], "unexpected argument '--port'"),
        (
            &["--config", "no-such.toml"],
            &[],
            "error: cannot read the configuration file no-such.toml\n  because: ",
        ),
        (
            &["--config", "wrong.toml"],
            &[],
            "error: wrong.toml:2:2: unknown key \"sotre\" (did you mean store?)",
        ),
        (
            &[],
            &[("NEURAXIS_STORE__URL", "mongodb://me:hunter2@host")],
            "error: NEURAXIS_STORE__URL: store.url: this build has no store for mongodb:",
        ),
        (
            &[],
            &[("NEURAXIS_LOG", "neuraxis=loud")],
            "error: NEURAXIS_LOG must be a log filter",
        ),
        (
            &[],
            &[("NEURAXIS_SERVER__ACCESS_LOG", "xml")],
            "error: NEURAXIS_SERVER__ACCESS_LOG: server.access_log: ",
        ),
        (
            &[],
            &[("NEURAXIS_SERVER__TLS__CERTIFICATE", "server.pem")],
            "server.tls",
        ),
    ] {
        let (code, said) = refusal(folder.path(), arguments, variables).await;
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

/// A supervisor that restarts the program may give up after exit code 2.
#[tokio::test]
async fn an_unavailable_database_is_not_a_configuration_error() {
    let away = [("NEURAXIS_STORE__URL", "postgres://me@127.0.0.1:1/x")];
    let (code, said) = refusal(folder().path(), &[], &away).await;
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("the store is unavailable"), "{said}");
}

#[tokio::test]
async fn an_address_already_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, said) = refusal(folder().path(), &["--listen", &address], &[]).await;
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains(&format!("error: cannot listen on {address}")),
        "{said}"
    );
}

#[tokio::test]
async fn the_log_reports_that_no_model_is_configured() {
    let program = Program::start_in(folder(), |command| {
        command
            .env_remove("NEURAXIS_MODELS__REASONING__PROVIDER")
            .env("NEURAXIS_DISCOVERY__LOCAL_SERVERS", "false");
    });
    let log = program.await.log();
    assert!(log.contains("no model configured"), "{log}");
}

#[tokio::test]
async fn origins_without_keys_are_told_to_have_no_effect() {
    let told = "[server] origins has no effect until there are keys";
    for (origins, count) in [("['http://localhost:5173']", 1), ("[]", 0)] {
        let program = Program::start_in(folder(), |command| {
            command.env("NEURAXIS_SERVER__ORIGINS", origins);
        });
        let program = program.await;
        let log = program.log();
        assert_eq!(log.matches(told).count(), count, "{log}");
    }
}

#[tokio::test]
async fn the_configuration_file_named_on_the_command_line_is_used() {
    let folder = folder();
    fs::write(
        folder.path().join("my.toml"),
        "[modes.cautious]\nroles = [\"*\"]\ntools.read_only = \"allow\"\n",
    )
    .unwrap();
    let program = Program::start_in(folder, |command| {
        command.args(["--config", "my.toml"]);
    });
    let program = program.await;
    let question = serde_json::json!({"message": "hello", "mode": "cautious"});
    let (status, _) = program.client().ask("s", &question).await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn an_untrusted_configuration_file_is_ignored_with_a_line_in_the_log() {
    let folder = folder();
    let file = folder.path().join("neuraxis.toml");
    let text = "[server]\nlisten = '0.0.0.0:0'\n[store]\nurl = 'sqlite://planted.db'\n\
                [models.reasoning]\nbase_url = 'http://127.0.0.1:9'\nprovider = 'llama'\n";
    let program = Program::start_in(folder, |_| fs::write(file, text).unwrap()).await;
    let question = serde_json::json!({"message": "What time is it?"});
    let (status, answered) = program.client().ask("s", &question).await;
    assert_eq!(
        (status, &answered["status"]),
        (200, &"done".into()),
        "{answered}"
    );
    let log = program.log();
    let said = "./neuraxis.toml is not trusted; ignored: models.reasoning.base_url, models.reasoning.provider, \
                server.listen, store.url (neuraxis trust show)";
    assert_eq!(log.matches(said).count(), 1, "{log}");
    assert!(!program.folder().join("planted.db").exists());
}

#[tokio::test]
async fn a_server_that_cannot_listen_leaves_the_token_of_the_running_one() {
    let in_memory = [("NEURAXIS_STORE__URL", "memory:")];
    let program = Program::start_in(folder(), |command| {
        command.envs(in_memory);
    });
    let program = program.await;
    let file = program.folder().join(".local/share/neuraxis/server.token");
    let token = fs::read_to_string(&file).unwrap();
    let listen = ["--listen", program.address()];
    let (code, said) = refusal(program.folder(), &listen, &in_memory).await;
    assert_eq!(code, 1, "{said}");
    assert_eq!(fs::read_to_string(&file).unwrap(), token, "{said}");
}

#[tokio::test]
async fn a_token_that_cannot_be_written_prevents_the_start_only_without_keys() {
    let folder = folder();
    let in_memory = [("NEURAXIS_STORE__URL", "memory:")];
    // A folder occupies the path of the file.
    let place = folder.path().join(".local/share/neuraxis/server.token");
    fs::create_dir_all(&place).unwrap();
    let (code, said) = refusal(folder.path(), &[], &in_memory).await;
    assert_eq!(code, 2, "{said}");
    let expected = format!("because: {} cannot be written", place.display());
    assert!(said.contains(&expected), "{said}");
    make_key(folder.path(), &["--owner", "ada"]).await;
    let program = Program::start_in(folder, |command| {
        command.envs(in_memory);
    });
    let log = program.await.log();
    assert!(log.contains("only keys can authorize decisions"), "{log}");
}

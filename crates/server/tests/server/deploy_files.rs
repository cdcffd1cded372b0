//! The files under `deploy/`, checked against the programs that read them or their schemas, and against our own
//! configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use neuraxis_app::{Config, DriverKind, Environment, Sources};

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(file)
}

/// Runs one of the provisioned linters.
fn passes(linter: &str, arguments: &[&str], file: &str) {
    let linters = std::env::var_os("TEST_NEURAXIS_DEPLOY_LINTERS").unwrap();
    let mut linter = Command::new(Path::new(&linters).join(linter));
    let output = linter.args(arguments).arg(deploy(file)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}

#[test]
#[ignore = "needs linters: run by cargo xtask test"]
fn lint_the_compose_file_is_valid() {
    let schema = ["--builtin-schema", "vendor.compose-spec"];
    passes("check-jsonschema", &schema, "restate.compose.yaml");
}

#[test]
#[ignore = "needs linters: run by cargo xtask test"]
fn lint_the_kubernetes_objects_are_valid() {
    passes(
        "kubernetes-validate",
        &["--strict"],
        "restate.kubernetes.yaml",
    );
}

#[test]
#[ignore = "needs linters: run by cargo xtask test"]
fn lint_the_containerfile_is_valid() {
    let linter = std::env::var_os("TEST_NEURAXIS_CONTAINER_LINTER").unwrap();
    let mut linter = Command::new(linter);
    let output = linter.arg("lint").arg(deploy("Containerfile")).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}

/// Runs systemd's analyzer on the unit, with the test program in it.
#[cfg(target_os = "linux")]
fn analyzed(arguments: &[&str]) -> std::process::Output {
    let unit = fs::read_to_string(deploy("neuraxis-server.service")).unwrap();
    let installed = "/usr/local/bin/neuraxis-server";
    assert!(unit.contains(installed), "{unit}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("neuraxis-server.service");
    let unit = unit.replace(installed, env!("CARGO_BIN_EXE_neuraxis-server"));
    fs::write(&file, unit).unwrap();
    let analyze = std::env::var_os("TEST_NEURAXIS_SYSTEMD_ANALYZE").unwrap();
    let mut analyze = Command::new(analyze);
    analyze.args(arguments).arg(&file).output().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "needs systemd: run by cargo xtask test"]
fn real_systemd_accepts_the_unit_without_warnings() {
    let verified = analyzed(&["verify", "--man=no"]);
    // An unknown key is only a warning.
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(
        verified.status.success() && said.trim().is_empty(),
        "{said}"
    );
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "needs systemd: run by cargo xtask test"]
fn real_systemd_rates_the_exposure_of_the_unit_as_low() {
    // The scale is from 0 (no exposure) to 100 (full exposure).
    let measured = analyzed(&["security", "--offline=true", "--threshold=20"]);
    let said = String::from_utf8_lossy(&measured.stdout);
    assert!(measured.status.success(), "{said}");
}

#[test]
fn the_container_uses_the_required_toolchain_and_runs_as_an_unprivileged_user() {
    let text = fs::read_to_string(deploy("Containerfile")).unwrap();
    let manifest = fs::read_to_string(deploy("../Cargo.toml")).unwrap();
    let (_, needed) = manifest.split_once("rust-version = \"").unwrap();
    let (needed, _) = needed.split_once('"').unwrap();
    assert!(
        text.contains(&format!("library/rust:{needed}-")),
        "{needed}"
    );
    let (_, last) = text.rsplit_once("\nFROM ").unwrap();
    let lines: Vec<&str> = last.lines().collect();
    let value = |name: &str| {
        let mut found = lines.iter().filter_map(|line| line.strip_prefix(name));
        found.next_back().unwrap_or_else(|| panic!("no {name}"))
    };
    let user = value("USER ");
    let is_number = |id: &str| id.parse::<u32>().is_ok_and(|id| id > 0);
    // Kubernetes can tell that a user number is not root, but not for a name.
    assert!(user.split(':').all(is_number), "{user}");
    let home = value("ENV HOME=");
    assert_eq!(value("WORKDIR "), home);
    assert_eq!(value("VOLUME "), format!("[\"{home}\"]"));
    let program = value("ENTRYPOINT ");
    let program: [String; 3] = serde_json::from_str(program).unwrap();
    let copied = value("COPY --from=build ");
    let [first, "--", program] = program.each_ref().map(String::as_str) else {
        panic!("{program:?}");
    };
    assert!(copied.ends_with(&format!(" {program}")), "{copied}");
    // Orphaned children are adopted by the first process, which must reap them.
    let (installed, _) = last.split_once(" \\\n    && rm ").unwrap();
    assert_eq!(first, "/usr/bin/tini");
    assert!(installed.ends_with(" tini"), "{installed}");
}

#[test]
fn the_configuration_for_kubernetes_is_valid() {
    let text = fs::read_to_string(deploy("restate.kubernetes.yaml")).unwrap();
    let (_, rest) = text.split_once("neuraxis.toml: |\n").unwrap();
    let lines = rest.lines().take_while(|line| *line != "---");
    let lines: Vec<_> = lines.map(str::trim_start).collect();
    let config = loaded(&lines.join("\n"), &[]);
    assert_eq!(config.driver().kind, DriverKind::Restate);
    config.driver().restate.check().unwrap();
}

#[test]
fn no_pod_receives_environment_variables_of_neighboring_services() {
    let text = fs::read_to_string(deploy("restate.kubernetes.yaml")).unwrap();
    let pods = text.matches("\n      containers:").count();
    let without = text.matches("\n      enableServiceLinks: false\n").count();
    assert_eq!((pods, without), (2, 2));
}

#[test]
fn the_variables_of_the_compose_file_are_a_valid_configuration() {
    let text = fs::read_to_string(deploy("restate.compose.yaml")).unwrap();
    let variables = text.lines().filter_map(|line| {
        let (name, value) = line.trim_start().split_once(": ")?;
        let value = value.trim_matches('"');
        name.starts_with("NEURAXIS_").then_some((name, value))
    });
    let variables: Vec<_> = variables.collect();
    assert!(variables.len() >= 10, "{variables:?}");
    let config = loaded("", &variables);
    assert_eq!(config.driver().kind, DriverKind::Restate);
    config.driver().restate.check().unwrap();
}

/// A run can resume at any worker, which must find the files written at another.
#[test]
fn all_pods_work_in_the_same_folder() {
    let text = fs::read_to_string(deploy("restate.kubernetes.yaml")).unwrap();
    let (_, root) = text.split_once("    [tools]\n    root = \"").unwrap();
    let (root, _) = root.split_once('"').unwrap();
    let mount = format!("\n            - {{ name: work, mountPath: {root} }}\n");
    let volume =
        "\n        - name: work\n          persistentVolumeClaim: { claimName: neuraxis-work }\n";
    assert_eq!(
        (text.matches(&mount).count(), text.matches(volume).count()),
        (2, 2)
    );
    let claim = "\n  name: neuraxis-work\nspec:\n  accessModes: [ReadWriteMany]\n";
    assert!(text.contains(claim), "{text}");
}

/// Each command's temporary folder is created in /tmp; without it, no command runs.
#[test]
fn each_container_with_a_read_only_root_has_a_writable_tmp() {
    let pods = fs::read_to_string(deploy("restate.kubernetes.yaml")).unwrap();
    let count = |text: &str| pods.matches(text).count();
    let closed = count("\n            readOnlyRootFilesystem: true\n");
    assert_eq!(closed, 2);
    let mounts = count("\n            - { name: tmp, mountPath: /tmp }\n");
    let volumes = count("\n        - name: tmp\n          emptyDir: {}\n");
    assert_eq!((mounts, volumes), (closed, closed));
    let compose = fs::read_to_string(deploy("restate.compose.yaml")).unwrap();
    assert!(compose.contains("\n  read_only: true\n"), "{compose}");
    assert!(compose.contains("\n  tmpfs: [/tmp]\n"), "{compose}");
    let guide = fs::read_to_string(deploy("../docs/deploy.md")).unwrap();
    assert!(guide.contains("podman run --read-only --tmpfs /tmp "));
}

/// A new volume gets the owner of the image's folder, or root if there is none.
#[test]
fn each_volume_of_the_compose_file_belongs_to_the_user_of_the_container() {
    let image = fs::read_to_string(deploy("Containerfile")).unwrap();
    let (_, user) = image.split_once("\nUSER ").unwrap();
    let (user, _) = user.split_once(':').unwrap();
    let compose = fs::read_to_string(deploy("restate.compose.yaml")).unwrap();
    let mut lines = compose.lines();
    let volumes = lines.find_map(|line| line.strip_prefix("  volumes: "));
    let volumes: Vec<String> = serde_json::from_str(volumes.unwrap()).unwrap();
    assert_eq!(volumes.len(), 2);
    for volume in volumes {
        let (_, folder) = volume.split_once(':').unwrap();
        let made = [
            format!("useradd --uid {user} --home-dir {folder} --create-home "),
            format!("install --directory --owner {user} --group {user} {folder}\n"),
        ];
        assert!(made.iter().any(|made| image.contains(made)), "{folder}");
    }
}

/// The program refuses a key that belongs neither to its user nor to root, however it is mounted.
#[test]
fn the_approval_key_belongs_to_the_user_of_the_container() {
    let image = fs::read_to_string(deploy("Containerfile")).unwrap();
    let (_, user) = image.split_once("\nUSER ").unwrap();
    let (user, _) = user.split_once(':').unwrap();
    let compose = fs::read_to_string(deploy("restate.compose.yaml")).unwrap();
    let mut lines = compose.lines();
    let given = format!("#   sudo chown {user} approval.key ");
    assert!(lines.any(|line| line.starts_with(&given)), "{given}");
    let guide = fs::read_to_string(deploy("../docs/deploy.md")).unwrap();
    assert!(guide.contains(&format!("`chown {user} approval.key`")));
}

/// A dump holds what was said, and the keys of providers.
#[test]
fn the_unit_disables_core_dumps() {
    let unit = fs::read_to_string(deploy("neuraxis-server.service")).unwrap();
    assert!(unit.contains("\nLimitCORE=0\n"), "{unit}");
}

/// For a user that exists only while the unit runs, no file can be created beforehand.
#[test]
fn the_unit_gets_the_approval_key_from_systemd_and_does_not_restart_on_exit_code_2() {
    let unit = fs::read_to_string(deploy("neuraxis-server.service")).unwrap();
    assert!(unit.contains("\nDynamicUser=yes\n"), "{unit}");
    assert!(unit.contains("\nRestartPreventExitStatus=2\n"), "{unit}");
    // An unmounted folder would appear to be missing.
    let shares = "\nAfter=network-online.target remote-fs.target\n";
    assert!(unit.contains(shares), "{unit}");
    let guide = fs::read_to_string(deploy("../docs/deploy.md")).unwrap();
    let (_, lines) = guide.split_once("```ini\n[Service]\n").unwrap();
    let (lines, _) = lines.split_once("```").unwrap();
    let (credential, variable) = lines.trim_end().split_once('\n').unwrap();
    for line in [credential, variable] {
        assert!(unit.contains(&format!("\n#{line}\n")), "{line}");
    }
    let credential = credential.strip_prefix("LoadCredential=").unwrap();
    let (name, _) = credential.split_once(':').unwrap();
    let variable = variable.strip_prefix("Environment=").unwrap();
    let (variable, file) = variable.split_once('=').unwrap();
    assert_eq!(file, format!("%d/{name}"));
    let file = format!("/run/credentials/neuraxis-server.service/{name}");
    let config = loaded("", &[(variable, file.as_str())]);
    assert_eq!(
        config.store().approval_key_file.as_deref(),
        Some(Path::new(&file))
    );
}

fn loaded(text: &str, variables: &[(&str, &str)]) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("neuraxis.toml");
    fs::write(&file, text).unwrap();
    let environment = Environment::new(folder.path());
    let with = |environment: Environment, (name, value): &(&str, &str)| {
        environment.with_variable(*name, *value)
    };
    let environment = variables.iter().fold(environment, with);
    Config::load(&environment, &Sources::default().with_file(file)).unwrap()
}

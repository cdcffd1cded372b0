//! What rules about commands allow and deny, however a command is written.

use neuraxis_brainstem::{Call, Policy, ReasonCache};
use neuraxis_core::{Access, Channel, GrantScope, JsonText, Mode, ToolSpec, Verdict, Vetting};

use crate::catalog::{judge_in, layered, named, offering_all, tool, word};

/// The example from the guide.
const LOOK_AROUND: &str = "
[rules.look-around]
answer = 'allow'
tools = ['run_command']
commands = ['git status', 'git log **', 'git diff **', 'cargo test **']
";

/// Allows everything except what a list denies.
const DENY_LIST: &str = "
[rules.all]
answer = 'allow'
tools = ['run_command']
commands = ['**']

[rules.listed]
answer = 'deny'
tools = ['run_command']
commands = ['curl', 'rm', 'git push', 'docker run', 'kill -9']
";

fn arguments(fields: &[(&str, &str)]) -> String {
    let fields: std::collections::BTreeMap<_, _> = fields.iter().copied().collect();
    JsonText::encode(&fields).unwrap().to_string()
}

fn judged(policy: &Policy, command: &str) -> &'static str {
    let arguments = arguments(&[("command", command)]);
    word(&judge_in(
        policy,
        &Mode::MODERATE,
        "run_command",
        &arguments,
    ))
}

#[test]
fn the_example_rule_of_the_guide_allows_nothing_else() {
    let policy = layered(LOOK_AROUND);
    for command in [
        "git status",
        "git log --oneline -5",
        "git log -p src/main.rs",
        "git log --format=%h main..dev",
        "git diff --stat HEAD src",
        "git diff /home/me/project/src/main.rs",
        "cargo test -p core --all-features",
        "git status && cargo test",
        "git diff HEAD~1",
        "git log HEAD~3..HEAD",
        "git log HEAD^ -- src",
        "git log @{u}~2 HEAD@{1}^",
        "git diff --text",
        "git log -Sconfig",
        "git log -Sabc",
        "git log -S/etc/passwd",
        "git log -Gfoo/bar",
        "git log -L10,20:src/main.rs",
        "cargo test -pCore",
        "git status 2>&1",
        "git log -3 2>/dev/null",
        "cargo test > /dev/null 2>&1 && git status < /dev/null",
        "cargo test &>/dev/null",
    ] {
        assert_eq!(judged(&policy, command), "allow", "{command}");
    }
    for command in [
        "git log -1 '--format=[core]%n fsmonitor=touch PWNED' --output=.git/config && git status",
        "git log -1 '--format=[rules.x]%nanswer=allow' --output=neuraxis.toml",
        "git log --output=victim.txt",
        "git log --outp=victim.txt",
        "git log --output victim.txt",
        "git log --output=.git/hooks/pre-commit",
        "git log --output=/dev/shm/x",
        "git diff --no-index /dev/null /home/u/.ssh/id_rsa",
        "git diff --no-index /dev/null '~/.ssh/id_rsa'",
        "git diff --no-i a b",
        "git diff /dev/null ../secret",
        "git diff a/../../secret",
        "git diff --ext-diff",
        "git log -p --textconv",
        "git log -- .git/config",
        "git log -C . -1",
        "cargo test --config 'build.rustc-wrapper=./x'",
        "cargo test --config build.rustc-wrapper=./x",
        "cargo test --manifest-path /any",
        "cargo test --manifest-path=any/Cargo.toml",
        "cargo test --target-dir x",
        "cargo test -Zunstable-options",
        "git -c core.fsmonitor=./x status",
        "git -C fixtures/x status",
        "git diff file:///etc/passwd",
        "git diff file://localhost/etc/passwd",
        "git diff a://etc/passwd",
        "git diff .://tmp/evil",
        "git diff ~/x",
        "git log --textc",
        "git log -pS/etc/passwd",
        "git log -L10,20:../x",
        "git log -L10,20:.env",
        "git status 2>&x",
        "git status >&-",
        "git log >& x",
        "git log > /dev/nullx",
        "git log >/dev/null/../x",
        "git log &>/dev/null x",
        "git status; >/dev/null",
        "git status\n</dev/null",
        ">/dev/null\ngit status",
    ] {
        assert_eq!(judged(&policy, command), "ask", "{command}");
    }
}

#[test]
fn a_rule_that_allows_commands_does_not_make_other_commands_ask() {
    let free = "[modes.moderate.tools]\nirreversible = 'allow'\nopen_world = 'allow'\ndestructive = 'allow'\n";
    let policy = layered(&format!("{free}{LOOK_AROUND}"));
    for command in ["ls *", "rm -rf $X", "(ls)", "echo x > y"] {
        assert_eq!(judged(&policy, command), "allow", "{command}");
    }
    // A command that starts with these words but may do more still asks.
    for command in ["git log > x", "git log --output=x"] {
        assert_eq!(judged(&policy, command), "ask", "{command}");
    }
    // A rule that denies may apply to anything unclear, and is the one that is named.
    let deny =
        "\n[rules.no-network]\nanswer = 'deny'\ntools = ['run_command']\ncommands = ['curl']";
    let policy = layered(&format!("{free}{LOOK_AROUND}{deny}"));
    let arguments = arguments(&[("command", "ls *")]);
    let verdict = judge_in(&policy, &Mode::MODERATE, "run_command", &arguments);
    let Verdict::Ask { reason, .. } = verdict else {
        panic!("{verdict:?}")
    };
    assert!(reason.starts_with("Rule no-network "), "{reason}");
}

#[test]
fn no_wildcard_matches_words_that_make_git_or_go_run_or_write() {
    let judged_by = |pattern: &str, command: &str| {
        let rule = "[rules.r]\nanswer = 'allow'\ntools = ['run_command']\ncommands = ";
        judged(&layered(&format!("{rule}['{pattern}']")), command)
    };
    for (pattern, command) in [
        ("git **", "git submodule foreach evil"),
        ("git **", "git --no-pager submodule --quiet foreach evil"),
        ("git **", "git bisect run evil"),
        ("git **", "git filter-branch --tree-filter evil"),
        ("git **", "git config core.pager evil"),
        ("git **", "git clone -u evil . y"),
        ("git **", "git clone -qu evil . y"),
        ("git **", "git archive -o src/main.rs HEAD"),
        ("git **", "git archive -osrc/main.rs HEAD"),
        ("git **", "git bundle create src/main.rs HEAD"),
        ("git **", "git grep -GO x"),
        ("git **", "git merge-index touch -a"),
        ("git **", "git send-email --to-cmd=evil x.patch"),
        ("git **", "git credential fill"),
        ("git **", "git an-alias"),
        ("git send-email **", "git send-email --to-cmd=evil x.patch"),
        ("git submodule **", "git submodule foreach evil"),
        ("git submodule foreach **", "git submodule foreach evil"),
        ("git rebase -x **", "git rebase -x evil"),
        ("git clone -u * **", "git clone -u evil . y"),
        ("git -c * log", "git -c core.pager=evil log"),
        ("git blame **", "git blame -S/etc/passwd x"),
        ("go vet **", "go vet -vettool=evil"),
        ("go vet **", "go vet --vettool=evil"),
        ("go test **", "go test -exec=sh"),
        ("go test **", "go test -exec sh"),
        ("go test **", "go test -run=/etc/passwd"),
        ("go test **", "go test -test.cpuprofile=main.go"),
        ("go test **", "go test ./x -args -test.testlogfile=main.go"),
        ("go build **", "go build -gcflags=-cpuprofile=main.go"),
        ("go build **", "go build -mod=mod"),
        ("go build **", "go build --overlay=x"),
        ("go build **", "go build -modfile=x"),
        ("go build **", "go build -ldflags=-extld=evil"),
        ("go build **", "go build --o=main.go"),
        ("go build **", "go build -o main.go"),
        ("go build **", "go build --C=x"),
    ] {
        assert_eq!(judged_by(pattern, command), "ask", "{pattern} / {command}");
    }
    for (pattern, command) in [
        ("git **", "git submodule update --init"),
        ("git **", "git bisect good"),
        ("git **", "git config --get user.name"),
        ("git **", "git config --global --list"),
        ("git **", "git config --show-origin --get x.y"),
        ("git **", "git config user.name"),
        ("git **", "git status -uno"),
        ("git **", "git ls-files -o"),
        ("git add **", "git add config run"),
        (
            "git -c color.ui=never log **",
            "git -c color.ui=never log -1",
        ),
        (
            "git archive -o out.tar **",
            "git archive -o out.tar HEAD src",
        ),
        ("git submodule foreach ls", "git submodule foreach ls"),
        ("git diff **", "git diff -Gfoo/bar"),
        ("git blame **", "git blame -L10,20 src/main.rs"),
        ("go test **", "go test -run=TestA/sub ./..."),
        ("go test **", "go test -short -count=1 -run TestA/sub"),
        ("go build -o bin/x **", "go build -o bin/x ./cmd/x"),
    ] {
        assert_eq!(
            judged_by(pattern, command),
            "allow",
            "{pattern} / {command}"
        );
    }
}

#[test]
fn wildcards_match_git_messages_whatever_they_contain() {
    let policy = layered(
        "[rules.r]\nanswer = 'allow'\ntools = ['run_command']\ncommands = ['git commit **', 'git tag **', 'git log **', 'git stash **']",
    );
    for (command, expected) in [
        ("git commit -m 'see https://a.example/x'", "allow"),
        ("git commit -am '/etc/passwd is now read'", "allow"),
        ("git commit --message 'remove .env from repo' src", "allow"),
        ("git tag -a v1 -m 'bump ~1.2'", "allow"),
        ("git commit --amend -m 'drop .env' -m '~ is home'", "allow"),
        ("git stash push -m 'before ../x'", "allow"),
        ("git commit -m\"remove .env from repo\"", "allow"),
        ("git commit -am\"see ../x\" -m'~ is home' src", "allow"),
        ("git commit --message=\"remove .env from repo\"", "allow"),
        ("git commit -mx -m 'drop .env'", "allow"),
        ("git commit -mx .env", "ask"),
        ("git commit -m -mx .env", "ask"),
        ("git commit -tm/../../y", "ask"),
        ("git commit -t -m/../../y", "ask"),
        ("git commit -- --message=/../../y", "ask"),
        ("git log -m../y", "ask"),
        ("git commit -m x .env", "ask"),
        ("git commit -m x ../y", "ask"),
        ("git commit -Fm ../y", "ask"),
        ("git commit -- -m .env", "ask"),
        ("git commit --end-of-options x -m .env", "ask"),
        ("git commit -m -m .env", "ask"),
        ("git commit -am -m .env", "ask"),
        ("git tag --trailer -m -F../y v1", "ask"),
        ("git stash list -m --output=x", "ask"),
        ("git stash show -m --output=x", "ask"),
        ("git log -m ../y", "ask"),
    ] {
        assert_eq!(judged(&policy, command), expected, "{command}");
    }
}

#[test]
fn wildcards_match_the_arguments_of_a_named_python_module() {
    for (pattern, command, expected) in [
        (
            "python3 -m pytest **",
            "python3 -m pytest -q tests",
            "allow",
        ),
        ("python3 -m pytest **", "python3 -m pytest -p evil", "ask"),
        ("python3 -m pytest **", "python3 -m pytest -c x.ini", "ask"),
        ("python3 -m pytest **", "python3 -m pytest ../x", "ask"),
        ("python3 -m **", "python3 -m pytest", "ask"),
        ("python3 -m pip **", "python3 -m pip install evil", "ask"),
        ("python3 -m sh -c *", "python3 -m sh -c evil", "ask"),
        ("python3 -c **", "python3 -c evil", "ask"),
        ("perl -m strict **", "perl -m strict -w", "ask"),
    ] {
        let rule = "[rules.r]\nanswer = 'allow'\ntools = ['run_command']\ncommands = ";
        let policy = layered(&format!("{rule}['{pattern}']"));
        assert_eq!(judged(&policy, command), expected, "{pattern} / {command}");
    }
}

#[test]
fn no_wildcard_matches_a_push_that_deletes_overwrites_or_redirects_branches() {
    for (pattern, command, expected) in [
        ("git **", "git push origin +main", "ask"),
        ("git push origin *", "git push origin :main", "ask"),
        ("git push origin *", "git push origin --mirror", "ask"),
        ("git push origin v*", "git push origin v9:prod", "ask"),
        ("git push origin v*", "git push origin v9", "allow"),
        ("git push **", "git push -u origin main", "allow"),
        (
            "git push **",
            "git push -o 'title=Fix: x' origin main",
            "allow",
        ),
        ("git push **", "git push origin -o -o +main", "ask"),
        ("git push **", "git push origin -o x +main", "ask"),
        ("git push -f **", "git push -f origin main", "allow"),
    ] {
        let rule = "[rules.r]\nanswer = 'allow'\ntools = ['run_command']\ncommands = ";
        let policy = layered(&format!("{rule}['{pattern}']"));
        assert_eq!(judged(&policy, command), expected, "{pattern} / {command}");
    }
}

/// Commands with which known programs run others, or write.
const BEYOND: &[&str] = &[
    "split --filter=./run.sh a",
    "split --fil ./run.sh a",
    "install -s --strip-program=./x a b",
    "bat --pager=./x a",
    "ack --pager=./x a",
    "ack --output=x a",
    "svn diff --diff-cmd ./x",
    "hg log --config alias.x=y",
    "helm template x --post-renderer ./x",
    "terraform plan -out=x",
    "terraform plan --out x",
    "terraform init -from-module=x",
    "terraform apply -auto-approve",
    "terraform plan -var-file=../x.tfvars",
    "jq --slurpfile a b . c",
    r#"jq 'import "\u002e\u002e/x" as $x; $x' a"#,
    r#"yq 'load_str("." + "./x")' a"#,
    "gcc -wrapper ./x a.c",
    "clang++ -fplugin=./x.so a.c",
    "gcc -B./x a.c",
    "g++ -oout a.c",
    "gcc @opts.txt",
    "gcc -Wa,-o,x a.c",
    "clang -mllvm=-load=./x.so a.c",
    "gcc -Xlinker -plugin -Xlinker ./x.so a.c",
    "clang -Wl,-z,now,-plugin,./x.so a.c",
    "rustc @args",
    "hg bisect --command ./x",
    "hg bisect -c ./x",
    "pandoc -t x.lua a.md",
    "rustc -Clinker=./x a.rs",
    "pandoc --filter ./x a.md",
    "mypy --python-executable ./x a",
    "pytest -p evil",
    "rspec -r ./x",
    "ctest -S x",
    "iconv -o out a",
];

#[test]
fn no_wildcard_matches_an_option_by_which_a_known_program_runs_or_writes() {
    let judged_by = |command: &str| {
        let program = command.split(' ').next().unwrap();
        let rule = "[rules.r]\nanswer = 'allow'\ntools = ['run_command']\ncommands = ";
        let words = match program {
            "helm" | "terraform" => command.split(' ').take(2).collect::<Vec<_>>().join(" "),
            _ => program.to_owned(),
        };
        judged(&layered(&format!("{rule}['{words} **']")), command)
    };
    for command in BEYOND {
        assert_eq!(judged_by(command), "ask", "{command}");
    }
    for command in [
        "split -l 5 a",
        "bat --paging=never a",
        "ack -i a",
        "svn diff -r 5",
        "hg log -l 5",
        "helm template x",
        "terraform plan -no-color -input=false -lock=false -refresh-only",
        "terraform plan -var-file=prod.tfvars -var env=prod -var-file x.tfvars",
        "terraform init -backend=false -reconfigure -lockfile=readonly",
        "terraform fmt -recursive -diff",
        "jq --slurp . a",
        r#"jq '.load_balancer, .["payload"]' a"#,
        "gcc -DNDEBUG -Iinc -Wall -fPIC -c a.c",
        "g++ -Werror -fno-exceptions -nostdlib -lTBB -Wl,-Bstatic -c a.c",
        "pytest -nauto -Werror -rfEpP --co --pdb -p no:cacheprovider",
        "rspec -fdoc",
        "iconv -fiso-8859-1 a",
        "svn log --diff",
        "hg id --debug",
        "hg diff -c 5",
        "install --strip a b",
        "pandoc -f markdown -tdocx README.md",
        "rustc -Dunsafe_code a.rs",
        "mypy --python-version 3.12 a",
        "pytest -x --color=no a",
        "rspec --format doc a",
        "ctest --output-on-failure -R a",
        "iconv -f latin1 -t utf8 a",
    ] {
        assert_eq!(judged_by(command), "allow", "{command}");
    }
}

#[test]
fn an_allowing_rule_applies_at_the_root_or_in_the_folders_it_names() {
    let in_folder = |policy: &Policy, folder: &str| {
        let arguments = arguments(&[("command", "git status"), ("cwd", folder)]);
        word(&judge_in(
            policy,
            &Mode::MODERATE,
            "run_command",
            &arguments,
        ))
    };
    let policy = layered(LOOK_AROUND);
    for folder in ["", ".", "./", "src/..", "/home/me/project"] {
        assert_eq!(in_folder(&policy, folder), "allow", "{folder}");
    }
    for folder in ["fixtures/x", "src", "~", "src\\x"] {
        assert_eq!(in_folder(&policy, folder), "ask", "{folder}");
    }
    assert_eq!(in_folder(&policy, "/"), "deny");
    let policy = layered(&format!("{LOOK_AROUND}cwd = ['crates/*']"));
    for (folder, expected) in [
        ("crates/core", "allow"),
        (".", "ask"),
        ("", "ask"),
        ("crates/core/src", "ask"),
        ("crates/../fixtures/x", "ask"),
        ("CRATES/core", "ask"),
    ] {
        assert_eq!(in_folder(&policy, folder), expected, "{folder}");
    }
    assert_eq!(judged(&policy, "git status"), "ask");
    let policy = layered(&format!("{LOOK_AROUND}cwd = ['.', 'crates/*']"));
    for folder in [".", "crates/core"] {
        assert_eq!(in_folder(&policy, folder), "allow", "{folder}");
    }
    assert_eq!(judged(&policy, "git status"), "allow");
    let text = "[rules.not-here]\nanswer = 'deny'\ntools = ['run_command']\ncommands = ['git']\ncwd = ['vendor/**']";
    let policy = layered(&format!("{LOOK_AROUND}{text}"));
    for folder in ["Vendor/x", "vendor"] {
        assert_eq!(in_folder(&policy, folder), "deny", "{folder}");
    }
    assert_eq!(in_folder(&policy, "."), "allow");
    // A path in a command is relative to the folder in which it runs.
    let policy = layered(&format!("{LOOK_AROUND}cwd = ['crates/*']"));
    for (path, expected) in [("../README.md", "allow"), ("../../../x", "ask")] {
        let command = format!("git log {path}");
        let arguments = arguments(&[("command", &command), ("cwd", "crates/core")]);
        let verdict = judge_in(&policy, &Mode::MODERATE, "run_command", &arguments);
        assert_eq!(word(&verdict), expected, "{path}");
    }
}

#[test]
fn a_command_is_judged_in_the_folders_it_changes_to() {
    let rule = "[rules.look]\nanswer = 'allow'\ntools = ['run_command']\ncommands = ['cd **', 'pushd **', 'popd', 'git log **']\n";
    let denied = "[rules.vendor]\nanswer = 'deny'\ntools = ['run_command']\ncwd = ['vendor/**']\n";
    let at_root = layered(rule);
    let anywhere = layered(&format!("{rule}cwd = ['.', '**']\n"));
    let not_vendor = layered(&format!("{rule}cwd = ['.', '**']\n{denied}"));
    for (command, expected) in [
        ("cd . && git log -1", ["allow", "allow", "allow"]),
        (
            "cd /home/me/project && git log -1",
            ["allow", "allow", "allow"],
        ),
        ("cd src && git log -1", ["ask", "allow", "allow"]),
        ("cd src; cd sub; git log -1", ["ask", "allow", "allow"]),
        ("cd -P -- vendor && git log -1", ["ask", "allow", "deny"]),
        (
            "cd src && cd ../vendor/x && git log -1",
            ["ask", "ask", "deny"],
        ),
        ("(cd vendor && git log -1)", ["ask", "ask", "deny"]),
        (
            "(cd src && git log -1); cd vendor && git log -1",
            ["ask", "ask", "deny"],
        ),
        ("sh -c 'cd vendor && git log -1'", ["ask", "ask", "deny"]),
        (
            "sh -c 'cd src && ls'; cd vendor && git log -1",
            ["ask", "ask", "deny"],
        ),
        ("cd src && git log ../README.md", ["ask", "ask", "ask"]),
        ("cd && git log -1", ["ask", "ask", "ask"]),
        ("cd - && git log -1", ["ask", "ask", "ask"]),
        ("cd $OLDPWD && git log -1", ["ask", "ask", "ask"]),
        ("cd .. && git log -1", ["ask", "ask", "ask"]),
        ("cd / && git log -1", ["ask", "ask", "ask"]),
        ("pushd vendor && git log -1", ["ask", "allow", "deny"]),
        ("popd && git log -1", ["ask", "ask", "ask"]),
    ] {
        let found = [&at_root, &anywhere, &not_vendor].map(|policy| judged(policy, command));
        assert_eq!(found, expected, "{command}");
    }
    // A path there is resolved against each of them.
    let reading =
        "[rules.read]\nanswer = 'allow'\ntools = ['run_command']\ncommands = ['cd **', 'cat **']\n";
    let policy = layered(&format!("{reading}cwd = ['.', '**']\n"));
    for (folder, command, expected) in [
        (".", "cd src && cat config", "allow"),
        (".", "cd .aws && cat credentials", "ask"),
        (".git", "cd . && cat config", "ask"),
    ] {
        let arguments = arguments(&[("command", command), ("cwd", folder)]);
        let verdict = judge_in(&policy, &Mode::MODERATE, "run_command", &arguments);
        assert_eq!(word(&verdict), expected, "{command}");
    }
    let all = "[rules.all]\nanswer = 'allow'\ntools = ['run_command']\n";
    let but_vendor = layered(&format!("{all}{denied}"));
    for command in [
        "cd ven* && cat f",
        "cd vendo? && cat f",
        "cd {vendor,} && cat f",
        "cd `echo vendor` && cat f",
        "CDPATH=vendor cd x && cat f",
        "CDPATH=vendor; cd x && cat f",
        "export CDPATH=vendor && cd x && cat f",
    ] {
        assert_eq!(judged(&but_vendor, command), "ask", "{command}");
    }
    for command in [
        "command cd vendor && ls",
        "builtin cd vendor; ls",
        "eval cd vendor; ls",
    ] {
        assert_eq!(judged(&but_vendor, command), "deny", "{command}");
    }
    assert_eq!(judged(&but_vendor, "cd src && ls"), "allow");
}

#[test]
fn a_rule_that_allows_by_path_host_or_value_allows_no_command() {
    for condition in [
        "paths = ['generated/**']",
        "paths = ['generated/**']\narguments = ['cwd']",
        "cwd = ['generated/**']",
        "hosts = ['docs.rs']",
        "values = { table = ['orders'] }",
    ] {
        let rule = format!("[rules.r]\nanswer = 'allow'\ntools = ['*']\n{condition}\n");
        let policy = layered(&rule);
        let judged = |mode: &Mode, tool: &str, command: &str| {
            let beside = [
                ("cwd", "generated/a"),
                ("url", "https://docs.rs"),
                ("table", "orders"),
            ];
            let command = (!command.is_empty()).then_some(("command", command));
            let fields: Vec<_> = beside.into_iter().chain(command).collect();
            word(&judge_in(&policy, mode, tool, &arguments(&fields)))
        };
        for command in ["echo $(rm -rf ../src) > ../x", "ls"] {
            for tool in ["run_command", "github__create_issue"] {
                let verdict = judged(&Mode::MODERATE, tool, command);
                assert_eq!(verdict, "ask", "{condition} {tool} {command}");
            }
        }
        // The rule is meant for calls without a command.
        let verdict = judged(&Mode::MODERATE, "write_file", "");
        assert_eq!(verdict, "allow", "{condition}");
        // A rule that allows makes no mode stricter.
        let verdict = judged(&Mode::EXPLORATORY, "github__list_issues", "ls");
        assert_eq!(verdict, "allow", "{condition}");
    }
    // A tool whose command is not a shell command has its words listed explicitly.
    let policy = layered(
        "[rules.r]\nanswer = 'allow'\ntools = ['write_file']\npaths = ['src/**']\ncommands = ['insert']",
    );
    for (command, expected) in [("insert", "allow"), ("create", "ask")] {
        let arguments = arguments(&[("command", command), ("path", "src/a")]);
        let verdict = judge_in(&policy, &Mode::MODERATE, "write_file", &arguments);
        assert_eq!(word(&verdict), expected, "{command}");
    }
}

#[test]
fn requested_sandbox_access_is_allowed_only_if_a_rule_lists_it() {
    let text = "
[rules.build]
answer = 'allow'
tools = ['run_command']
commands = ['cargo **']

[rules.fetch]
answer = 'allow'
tools = ['run_command']
commands = ['cargo fetch']
access = ['network']

[rules.no-git]
answer = 'deny'
tools = ['run_command']
access = ['git']

[rules.no-network-in-tests]
answer = 'deny'
tools = ['run_command']
commands = ['cargo test']
access = ['network']
";
    let policy = layered(text);
    for (arguments, expected) in [
        (r#"{"command":"cargo fetch"}"#, "allow"),
        (r#"{"command":"cargo build"}"#, "allow"),
        (r#"{"command":"cargo fetch","access":[]}"#, "allow"),
        (
            r#"{"command":"cargo fetch","access":null,"cwd":null}"#,
            "allow",
        ),
        (r#"{"command":"cargo fetch","access":["network"]}"#, "allow"),
        (r#"{"command":"cargo build","access":["network"]}"#, "ask"),
        (r#"{"command":"cargo build","access":"network"}"#, "ask"),
        (r#"{"command":"cargo build","access":["all"]}"#, "ask"),
        (
            r#"{"command":"cargo build","access":{"network":true}}"#,
            "ask",
        ),
        (r#"{"command":"cargo fetch","access":["git"]}"#, "deny"),
        (
            r#"{"command":"cargo fetch","access":["network","git"]}"#,
            "deny",
        ),
        (r#"{"command":"cargo test"}"#, "allow"),
        (r#"{"command":"cargo test","access":["network"]}"#, "deny"),
    ] {
        let verdict = judge_in(&policy, &Mode::MODERATE, "run_command", arguments);
        assert_eq!(word(&verdict), expected, "{arguments}: {verdict:?}");
    }
    // Neither does a rule that allows everything a tool does.
    let policy = layered("[rules.all]\nanswer = 'allow'\ntools = ['*']");
    for (tool, arguments, expected) in [
        ("run_command", r#"{"command":"ls"}"#, "allow"),
        (
            "run_command",
            r#"{"command":"ls","access":["network"]}"#,
            "ask",
        ),
        ("github__create_issue", r#"{"access":"public"}"#, "allow"),
    ] {
        let verdict = judge_in(&policy, &Mode::MODERATE, tool, arguments);
        assert_eq!(word(&verdict), expected, "{arguments}: {verdict:?}");
    }
}

/// Ways to write what [`DENY_LIST`] denies.
const DENIED: &[&str] = &[
    "sh -c 'true;curl x'",
    "sh -c '(curl x)'",
    "sh -c 'a=1;rm f'",
    "bash -c 'a&&curl x'",
    "setsid sh -c 'true;rm f'",
    "eval 'true;curl x'",
    "env '-Scurl x'",
    "env -Scurl x",
    "env -S'rm f'",
    "env --split-string='rm f'",
    "env -vS'rm f'",
    "env -i0S'curl x'",
    "env -vScurl",
    "env -S'-i curl x'",
    "/usr/bin/env -iS'-u A rm f'",
    "su -lc'rm f' me",
    "script -qc'rm f'",
    "rsync -ae'curl x' a b",
    "tar -xIcurl -f a",
    "gdb -batch -ex 'shell curl x'",
    "gdb -ex 'pi os.system(\"rm f\")'",
    "lldb -- curl x",
    "lldb -o 'platform shell rm f'",
    "i386 curl x",
    "x86_64 rm f",
    "conda run curl x",
    "pipenv run rm f",
    "pdm run curl x",
    "script -qc 'true;rm f'",
    "trap 'curl x' EXIT",
    "alias q='rm f'\nq",
    "flock l rm f",
    "flock l -c 'true; rm f'",
    "taskset 1 rm f",
    "chrt -i 0 rm f",
    "setarch -R rm f",
    "setpriv --nnp rm f",
    "prlimit -n5 rm f",
    "nsenter -t 1 rm f",
    "runuser -u me -- rm f",
    "systemd-run --user rm f",
    "/lib64/ld-linux-x86-64.so.2 /bin/rm f",
    "coproc rm f",
    "watch 'true; rm f'",
    "awk 'BEGIN{system(\"curl x\")}'",
    "perl -e 'system(\"curl\", \"x\")'",
    "python3 -c 'import os; os.system(\"curl x\")'",
    "python3.12 -c 'import subprocess as s; s.run([\"git\", \"push\"])'",
    "node -e 'require(\"child_process\").execSync(\"rm f\")'",
    "ruby -e '`rm f`'",
    "git -c alias.z='!curl x' z",
    "git config alias.z '!git push'",
    "tar xf a --to-command='rm f'",
    "tar cf a b --checkpoint-action=exec='rm f'",
    "rsync -e 'sh -c curl' a b",
    "R -e 'system(\"curl x\")'",
    "xvfb-run curl x",
    "powershell -c 'curl x'",
    "watchexec 'true; rm f'",
    "vim -c '!rm f'",
    "ssh -o ProxyCommand='curl x' h",
    "find . -exec rm {} +",
    "make -f /dev/stdin SHELL=rm",
    "npx curl x",
    "timeout 60 sh -c \"nice curl x\"",
    "git -C . push",
    "git.exe push",
    "GIT -c alias.z='!curl x' z",
    "git.exe -c alias.z='!curl x' z",
    "git --no-pager push",
    "git -c a=b push",
    "git --git-dir x --work-tree y push",
    "GIT_DIR=x git push",
    "docker --context x run i",
    "docker -H tcp://h run i",
    "kill -s9 1 -9",
    "sudo git -C /x push origin",
    "curl x; 'unfinished",
    "echo 'unfinished; curl x",
    "true\u{1}; curl x",
    "$(curl x",
    ">/dev/null curl x",
    "</dev/null curl x",
    "2>&1 curl x",
    ">&- curl x",
    ">&-curl x",
    "{fd}>/dev/null curl x",
    "<<E curl x",
    "<<<y curl x",
    "git 2>/dev/null push",
    "git >x push",
    "git &>x push",
    "git log &>x curl y",
    "git log >$(curl x)",
    "if >x curl y; then true; fi",
    "time -p curl x",
    "time -p sh -c 'true; curl x'",
    "coproc N curl x",
    "coproc N { curl x; }",
    "function f { curl x; }; f",
    "for x do curl y; done",
    "git +x push",
    "cat > a.md <<'EOF'\nIt's x\nEOF\ncurl x\ncat > b.md <<'EOF'\nDon't\nEOF",
    "cat >a <<-E\n\t6\" x\n\tE\nrm f\ncat >b <<E\n7\" y\nE",
    "sh -c 'cat <<E\n\"\nE\ncurl x\ncat <<E\n\"\nE'",
    "echo $'\\'' ; curl x ; echo \\'",
    "$'curl' x",
    "sh -c $'cd y\\n rm f'",
    "$((cat <<'E'\nIt's x\nE\n); curl x; (cat <<'E'\nDon't\nE\n) )",
];

/// Commands that cannot be analyzed, so they ask.
const NOT_SEEN_THROUGH: &[&str] = &[
    "sh -c 'rm${IFS}f'",
    "sh -c '$(echo rm) f'",
    "bash -c '{rm,f}'",
    "echo 'rm f' | sh",
    "echo 'rm f' | sudo bash -s",
    "echo f | xargs true",
    ". ./x.sh",
    "source x.sh",
    "sh x.sh",
    "make",
    "find . -delete",
    "python3 x.py",
    "rm${IFS}f",
    "git add x <<E",
    "cat >a.md <<'E'\nIt's said to use curl, and that's it\nE",
    "cat >a.md <<<x; echo 'one\ncurl two'",
    "IFS=$'\\n'; grep -rn 'how to use curl' docs",
    "x=$((1<<2)); git commit -m 'one\ncurl two'",
    "env A=-lcrm git commit -m 'it is vScurl'",
    "find . -perm 644",
    "conda install curl",
    "pdm add curl",
    "pipenv install rm",
    "rsync -avrm a b",
];

#[test]
fn denied_commands_are_found_in_scripts_behind_runners_and_between_options() {
    let policy = layered(DENY_LIST);
    for command in DENIED {
        assert_eq!(judged(&policy, command), "deny", "{command}");
    }
    for command in ["#", "true;", "true $(true) "] {
        let long = format!("curl x; {}{}", command, "a".repeat(9_000));
        assert_eq!(judged(&policy, &long), "deny", "{command}");
        let long = format!("{}; curl x", command.repeat(9_000 / command.len()));
        assert_eq!(judged(&policy, &long), "deny", "{command}");
    }
    for command in NOT_SEEN_THROUGH {
        assert_eq!(judged(&policy, command), "ask", "{command}");
    }
    for command in [
        "echo curl",
        "grep -r 'curl x' .",
        "git commit -m 'use curl now'",
        "git commit -m push",
        "git log push",
        "git stash push",
        "kill 1",
        "cargo test --no-run",
        "git commit -m 'one\ncurl two'",
        "git commit -m \"Don't curl x\"",
        "git commit -m 'say \"curl x\"'",
        "git log --format='%h \"%s\"'",
        "grep -rn \"it's\" src",
        r"grep -rn '\bcurl\b' src",
        r#"rg "\"name\":|\bcurl" package.json"#,
        "jq '.a[\"b\"]' x.json",
    ] {
        assert_eq!(judged(&policy, command), "allow", "{command}");
    }
}

#[test]
fn options_of_a_denied_command_match_in_any_order_and_bundled() {
    let policy = layered(
        "
[rules.listed]
answer = 'deny'
tools = ['run_command']
commands = ['rm -rf', 'git push --force', 'git reset --hard HEAD', 'cargo publish']
",
    );
    for command in [
        "rm -rf x",
        "rm -fr x",
        "rm -r -f x",
        "rm x -r y -f",
        "rm -Rvrf x",
        "rm -Rf x",
        "rm -r --force x",
        "rm --recursive --force x",
        "rm --rec -f x",
        "sudo rm --force -r x",
        "git push -f",
        "cargo publish",
        "cargo +nightly publish",
        "cargo +nightly -q publish",
        "git push --force",
        "git push origin main --force",
        "git push --forc",
        "git push --force=x",
        "git -C . push -u origin --force",
        "git reset HEAD --hard",
        "git reset --hard -q HEAD",
    ] {
        assert_eq!(judged(&policy, command), "deny", "{command}");
    }
    for command in [
        "rm -r x",
        "rm f",
        "git push",
        "git push origin force",
        "git reset HEAD",
        "rm --recursive x",
        "rm --force x",
        "git push --follow-tags",
        "git push --force-with-lease",
        "cargo +nightly test publish",
    ] {
        assert_eq!(judged(&policy, command), "ask", "{command}");
    }
}

#[test]
fn every_argument_that_may_contain_a_command_is_judged() {
    let rules = "
[rules.reads]
answer = 'allow'
tools = ['run_command']
commands = ['git status', 'git log **']

[rules.no-rm]
answer = 'deny'
tools = ['run_command']
commands = ['rm']
";
    let policy = layered(rules);
    for (arguments, expected) in [
        (r#"{"command":"rm -rf .","cmd":["git","status"]}"#, "deny"),
        (r#"{"command":"ls","cmd":["git","status"]}"#, "ask"),
        (r#"{"command":"git status","cmd":["git","log"]}"#, "allow"),
        (r#"{"cmd":["git","status"],"script":["rm","x"]}"#, "deny"),
        (r#"{"command":"git","args":["status"]}"#, "allow"),
        (r#"{"command":"git log","args":["curl","x"]}"#, "allow"),
        (
            r#"{"command":"git log &>/dev/null","args":["curl","x"]}"#,
            "ask",
        ),
        (r#"{"command":"git log 2>&1","args":["curl","x"]}"#, "ask"),
        (r#"{"command":"git log #","args":["-1"]}"#, "ask"),
        (r#"{"command":"git log\n","args":["curl","x"]}"#, "ask"),
        (r#"{"command":"git","args":"status"}"#, "ask"),
        (r#"{"command":"git","args":["status",["x"]]}"#, "ask"),
        (r#"{"command":"git log","args":"-c; rm x"}"#, "deny"),
        (r#"{"command":"sh","args":"-c 'rm x'"}"#, "deny"),
        (r#"{"command":"sh","args":["-c","true; rm x"]}"#, "deny"),
        (r#"{"command":["sh","-c","true; rm x"]}"#, "deny"),
        (r#"{"command":["git"],"args":["status"]}"#, "ask"),
        (r#"{"command":"git status; git log","args":["x"]}"#, "ask"),
        (r#"{"command":"git log","env":{"GIT_PAGER":"rm x"}}"#, "ask"),
        (
            r#"{"command":"git log","environment":["GIT_PAGER=rm x"]}"#,
            "ask",
        ),
        (r#"{"command":"git log","env":"production"}"#, "allow"),
        (r#"{"command":"git log","env":{}}"#, "allow"),
    ] {
        let verdict = judge_in(&policy, &Mode::MODERATE, "run_command", arguments);
        assert_eq!(word(&verdict), expected, "{arguments}: {verdict:?}");
    }
}

#[test]
fn well_known_arguments_are_recognized_in_any_spelling() {
    let rules = "
[rules.reads]
answer = 'allow'
tools = ['run_command']
commands = ['git log **']

[rules.no-rm]
answer = 'deny'
tools = ['run_command']
commands = ['rm']
";
    let policy = layered(rules);
    for (arguments, expected) in [
        (r#"{"command":"git log","envVars":{"A":"1"}}"#, "ask"),
        (
            r#"{"command":"git log","environmentVariables":{"A":"1"}}"#,
            "ask",
        ),
        (
            r#"{"command":"git log","environment_variables":["A=1"]}"#,
            "ask",
        ),
        (
            r#"{"command":"git log","environmentVars":{"A":"1"}}"#,
            "ask",
        ),
        (r#"{"command":"git log","Env":{"A":"1"}}"#, "ask"),
        (r#"{"command":"git log","ENV-VARS":{"A":"1"}}"#, "ask"),
        (r#"{"command":"git log","variables":{"A":"1"}}"#, "ask"),
        (r#"{"command":"git log","vars":{"A":"1"}}"#, "ask"),
        (r#"{"command":"git log","var\u017f":{"A":"1"}}"#, "ask"),
        (r#"{"command":"git log","wor\u212adir":"x"}"#, "ask"),
        (r#"{"command":"git log","env":["A","1"]}"#, "ask"),
        (r#"{"command":"git log","env":" {\"A\":\"1\"}"}"#, "ask"),
        (r#"{"command":"git log","env":"[\"A\"]"}"#, "ask"),
        (r#"{"command":"git log","env":[]}"#, "allow"),
        (r#"{"command":"git log","Env":"production"}"#, "allow"),
        (r#"{"command":"git log","workingDirectory":"x"}"#, "ask"),
        (r#"{"command":"git log","working_dir":"x"}"#, "ask"),
        (r#"{"command":"git log","directory":"x"}"#, "ask"),
        (r#"{"command":"git log","directory":"."}"#, "allow"),
        (r#"{"command":"git log","folder":"x"}"#, "ask"),
        (r#"{"command":"git log","Args":["--output=x"]}"#, "ask"),
        (r#"{"command":"git log","Access":["network"]}"#, "ask"),
        (r#"{"command":"git log","Cmd":"rm x"}"#, "deny"),
        (r#"{"Command":"rm x"}"#, "deny"),
        (r#"{"Command":"git log"}"#, "allow"),
    ] {
        let verdict = judge_in(&policy, &Mode::MODERATE, "run_command", arguments);
        assert_eq!(word(&verdict), expected, "{arguments}: {verdict:?}");
    }
}

#[test]
fn a_word_with_ambiguous_quoting_is_not_plain() {
    let policy = layered(
        "[rules.lint]\nanswer = 'allow'\ntools = ['run_command']\ncommands = ['python3 scripts/lint.py']",
    );
    assert_eq!(judged(&policy, "python3 scripts/lint.py"), "allow");
    assert_eq!(judged(&policy, "python3 'scripts/lint.py'"), "allow");
    for command in [
        r"python3 'scripts/lin\t.py'",
        r#"python3 "scripts/lin\t.py""#,
        r"python3 scripts/lin\t.py",
        r#"python3 scripts/l'"'int.py"#,
        "python3 scripts/lint.py\u{a0}x",
    ] {
        assert_eq!(judged(&policy, command), "ask", "{command}");
    }
}

#[test]
fn commands_whose_words_run_or_write_are_remembered_only_with_exact_arguments() {
    let choices = |arguments: &str| {
        let policy = layered("[modes.moderate]\nafter_untrusted = 'allow'\n");
        let decision = offering_all(&policy, &Mode::MODERATE, &Channel::CODE_TASK);
        let arguments = JsonText::from_text(arguments);
        let choices =
            policy.grant_choices(&decision, &Call::new(&named("run_command"), &arguments));
        assert!(matches!(choices[0], GrantScope::Arguments { .. }));
        choices.get(1).cloned()
    };
    for command in [
        "timeout 60 cargo test",
        "find . -name x",
        "sh build.sh",
        "nice make",
        "ssh host uptime",
        "env",
        "sudo apt update",
        "bash",
        "make test",
        "python3 x.py",
        "tar xf a.tar",
        "npm test",
        "git push origin",
        "GIT push origin",
        "git add x",
        "rm x",
        "cargo",
        "ls -l",
        "./build.sh all",
        "cat notes.txt",
        "git log --output=x",
        "cargo test --manifest-path /x",
        "cargo test && cargo build",
        "cargo nextest run",
        "cargo llvm-cov --html",
        "rails runner x",
        "pm2 start x",
        "rvm do x",
        "sql run x",
    ] {
        let arguments = arguments(&[("command", command)]);
        assert_eq!(choices(&arguments), None, "{command}");
    }
    let with = |pattern: &str, access: &[Access]| {
        Some(GrantScope::Command {
            pattern: pattern.to_owned(),
            access: access.to_vec(),
        })
    };
    for (arguments, expected) in [
        (r#"{"command":"cargo test x"}"#, with("cargo test **", &[])),
        (r#"{"command":"git log -1"}"#, with("git log **", &[])),
        (
            r#"{"command":"cargo deny check"}"#,
            with("cargo deny **", &[]),
        ),
        (
            r#"{"command":"golangci-lint run ./..."}"#,
            with("golangci-lint run **", &[]),
        ),
        (
            r#"{"command":"cargo fetch","access":["network"]}"#,
            with("cargo fetch **", &[Access::Network]),
        ),
        (
            r#"{"command":"cargo test","cwd":"."}"#,
            with("cargo test **", &[]),
        ),
        (r#"{"command":"cargo test","cwd":"crates/core"}"#, None),
        (r#"{"command":"cargo test","access":["all"]}"#, None),
    ] {
        assert_eq!(choices(arguments), expected, "{arguments}");
    }
}

#[test]
fn a_remembered_command_covers_only_its_folder_and_access_and_no_unsafe_option() {
    let policy = layered("[modes.moderate]\nafter_untrusted = 'allow'\n");
    let decision = offering_all(&policy, &Mode::MODERATE, &Channel::CODE_TASK);
    let mut remembered = neuraxis_brainstem::Grants::default();
    let run = named("run_command");
    let asked = JsonText::from_text(r#"{"command":"cargo fetch","access":["network"]}"#);
    let call = Call::new(&run, &asked);
    let scope = policy.grant_choices(&decision, &call).remove(1);
    let now = neuraxis_core::jiff::Timestamp::UNIX_EPOCH;
    policy
        .remember(&mut remembered, &decision, &call, scope, now, None)
        .unwrap();
    for (arguments, expected) in [
        (
            r#"{"command":"cargo fetch --locked","access":["network"]}"#,
            "allow",
        ),
        (r#"{"command":"cargo fetch"}"#, "allow"),
        (
            r#"{"command":"cargo fetch","access":["network","git"]}"#,
            "ask",
        ),
        (r#"{"command":"cargo fetch","cwd":"x"}"#, "ask"),
        (r#"{"command":"cargo fetch --config x=1"}"#, "ask"),
        (r#"{"command":"cargo fetch --manifest-path ../x"}"#, "ask"),
    ] {
        let arguments = JsonText::from_text(arguments);
        let call = Call::new(&run, &arguments).with_remembered(&remembered);
        let verdict = policy.judge(&decision, &call);
        assert_eq!(word(&verdict), expected, "{arguments:?}: {verdict:?}");
    }
}

#[test]
fn a_verdict_explains_why_a_wildcard_does_not_match_a_word() {
    let policy = layered(LOOK_AROUND);
    let arguments = arguments(&[("command", "git diff /etc/passwd")]);
    let verdict = judge_in(&policy, &Mode::MODERATE, "run_command", &arguments);
    let Verdict::Ask { reason, .. } = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!(
        reason,
        "Rule look-around (neuraxis.toml:2) asks before run_command runs: it is unclear whether the call matches, because it names a file outside the project's folder. (`git diff /etc/passwd`)"
    );
}

#[test]
fn no_wildcard_matches_a_file_that_usually_contains_secrets() {
    let rule = |commands: &str| {
        layered(&format!(
            "[rules.look]\nanswer = 'allow'\ntools = ['run_command']\ncommands = [{commands}]"
        ))
    };
    let policy = rule("'cat **', 'grep **', 'git show **', 'jq **'");
    for command in [
        "cat .env",
        "cat src/.ENV.local",
        "grep -r KEY .env",
        "grep -f.env x",
        "grep --file=.env x",
        "cat deploy/server.pem",
        "git show HEAD:.env",
        "git show HEAD:deploy/id_rsa",
        "cat README.md .npmrc",
        "git show 'HEAD:*.key'",
        "jq . .env",
    ] {
        assert_eq!(judged(&policy, command), "ask", "{command}");
    }
    for command in [
        "cat .envrc",
        "grep -r KEY src/env.rs",
        "git show HEAD:src/main.rs",
        "jq .key x.json",
        "jq '.items[].key' x.json",
        "jq '.items[0].env' x.json",
    ] {
        assert_eq!(judged(&policy, command), "allow", "{command}");
    }
    // An author who writes it out intends it.
    assert_eq!(judged(&rule("'cat .env'"), "cat .env"), "allow");
}

fn with_schema(name: &str, schema: &str) -> ToolSpec {
    let mut tool = tool(name, neuraxis_core::ToolClass::Irreversible);
    tool.parameters = JsonText::from_text(schema);
    tool
}

#[test]
fn a_command_rule_for_tools_without_commands_is_reported() {
    let tools = [
        with_schema(
            "run_command",
            r#"{"properties":{"command":{"type":"string"}}}"#,
        ),
        with_schema("run_code", r#"{"properties":{"code":{"type":"string"}}}"#),
        with_schema("anything", r#"{"type":"object"}"#),
    ];
    let told = |names: &str, more: &str| {
        let rule = format!("answer = 'deny'\ntools = [{names}]\ncommands = ['rm']\n{more}");
        let policy = layered(&format!("[rules.no]\n{rule}"));
        let told = policy.rules_without_command(&tools);
        told.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        told("'run_code'", ""),
        [
            "rules.no.commands can never match: none of the rule's tools takes an argument named command, cmd, script; set arguments to the one that holds the command"
        ]
    );
    assert_eq!(told("'run_command'", "arguments = ['cmdline']").len(), 1);
    assert!(told("'run_code'", "arguments = ['code']").is_empty());
    for names in ["'run_command'", "'run_*'", "'anything'", "'not_connected'"] {
        assert!(told(names, "").is_empty(), "{names}");
    }
}

#[test]
fn a_value_rule_for_an_argument_no_tool_takes_is_reported() {
    let closed = r#"{"type":"object","properties":{"expression":{"type":"string"}},"additionalProperties":false}"#;
    let nested =
        r#"{"type":"object","properties":{"of":{"type":"object"}},"additionalProperties":false}"#;
    let tools = [
        with_schema("calculate", closed),
        with_schema("nested", nested),
        with_schema("open", r#"{"type":"object","properties":{"a":{}}}"#),
    ];
    let told = |names: &str, argument: &str| {
        let rule = format!("answer = 'deny'\ntools = [{names}]\nvalues = {{ {argument} = ['*'] }}");
        let policy = layered(&format!("[rules.no]\n{rule}"));
        let told = policy.rules_without_argument(&tools);
        told.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        told("'calculate'", "expresion"),
        [
            "rules.no.values can never match: none of the rule's tools takes an argument named expresion; check its spelling"
        ]
    );
    assert!(told("'calculate'", "expression").is_empty());
    for names in [
        "'open'",
        "'nested'",
        "'calculate', 'open'",
        "'calculate', 'not_connected'",
        "'calc*'",
        "'*'",
    ] {
        assert!(told(names, "expresion").is_empty(), "{names}");
    }
}

#[test]
fn an_allowing_pattern_that_may_write_or_run_other_programs_causes_a_warning() {
    let cautions = |pattern: &str| {
        let policy = layered(&format!(
            "[rules.r]\nanswer = 'allow'\ntools = ['run_command']\ncommands = [\"{pattern}\"]"
        ));
        policy.cautions()
    };
    for (pattern, part) in [
        ("**", "every program;"),
        ("git log **", "--output"),
        ("git diff **", "--no-index"),
        ("cargo test **", "--manifest-path"),
        ("git push origin *", "FROM:TO"),
        ("git log --output=x", "with --output=x"),
        ("git submodule foreach **", "with foreach"),
        ("git archive -o x", "with -o"),
        ("go test -exec=sh ./x", "with -exec=sh"),
        ("find **", "still ask"),
        ("find . **", "-delete"),
        ("tar **", "still ask"),
        ("sed **", "still ask"),
        ("sort **", "-o"),
        ("bat **", "--pager"),
        ("svn **", "--diff-cmd"),
        ("helm template **", "--post-renderer"),
        ("gcc **", "-wrapper"),
        ("split **", "with some options runs programs"),
        ("make **", "still ask"),
        ("npm **", "still ask"),
        ("env **", "runs the program that its arguments name"),
        ("python3 **", "runs code"),
        ("python3 -c *", "still ask"),
        ("python3 -m pip **", "still ask"),
        ("npm --prefix packages/a run **", "still ask"),
        ("python3 -m pytest **", "with -m"),
        ("rm **", "writes or removes"),
    ] {
        let found = cautions(pattern);
        assert_eq!(found.len(), 1, "{pattern}");
        assert_eq!(found[0].0, "rules.r.commands");
        assert!(found[0].1.contains(part), "{pattern}: {}", found[0].1);
    }
    for pattern in [
        "git status",
        "ls **",
        "make test",
        "sh scripts/check.sh",
        "cargo test",
    ] {
        assert_eq!(cautions(pattern), [], "{pattern}");
    }
}

#[test]
fn a_pattern_word_that_would_end_an_unquoted_command_causes_a_warning() {
    for answer in ["allow", "ask", "deny"] {
        let policy = layered(&format!(
            "[rules.r]\nanswer = '{answer}'\ntools = ['run_command']\ncommands = ['ls a; b', 'ls a']"
        ));
        let found = policy.cautions();
        assert_eq!(found.len(), 1, "{answer}: {found:?}");
        assert_eq!(found[0].0, "rules.r.commands");
        let said = &found[0].1;
        assert!(
            said.starts_with("\"ls a; b\": a; is one word only if it is quoted"),
            "{said}"
        );
    }
}

#[test]
fn only_a_command_that_requests_the_network_is_described_as_reaching_outside() {
    let mut tool = named("run_command");
    tool.annotations = tool.annotations.confined();
    let reason = |policy: &Policy, arguments: &str| {
        let decision = offering_all(policy, &Mode::MODERATE, &Channel::CODE_TASK);
        let arguments = JsonText::from_text(arguments);
        match policy.judge(&decision, &Call::new(&tool, &arguments)) {
            Verdict::Ask { reason, .. } => reason,
            other => panic!("{other:?}"),
        }
    };
    let (inside, outside) = (
        r#"{"command":"ls"}"#,
        r#"{"command":"ls","access":["network"]}"#,
    );
    let usual = Policy::built_in();
    assert_eq!(
        reason(&usual, inside),
        "Mode moderate asks before run_command runs, because it may change something permanently and may destroy something."
    );
    assert!(reason(&usual, outside).contains("reaches outside this machine"));
    let permitted = "[modes.moderate.tools]\nirreversible = 'allow'\ndestructive = 'allow'";
    let why = reason(&layered(permitted), inside);
    assert!(why.contains("because it reaches outside"), "{why}");

    let free = layered(&format!("{permitted}\nopen_world = 'allow'"));
    let decision = offering_all(&free, &Mode::MODERATE, &Channel::CODE_TASK);
    let mut cached = ReasonCache::default();
    for (arguments, reaches_out) in [(outside, true), (inside, false)] {
        let arguments = JsonText::from_text(arguments);
        let call = Call::new(&tool, &arguments);
        let Vetting::Run {
            reason: Some(reason),
            ..
        } = free.vet(&decision, &call, &mut cached)
        else {
            panic!("{arguments}")
        };
        assert_eq!(reason.contains("reaches outside"), reaches_out, "{reason}");
    }
}

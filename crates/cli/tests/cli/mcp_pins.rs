//! Accepted tool definitions, when many servers and several processes see theirs for the first time at the same moment.

use std::fs;

use neuraxis_testkit::mcp_script;

use crate::machine::Machine;

/// The total number of servers.
const SERVERS: usize = 12;

fn section(number: usize) -> String {
    format!("[mcp.servers.shop{number}]\ncommand = 'sh'\nargs = ['server.sh']\n")
}

fn machine() -> Machine {
    let sections: Vec<String> = (0..SERVERS).map(section).collect();
    Machine::new()
        .with_file("server.sh", mcp_script(""))
        .with_private("config/neuraxis/neuraxis.toml", &sections.concat())
}

/// Returns the numbers of the servers whose tool is missing in a list of tools.
fn missing(list: &str) -> Vec<usize> {
    let is_missing = |number: &usize| !list.contains(&format!("shop{number}__look "));
    (0..SERVERS).filter(is_missing).collect()
}

fn pins(machine: &Machine) -> std::path::PathBuf {
    machine.home().join("data/neuraxis/mcp-tools.toml")
}

fn assert_all_are_kept(machine: &Machine) {
    let kept = fs::read_to_string(pins(machine)).unwrap();
    for number in 0..SERVERS {
        let count = kept.matches(&format!("name = \"shop{number}\"")).count();
        assert_eq!(count, 1, "shop{number} in {kept}");
    }
}

#[test]
fn at_first_use_of_twelve_servers_each_is_offered_and_pinned() {
    let machine = machine();
    for round in 0..4 {
        let done = machine.run(["tools", "list"]);
        assert_eq!(missing(&done.stdout), [0_usize; 0], "{round}: {done:?}");
        assert!(!done.stderr.contains("MCP server"), "{round}: {done:?}");
        assert_all_are_kept(&machine);
        fs::remove_file(pins(&machine)).unwrap();
    }
}

#[test]
fn concurrent_processes_lose_none_of_the_accepted_tools() {
    let machine = machine();
    for _ in 0..3 {
        let processes: Vec<_> = (0..2)
            .map(|_| {
                let mut command = machine.command(["tools", "list"]);
                command.stdout(std::process::Stdio::piped());
                command.stderr(std::process::Stdio::piped());
                command.spawn().unwrap()
            })
            .collect();
        for process in processes {
            let output = process.wait_with_output().unwrap();
            let list = String::from_utf8_lossy(&output.stdout);
            assert_eq!(missing(&list), [0_usize; 0], "{output:?}");
        }
        assert_all_are_kept(&machine);
        fs::remove_file(pins(&machine)).unwrap();
    }
}

#[test]
fn an_unreadable_pin_file_is_an_error_and_not_an_empty_tool_list() {
    let machine = machine().with_private("data/neuraxis/mcp-tools.toml", "servers = 1\n");
    for command in ["test", "trust"] {
        let complaint = machine.run(["mcp", command, "shop0"]).complaint(1);
        let why = "mcp-tools.toml is not a list of what you trust; remove it";
        assert!(complaint.contains(why), "{complaint}");
    }
}

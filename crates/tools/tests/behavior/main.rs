//! The behavior of the tools, seen through the port by which they are called.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its world has to fail"
)]

mod apply_patch;
mod ask_user;
mod built_in;
mod calculate;
mod confinement;
mod current_time;
mod function_tool;
mod limits;
mod list_files;
mod read_file;
#[cfg(target_os = "linux")]
mod run_command;
#[cfg(target_os = "linux")]
mod sandbox;
mod search_files;
mod support;
mod system_health;
mod tool_macro;
mod update_plan;
mod v4a;
mod write_file;

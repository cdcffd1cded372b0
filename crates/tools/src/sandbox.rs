//! What the kernel lets a command do: run and read what the user may, write in a few places only, reach nothing else.
//!
//! A command is run by a helper process: this program, started again ([`helper`]). The helper is two processes. The
//! **supervisor** ([`supervise`]) stays outside; it ends everything that the command started, and removes its temporary
//! folder, as soon as the command ends or this program lets go of it, however that happens. The process **inside**
//! ([`inside`]) shuts itself in and starts the command:
//!
//! - namespaces: no process of others is seen, the file system cannot be changed but in the project and the temporary
//!   folder ([`mounts`]), shared memory is private, and the network is a loopback of its own;
//! - Landlock: no file is opened for writing elsewhere, and this program's secrets not for reading either ([`files`]);
//! - the privileges of the superuser are given up but for two ([`privileges`]);
//! - seccomp: Unix sockets and what opens other ways out are closed ([`system_calls`]).
//!
//! Landlock is always needed. What else a kernel has is found out once ([`features`]).
//! It does not keep a command from reading what the user may read, nor bound its memory and processor time.

mod channel;
mod closed;
mod features;
mod files;
mod guard;
mod helper;
mod inside;
mod mounts;
mod network;
mod order;
mod privileges;
mod processes;
mod repository;
mod supervise;
mod system_calls;

pub use features::{SandboxFeature, SandboxFeatures, sandbox_features};
pub use helper::{run_sandbox_helper, use_sandbox_helper};

pub(crate) use helper::{Running, Wanted, start};
pub(crate) use order::Ended;

#[cfg(test)]
mod tests;

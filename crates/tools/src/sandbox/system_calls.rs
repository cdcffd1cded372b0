//! The system calls that a command cannot make (seccomp): those that lead out of the sandbox regardless of file
//! permissions.

use std::collections::{BTreeMap, BTreeSet};

use libc::c_long;
use neuraxis_core::Access;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

use super::features::SandboxFeature;

/// Calls that fail as not permitted.
const REFUSED: &[c_long] = &[
    // Other file systems, and ways around the paths that Landlock and the mounts control.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    // Namespaces in which a command would regain privileges.
    libc::SYS_unshare,
    libc::SYS_setns,
    // Keys of the user's session, and the memory of other processes.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    // A large attack surface of the kernel that builds and tests do not need.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
];

/// Calls that are refused if shared memory is not private to the command.
const SHARED_MEMORY: &[c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
];

/// Calls that are reported as missing, so that programs fall back to an older call: the filter cannot see what these
/// ask for.
const MISSING: &[c_long] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// The bit that marks calls of the x32 interface. Some of them also have a number of their own.
#[cfg(target_arch = "x86_64")]
const X32_BIT: c_long = 0x4000_0000;
#[cfg(target_arch = "x86_64")]
const X32_ONLY: &[(c_long, c_long)] = &[
    (libc::SYS_ioctl, 514),
    (libc::SYS_kexec_load, 528),
    (libc::SYS_process_vm_readv, 539),
    (libc::SYS_process_vm_writev, 540),
];

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Blocks the system calls for this process and everything it starts.
pub(super) fn close(
    features: &BTreeSet<SandboxFeature>,
    access: &BTreeSet<Access>,
) -> Result<(), seccompiler::Error> {
    let mut refused: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    if !features.contains(&SandboxFeature::SharedMemory) {
        refused.extend(SHARED_MEMORY.iter().map(|call| (*call, Vec::new())));
    }
    let has_internet =
        access.contains(&Access::Network) || features.contains(&SandboxFeature::Network);
    let families: &[i32] = if has_internet {
        &[libc::AF_NETLINK, libc::AF_INET, libc::AF_INET6]
    } else {
        &[libc::AF_NETLINK]
    };
    refused.insert(libc::SYS_socket, sockets_but(families)?);
    refused.insert(libc::SYS_socketpair, pairs()?);
    refused.insert(libc::SYS_clone, new_namespaces()?);
    refused.insert(libc::SYS_ioctl, typing()?);
    let missing = MISSING.iter().map(|call| (*call, Vec::new())).collect();
    for (rules, errno) in [(missing, libc::ENOSYS), (refused, libc::EPERM)] {
        apply_filter(&program(rules, errno)?)?;
    }
    Ok(())
}

fn program(rules: Rules, errno: i32) -> Result<BpfProgram, BackendError> {
    let answer = SeccompAction::Errno(errno.unsigned_abs());
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(with_x32(rules), SeccompAction::Allow, answer, arch)?.try_into()
}

#[cfg(target_arch = "x86_64")]
fn with_x32(rules: Rules) -> Rules {
    let mut all = rules.clone();
    for (call, conditions) in rules {
        let special = X32_ONLY.iter().find(|(usual, _)| *usual == call);
        let other = special.map(|(_, other)| (other | X32_BIT, conditions.clone()));
        all.extend(other);
        all.insert(call | X32_BIT, conditions);
    }
    all
}

#[cfg(not(target_arch = "x86_64"))]
fn with_x32(rules: Rules) -> Rules {
    rules
}

/// Matches sockets of all families except these. The kernel reports on interfaces over netlink.
fn sockets_but(families: &[i32]) -> Result<Vec<SeccompRule>, BackendError> {
    let families = families.iter();
    let others = families.map(|family| argument(0, SeccompCmpOp::Ne, *family));
    Ok(vec![SeccompRule::new(others.collect::<Result<_, _>>()?)?])
}

/// Matches socket pairs that are not Unix sockets, or that could send to sockets other than their counterpart.
fn pairs() -> Result<Vec<SeccompRule>, BackendError> {
    const KIND: u64 = 0xf;
    let of_kind = |kind| argument(1, SeccompCmpOp::MaskedEq(KIND), kind);
    Ok(vec![
        SeccompRule::new(vec![argument(0, SeccompCmpOp::Ne, libc::AF_UNIX)?])?,
        SeccompRule::new(vec![of_kind(libc::SOCK_DGRAM)?])?,
        SeccompRule::new(vec![of_kind(libc::SOCK_RAW)?])?,
    ])
}

fn new_namespaces() -> Result<Vec<SeccompRule>, BackendError> {
    let flags = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
    ];
    let rules = flags.into_iter().map(|flag| {
        let mask = u64::from(flag.unsigned_abs());
        SeccompRule::new(vec![argument(0, SeccompCmpOp::MaskedEq(mask), flag)?])
    });
    rules.collect()
}

/// Matches requests that type into a terminal.
fn typing() -> Result<Vec<SeccompRule>, BackendError> {
    const TIOCLINUX: i32 = 0x541c;
    const TIOCSTI: i32 = 0x5412;
    let rules = [TIOCSTI, TIOCLINUX]
        .into_iter()
        .map(|request| SeccompRule::new(vec![argument(1, SeccompCmpOp::Eq, request)?]));
    rules.collect()
}

fn argument(index: u8, compare: SeccompCmpOp, with: i32) -> Result<SeccompCondition, BackendError> {
    let value = u64::from(with.unsigned_abs());
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, compare, value)
}

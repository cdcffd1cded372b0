//! Brings up the loopback of a network namespace.

use std::io;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, socket};

const NEW_LINK: u16 = 16;
const REQUEST_WITH_ANSWER: u16 = 1 | 4;
const ERROR: u16 = 2;
/// The loopback is the first interface of every namespace.
const LOOPBACK: i32 = 1;
const UP: u32 = 1;
const MESSAGE_BYTES: u32 = 32;

/// Brings up the loopback interface.
pub(super) fn bring_up_loopback() -> io::Result<()> {
    // Without a protocol name, this is the routing protocol, which manages interfaces.
    let socket = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    let mut message = Vec::new();
    // The header: length, type, flags, sequence number, sender.
    message.extend(MESSAGE_BYTES.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_WITH_ANSWER.to_ne_bytes());
    message.extend([0; 8]);
    // The interface: family, type, index, flags, and the flags to change.
    message.extend([0; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    send(&socket, &message, SendFlags::empty())?;
    let mut answer = [0_u8; 512];
    let (length, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    let answer = answer.get(..length).unwrap_or_default();
    match (answer.get(4..6), answer.get(16..20)) {
        (Some(kind), Some(code)) if kind == ERROR.to_ne_bytes() => {
            let code = i32::from_ne_bytes(code.try_into().unwrap_or_default());
            if code == 0 {
                Ok(())
            } else {
                Err(io::Error::from_raw_os_error(code.saturating_neg()))
            }
        }
        _ => Err(io::Error::other("the kernel gave an unexpected answer")),
    }
}

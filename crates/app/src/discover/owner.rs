//! The owner of a port of this machine, as far as the system reports it: any user may use a free port.

/// The lowest id of an ordinary user. Lower ids belong to system services.
#[cfg(target_os = "linux")]
const FIRST_USER_ID: u32 = 1_000;

/// Returns whether another ordinary user of this machine listens on a port of the loopback address. Returns `false` if
/// unknown.
#[cfg(target_os = "linux")]
pub(super) fn belongs_to_other_user(port: u16) -> bool {
    let own = rustix::process::geteuid().as_raw();
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter();
    let tables = tables.filter_map(|table| std::fs::read_to_string(table).ok());
    tables
        .into_iter()
        .flat_map(|table| listeners(&table, port))
        .any(|owner| owner != own && owner >= FIRST_USER_ID)
}

/// Other systems do not report it.
#[cfg(not(target_os = "linux"))]
pub(super) fn belongs_to_other_user(_port: u16) -> bool {
    false
}

/// Returns the users who listen on a port at an address that accepts connections to 127.0.0.1.
#[cfg(target_os = "linux")]
fn listeners(table: &str, port: u16) -> Vec<u32> {
    const LISTENING: &str = "0A";
    const TAKES_LOOPBACK: [&str; 4] = [
        "0100007F",
        "00000000",
        "00000000000000000000000000000000",
        "0000000000000000FFFF00000100007F",
    ];
    let listener = |line: &str| {
        let mut fields = line.split_whitespace();
        let (address, at) = fields.nth(1)?.split_once(':')?;
        let state = fields.nth(1)?;
        let accepts_loopback = TAKES_LOOPBACK.contains(&address)
            && u16::from_str_radix(at, 16) == Ok(port)
            && state == LISTENING;
        // Queues, timer and retransmissions precede it.
        let owner = fields.nth(3)?;
        accepts_loopback.then(|| owner.parse().ok())?
    };
    table.lines().filter_map(listener).collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn listeners_are_found_by_port_and_address() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            \x20  0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 1 1 0 100 0 0 10 0\n\
            \x20  1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1002        0 2 1 0 100 0 0 10 0\n\
            \x20  2: 0A00000A:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1003        0 3 1 0 100 0 0 10 0\n\
            \x20  3: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1004 0 4\n\
            \x20  4: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1005        0 5 1 0 100 0 0 10 0\n";
        assert_eq!(listeners(table, 8080), [1001, 1004]);
        assert_eq!(listeners(table, 8081), [1005]);
        assert!(listeners("nonsense\n: : :", 8080).is_empty());
    }

    #[test]
    fn a_listener_of_this_user_does_not_belong_to_another_user() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        assert_eq!(
            listeners(&table, port),
            [rustix::process::geteuid().as_raw()]
        );
        assert!(!belongs_to_other_user(port));
    }
}

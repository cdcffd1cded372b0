//! Which IP addresses are public: those that IANA's registries of special-purpose addresses do not reserve.
//!
//! Of IPv6, only global unicast addresses are accepted, so a range that is newly defined stays refused until it has
//! been reviewed. Forms that embed an IPv4 address (mapped, compatible, translated, tunneled) are refused whatever they
//! embed: routers decide where they lead.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range of IPv4 addresses: its first address, its prefix length in bits, and its purpose.
type Range4 = (Ipv4Addr, u32, &'static str);

/// A range of IPv6 addresses.
type Range6 = (Ipv6Addr, u32, &'static str);

const fn v4(a: u8, b: u8, c: u8, d: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

const fn v6(a: u16, b: u16, c: u16) -> Ipv6Addr {
    Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0)
}

/// Kinds of addresses that occur in several ranges.
const METADATA: &str = "an address of a cloud's metadata service";
const DOCUMENTATION: &str = "an address for documentation";

/// Reserved IPv4 ranges. The first that contains an address names its kind.
const SPECIAL_V4: [Range4; 19] = [
    (v4(169, 254, 169, 254), 32, METADATA),
    (v4(169, 254, 170, 2), 32, METADATA),
    (v4(100, 100, 100, 200), 32, METADATA),
    (v4(168, 63, 129, 16), 32, METADATA),
    (v4(0, 0, 0, 0), 8, "an unspecified address"),
    (v4(10, 0, 0, 0), 8, "a private address"),
    (v4(100, 64, 0, 0), 10, "an address of a carrier's network"),
    (v4(127, 0, 0, 0), 8, "a loopback address"),
    (v4(169, 254, 0, 0), 16, "a link-local address"),
    (v4(172, 16, 0, 0), 12, "a private address"),
    (v4(192, 0, 0, 0), 24, "an address for protocols"),
    (v4(192, 0, 2, 0), 24, DOCUMENTATION),
    (v4(192, 88, 99, 0), 24, "an address of 6to4 relays"),
    (v4(192, 168, 0, 0), 16, "a private address"),
    (v4(198, 18, 0, 0), 15, "an address for benchmarks"),
    (v4(198, 51, 100, 0), 24, DOCUMENTATION),
    (v4(203, 0, 113, 0), 24, DOCUMENTATION),
    (v4(224, 0, 0, 0), 4, "a multicast address"),
    (v4(240, 0, 0, 0), 4, "a reserved or broadcast address"),
];

/// Reserved IPv6 ranges, and those that are not global unicast.
const SPECIAL_V6: [Range6; 17] = [
    (Ipv6Addr::UNSPECIFIED, 128, "an unspecified address"),
    (Ipv6Addr::LOCALHOST, 128, "a loopback address"),
    (
        Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0),
        96,
        "an IPv4 address in IPv6 form",
    ),
    (Ipv6Addr::UNSPECIFIED, 96, "an IPv4 address in IPv6 form"),
    (
        v6(0x64, 0xff9b, 0),
        96,
        "an IPv4 address that NAT64 translates",
    ),
    (
        v6(0x64, 0xff9b, 1),
        48,
        "an IPv4 address that NAT64 translates",
    ),
    (v6(0x100, 0, 0), 64, "a discard address"),
    (v6(0x2001, 0, 0), 32, "an address of a Teredo tunnel"),
    (v6(0x2001, 2, 0), 48, "an address for benchmarks"),
    (v6(0x2001, 0, 0), 23, "an address for protocols"),
    (v6(0x2001, 0xdb8, 0), 32, DOCUMENTATION),
    (v6(0x2002, 0, 0), 16, "an address of a 6to4 tunnel"),
    (v6(0x3fff, 0, 0), 20, DOCUMENTATION),
    (
        Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254),
        128,
        METADATA,
    ),
    (v6(0xfc00, 0, 0), 7, "a private address"),
    (v6(0xfe80, 0, 0), 9, "a link-local or site-local address"),
    (v6(0xff00, 0, 0), 8, "a multicast address"),
];

/// The range of all public IPv6 addresses.
const GLOBAL_UNICAST: (Ipv6Addr, u32) = (v6(0x2000, 0, 0), 3);

/// Returns the kind of an address that is not public, with its article; `None` for a public one.
pub(super) fn not_public(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => {
            let mut ranges = SPECIAL_V4.into_iter();
            let held = ranges.find(|(first, bits, _)| {
                let mask = u32::MAX << (u32::BITS - bits);
                address.to_bits() & mask == first.to_bits()
            });
            held.map(|(_, _, kind)| kind)
        }
        IpAddr::V6(address) => {
            let mut ranges = SPECIAL_V6.into_iter();
            let held = ranges.find(|(first, bits, _)| begins(address, *first, *bits));
            let (first, bits) = GLOBAL_UNICAST;
            let elsewhere = !begins(address, first, bits);
            let kind = held.map(|(_, _, kind)| kind);
            kind.or(elsewhere.then_some("an address that is not public"))
        }
    }
}

fn begins(address: Ipv6Addr, first: Ipv6Addr, bits: u32) -> bool {
    let mask = u128::MAX << (u128::BITS - bits);
    address.to_bits() & mask == first.to_bits()
}

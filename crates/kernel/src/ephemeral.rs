//! The ports that this network namespace has for connections (ip(7): `ip_local_port_range` and
//! `ip_local_reserved_ports`).

use std::fs;
use std::ops::RangeInclusive;

/// The kernel's range if it cannot be read.
const USUAL: RangeInclusive<u16> = 32_768..=60_999;

/// The ports, in order, without those that are reserved for programs that name them.
pub fn ports() -> Vec<u16> {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
    unreserved(&read("ip_local_port_range"), &read("ip_local_reserved_ports"))
}

fn unreserved(range: &str, reserved: &str) -> Vec<u16> {
    let mut ends = range.split_whitespace().map_while(|port| port.parse().ok());
    let range = ends.next().zip(ends.next()).map_or(USUAL, |(first, last)| first..=last);
    let reserved: Vec<RangeInclusive<u16>> = reserved.trim().split(',').filter_map(ports_of).collect();
    range.filter(|port| !reserved.iter().any(|ports| ports.contains(port))).collect()
}

/// The ports of `8080` or `9148-9150`.
fn ports_of(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_ports_are_left_out() {
        assert_eq!(unreserved("100\t105\n", "\n"), [100, 101, 102, 103, 104, 105]);
        assert_eq!(unreserved("100\t105\n", "101,103-104,9000\n"), [100, 102, 105]);
        assert_eq!(unreserved("", ""), USUAL.collect::<Vec<u16>>());
        assert_eq!(unreserved("100", ""), USUAL.collect::<Vec<u16>>(), "half of a range is none");
        assert!(unreserved("100 100", "100").is_empty());
    }

    #[test]
    fn this_host_has_some() {
        assert!(!ports().is_empty());
    }
}

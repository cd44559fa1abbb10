//! The devices to which default routes lead: without them this host cannot be reached from other networks.

use std::collections::BTreeSet;

use crate::files::Root;

/// The flag of a route that refuses packets, in `/proc/net/ipv6_route` (`RTF_REJECT`).
const REJECTS: u32 = 0x200;

/// The names of the devices.
pub(super) fn default_devices(root: &Root) -> BTreeSet<String> {
    let text = |name: &str| root.text(&format!("proc/net/{name}")).unwrap_or_default();
    let (ipv4, ipv6) = (text("route"), text("ipv6_route"));
    let devices = ipv4.lines().filter_map(of_ipv4).chain(ipv6.lines().filter_map(of_ipv6));
    devices.map(str::to_owned).collect()
}

/// `eth0 00000000 010200C0 0003 0 0 0 00000000 …`: device, destination, gateway, flags, two counts, metric, mask.
fn of_ipv4(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_default = *words.get(1)? == "00000000" && *words.get(7)? == "00000000";
    is_default.then(|| words[0])
}

/// Destination, its length, source, its length, gateway, metric, two counts, flags, device.
fn of_ipv6(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (flags, device) = (u32::from_str_radix(words.get(8)?, 16).ok()?, *words.get(9)?);
    (words[1] == "00" && flags & REJECTS == 0 && device != "lo").then_some(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_route_has_no_destination() {
        assert_eq!(of_ipv4("Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask"), None);
        assert_eq!(of_ipv4("eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0"), Some("eth0"));
        assert_eq!(of_ipv4("eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0"), None);
        let zeros = "00000000000000000000000000000000";
        let line = |length: &str, flags: &str, device: &str| {
            format!("{zeros} {length} {zeros} 00 {zeros} 00000400 00000003 00000000 {flags} {device}")
        };
        assert_eq!(of_ipv6(&line("00", "00000003", "eth1")), Some("eth1"));
        assert_eq!(of_ipv6(&line("40", "00000001", "eth1")), None);
        assert_eq!(of_ipv6(&line("00", "00200200", "lo")), None);
    }
}

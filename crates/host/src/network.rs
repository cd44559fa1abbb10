//! The kernel's counters of UDP: by network namespace, of its backlog, and of single sockets.

use std::collections::{BTreeMap, BTreeSet};

use kqps_observation::host::UdpFacts;

/// The counters of `/proc/net/snmp` (a line of names, then one of values) for UDP over IPv4.
pub(crate) fn parse_snmp(text: &str) -> Option<UdpFacts> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let values = values.split_whitespace().map(|value| value.parse().unwrap_or(0));
    let counters: BTreeMap<&str, u64> = names.split_whitespace().zip(values).collect();
    Some(udp_facts(&counters))
}

/// The counters of `/proc/net/snmp6` (`Udp6InDatagrams 17`) for UDP over IPv6.
pub(crate) fn parse_snmp6(text: &str) -> UdpFacts {
    let counters = text.lines().filter_map(|line| {
        let (name, value) = line.strip_prefix("Udp6")?.split_once(char::is_whitespace)?;
        Some((name, value.trim().parse().ok()?))
    });
    udp_facts(&counters.collect())
}

/// Names as in RFC 4113 and the kernel's additions; one that this kernel does not have counts as 0.
fn udp_facts(counters: &BTreeMap<&str, u64>) -> UdpFacts {
    let counter = |name: &str| counters.get(name).copied().unwrap_or(0);
    UdpFacts {
        in_datagrams: counter("InDatagrams"),
        out_datagrams: counter("OutDatagrams"),
        no_ports: counter("NoPorts"),
        in_errors: counter("InErrors"),
        rcvbuf_errors: counter("RcvbufErrors"),
        sndbuf_errors: counter("SndbufErrors"),
        in_csum_errors: counter("InCsumErrors"),
        mem_errors: counter("MemErrors"),
    }
}

/// The sum over both address families, after less before.
pub(crate) fn udp_since(before: [UdpFacts; 2], after: [UdpFacts; 2]) -> UdpFacts {
    let grown = |counter: fn(&UdpFacts) -> u64| {
        let sum = |families: &[UdpFacts; 2]| families.iter().map(counter).sum::<u64>();
        sum(&after).saturating_sub(sum(&before))
    };
    UdpFacts {
        in_datagrams: grown(|udp| udp.in_datagrams),
        out_datagrams: grown(|udp| udp.out_datagrams),
        no_ports: grown(|udp| udp.no_ports),
        in_errors: grown(|udp| udp.in_errors),
        rcvbuf_errors: grown(|udp| udp.rcvbuf_errors),
        sndbuf_errors: grown(|udp| udp.sndbuf_errors),
        in_csum_errors: grown(|udp| udp.in_csum_errors),
        mem_errors: grown(|udp| udp.mem_errors),
    }
}

/// The backlog's counters over all cores since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Softnet {
    pub(crate) dropped: u64,
    pub(crate) squeezed: u64,
}

/// `/proc/net/softnet_stat`: a line per core, columns in hexadecimal, of which the second and third are meant.
/// They are 32 bits wide and may wrap; see [`Softnet::since`].
pub(crate) fn parse_softnet(text: &str) -> Vec<Softnet> {
    let line = |line: &str| {
        let mut columns = line.split_whitespace().map(|column| u64::from_str_radix(column, 16).unwrap_or(0));
        Softnet { dropped: columns.nth(1).unwrap_or(0), squeezed: columns.next().unwrap_or(0) }
    };
    text.lines().map(line).collect()
}

impl Softnet {
    /// What was counted between two readings of all cores.
    pub(crate) fn since(before: &[Self], after: &[Self]) -> Self {
        let grown = |before: u64, after: u64| u64::from((after as u32).wrapping_sub(before as u32));
        before.iter().zip(after).fold(Self::default(), |sum, (before, after)| Self {
            dropped: sum.dropped + grown(before.dropped, after.dropped),
            squeezed: sum.squeezed + grown(before.squeezed, after.squeezed),
        })
    }
}

/// `/proc/net/udp` and `udp6`: inode → drops, for the sockets in `inodes`.
pub(crate) fn parse_sockets(text: &str, inodes: &BTreeSet<u64>) -> BTreeMap<u64, u64> {
    let socket = |line: &str| {
        let mut columns = line.split_whitespace();
        let inode = columns.nth(9)?.parse().ok()?;
        let drops = columns.nth(2)?.parse().ok()?;
        inodes.contains(&inode).then_some((inode, drops))
    };
    text.lines().skip(1).filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "Ip: Forwarding DefaultTTL
Ip: 2 64
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
Udp: 211 3 12 212 9 1 2 0 4
UdpLite: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
UdpLite: 9 9 9 9 9 9 9 9 9
";

    #[test]
    fn counters_are_found_by_name() {
        let udp = parse_snmp(SNMP).unwrap();
        let wanted = UdpFacts {
            in_datagrams: 211,
            out_datagrams: 212,
            no_ports: 3,
            in_errors: 12,
            rcvbuf_errors: 9,
            sndbuf_errors: 1,
            in_csum_errors: 2,
            mem_errors: 4,
        };
        assert_eq!(udp, wanted);
        assert_eq!(parse_snmp("Tcp: a\nTcp: 1\n"), None);
        let six =
            parse_snmp6("Ip6InReceives  \t5\nUdp6InDatagrams \t7\nUdp6RcvbufErrors\t2\nUdpLite6InErrors 3\n");
        assert_eq!(six, UdpFacts { in_datagrams: 7, rcvbuf_errors: 2, ..UdpFacts::default() });
    }

    #[test]
    fn both_families_are_added() {
        let four = UdpFacts { rcvbuf_errors: 5, ..UdpFacts::default() };
        let six = UdpFacts { rcvbuf_errors: 7, no_ports: 1, ..UdpFacts::default() };
        let since = udp_since([UdpFacts { rcvbuf_errors: 2, ..four }, UdpFacts::default()], [four, six]);
        assert_eq!(since, UdpFacts { rcvbuf_errors: 10, no_ports: 1, ..UdpFacts::default() });
    }

    #[test]
    fn the_backlog_counts_in_hexadecimal_and_wraps() {
        let before =
            parse_softnet("0000000d 0000000a 00000001 00000000\n00001087 fffffffe 00000000 00000000\n");
        let after =
            parse_softnet("0000000d 00000010 00000003 00000000\n00001087 00000001 00000000 00000000\n");
        assert_eq!(Softnet::since(&before, &after), Softnet { dropped: 6 + 3, squeezed: 2 });
    }

    #[test]
    fn a_sockets_drops_are_found_by_its_inode() {
        let text = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
 1234: 0100007F:14B4 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 9001 2 0000000000000000 812
 1235: 0100007F:14B5 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 9002 2 0000000000000000 7
";
        assert_eq!(parse_sockets(text, &BTreeSet::from([9001, 5])), BTreeMap::from([(9001, 812)]));
    }
}

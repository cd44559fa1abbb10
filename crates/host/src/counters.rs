//! The counters of one network namespace, under the kernel's names. They are read before and after a trial, and
//! subtracted.
//!
//! Most come from `/proc/PID/net`, which shows the namespace of that process without entering it and without any
//! privilege. The counters of queueing disciplines and drivers must be read from inside the namespace. To enter
//! another namespace than its own, a process needs the right to do so.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use kqps_kernel::namespace::{NetNs, drops};
use kqps_observation::NetworkFacts;
use kqps_observation::network::{DeviceFacts, IpFacts, TcpFacts, UdpFacts};

use crate::unreadable::noted;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    /// `Udp.InDatagrams` and the like for IPv4, `Udp6InDatagrams` and the like for IPv6.
    protocols: BTreeMap<String, u64>,
    /// Sockets in `TIME_WAIT`; `None` if the kernel did not return the number.
    time_wait: Option<u64>,
    /// Interface → its counts, in the order of [`COLUMNS`].
    devices: BTreeMap<String, [u64; COLUMNS.len()]>,
    /// Interface → packets that its queueing discipline dropped; `None` if the kernel did not return them.
    queues: Option<BTreeMap<String, u64>>,
    /// Interface and counter → the driver's counts of drops and errors.
    drivers: BTreeMap<(String, String), u64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Whose {
    Own,
    Of(u32),
}

impl Whose {
    /// The folder of the process in `/proc`.
    pub(crate) fn folder(self) -> String {
        match self {
            Self::Own => "/proc/thread-self".into(),
            Self::Of(pid) => format!("/proc/{pid}"),
        }
    }

    fn within<T: Send>(self, act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        match self {
            Self::Own => act(),
            Self::Of(pid) => NetNs::of_process(pid)?.within(act),
        }
    }
}

/// The columns of `/proc/net/dev` to read, counted after the interface's name: packets, errors and drops,
/// received and sent. A packet that the card missed is among the drops.
const COLUMNS: [usize; 6] = [1, 2, 3, 9, 10, 11];

impl Reading {
    /// Reads a namespace. Adds what could not be read to `unreadable`, with the reason.
    pub(crate) fn take(whose: Whose, unreadable: &mut BTreeMap<String, String>) -> Self {
        let folder = whose.folder();
        let mut read = |name: &str| {
            let path = format!("{folder}/net/{name}");
            let text = fs::read_to_string(&path);
            noted(path, text, unreadable)
        };
        let mut protocols = parse_pairs(&read("snmp"));
        protocols.extend(parse_pairs(&read("netstat")));
        protocols.extend(parse_lines(&read("snmp6")));
        let time_wait = parse_time_wait(&read("sockstat"));
        let devices = parse_devices(&read("dev"));
        let asked = whose.within(|| Ok((Some(drops::of_queues()?), drivers(devices.keys()))));
        let (queues, drivers) = noted(format!("queues of {folder}"), asked, unreadable);
        Self { protocols, time_wait, devices, queues, drivers }
    }

    /// Whether anything could be read. Nothing can be read of a process that has ended.
    pub(crate) fn has_counts(&self) -> bool {
        !self.protocols.is_empty()
    }

    /// The counts since an earlier reading.
    pub(crate) fn since(&self, before: &Self) -> NetworkFacts {
        let counted = |name: &str| -> Option<u64> {
            let now = self.protocols.get(name)?;
            Some(now.saturating_sub(before.protocols.get(name).copied().unwrap_or(0)))
        };
        let devices = self.devices.iter().filter_map(|(name, now)| {
            let then = before.devices.get(name).copied().unwrap_or_default();
            let queues = self.queues.as_ref().zip(before.queues.as_ref());
            let of = |queues: &BTreeMap<String, u64>| queues.get(name).copied().unwrap_or(0);
            // These counters have 32 bits and may wrap.
            let grown = |now: u64, then: u64| now.wrapping_sub(then) & u64::from(u32::MAX);
            let qdisc_dropped = queues.map(|(now, then)| grown(of(now), of(then)));
            let driver = self.driver_since(before, name);
            let facts = device_since(name, then, *now);
            let moved = facts.rx_packets + facts.tx_packets + trouble(&facts) > 0;
            (moved || qdisc_dropped.is_some_and(|drops| drops > 0) || !driver.is_empty())
                .then_some(DeviceFacts { qdisc_dropped, driver, ..facts })
        });
        NetworkFacts {
            shared: true,
            ip4: ip_facts(&counted, ["Ip.", "IpExt.", "Icmp."]),
            ip6: ip_facts(&counted, ["Ip6", "Ip6", "Icmp6"]),
            udp4: udp_facts(&counted, "Udp."),
            udp6: udp_facts(&counted, "Udp6"),
            tcp: Some(TcpFacts {
                time_wait_before: before.time_wait,
                time_wait_after: self.time_wait,
                ..tcp_facts(&counted)
            }),
            devices: devices.collect(),
        }
    }

    fn driver_since(&self, before: &Self, device: &str) -> BTreeMap<String, u64> {
        let of_device = self.drivers.iter().filter(|((of, _), _)| of == device);
        let grown = of_device.map(|(key, now)| {
            (key.1.clone(), now.saturating_sub(before.drivers.get(key).copied().unwrap_or(0)))
        });
        grown.filter(|(_, count)| *count > 0).collect()
    }
}

/// The drivers' counters of drops and errors. Most of their other counters are packets and bytes.
fn drivers<'a>(devices: impl Iterator<Item = &'a String>) -> BTreeMap<(String, String), u64> {
    const WORDS: [&str; 7] = ["drop", "err", "miss", "discard", "fifo", "no_buf", "nobuf"];
    let of_device = |device: &'a String| {
        // A driver without counters of its own returns an error.
        let counters = drops::of_driver(device).unwrap_or_default();
        counters.into_iter().map(|(counter, count)| ((device.clone(), counter), count))
    };
    let is_drop = |counter: &str| WORDS.iter().any(|word| counter.contains(word));
    devices.flat_map(of_device).filter(|((_, counter), _)| is_drop(counter)).collect()
}

/// Names as in RFC 4293, and the kernel's additions. A counter that this kernel lacks counts as 0.
fn ip_facts(counted: &impl Fn(&str) -> Option<u64>, [ip, marks, icmp]: [&str; 3]) -> IpFacts {
    let of = |prefix: &str, name: &str| counted(&format!("{prefix}{name}"));
    let sum = |prefix: &str, names: &[&str]| names.iter().filter_map(|name| of(prefix, name)).sum::<u64>();
    let count = |name: &str| sum(ip, &[name]);
    let fragments_in = count("ReasmReqds").saturating_sub(count("ReasmOKs"));
    let fragments_out = count("FragCreates").saturating_sub(count("FragOKs"));
    let in_segments = sum(marks, &["InNoECTPkts", "InECT1Pkts", "InECT0Pkts", "InCEPkts"]);
    IpFacts {
        in_receives: count("InReceives").saturating_sub(fragments_in),
        in_segments: in_segments.saturating_sub(fragments_in),
        in_delivers: count("InDelivers"),
        in_discards: sum(ip, &["InDiscards", "InHdrErrors", "InAddrErrors", "InTruncatedPkts", "InNoRoutes"]),
        icmp_in: sum(icmp, &["InMsgs"]),
        icmp_out: sum(icmp, &["OutMsgs"]),
        out_requests: count("OutRequests"),
        out_transmits: of(ip, "OutTransmits").map(|packets| packets.saturating_sub(fragments_out)),
        out_discards: sum(ip, &["OutDiscards", "OutNoRoutes"]),
    }
}

/// Names as in RFC 4113, and the kernel's additions.
fn udp_facts(counted: &impl Fn(&str) -> Option<u64>, prefix: &str) -> UdpFacts {
    let count = |name: &str| counted(&format!("{prefix}{name}")).unwrap_or(0);
    UdpFacts {
        in_datagrams: count("InDatagrams"),
        out_datagrams: count("OutDatagrams"),
        no_ports: count("NoPorts"),
        in_errors: count("InErrors"),
        rcvbuf_errors: count("RcvbufErrors"),
        sndbuf_errors: count("SndbufErrors"),
        in_csum_errors: count("InCsumErrors"),
        mem_errors: count("MemErrors"),
    }
}

/// Names as in RFC 4022, and the kernel's additions.
fn tcp_facts(counted: &impl Fn(&str) -> Option<u64>) -> TcpFacts {
    let count = |name: &str| counted(name).unwrap_or(0);
    TcpFacts {
        active_opens: count("Tcp.ActiveOpens"),
        passive_opens: count("Tcp.PassiveOpens"),
        listen_overflows: count("TcpExt.ListenOverflows"),
        listen_drops: count("TcpExt.ListenDrops"),
        request_drops: count("TcpExt.TCPReqQFullDrop"),
        syn_cookies_sent: count("TcpExt.SyncookiesSent"),
        resets_sent: count("Tcp.OutRsts"),
        retransmitted: count("Tcp.RetransSegs"),
        syn_retransmitted: count("TcpExt.TCPSynRetrans"),
        segments_received: count("Tcp.InSegs"),
        segments_sent: count("Tcp.OutSegs"),
        delayed_acks: count("TcpExt.DelayedACKs"),
        ..TcpFacts::default()
    }
}

/// The packets that an interface could not receive or send.
fn trouble(device: &DeviceFacts) -> u64 {
    device.rx_errors + device.rx_dropped + device.tx_errors + device.tx_dropped
}

fn device_since(name: &str, before: [u64; 6], after: [u64; 6]) -> DeviceFacts {
    let grown = std::array::from_fn(|index| after[index].saturating_sub(before[index]));
    let [rx_packets, rx_errors, rx_dropped, tx_packets, tx_errors, tx_dropped] = grown;
    DeviceFacts {
        name: name.to_owned(),
        rx_packets,
        rx_errors,
        rx_dropped,
        tx_packets,
        tx_errors,
        tx_dropped,
        ..DeviceFacts::default()
    }
}

/// Parses `snmp` and `netstat`: for each protocol a line of names, then a line of values.
fn parse_pairs(text: &str) -> BTreeMap<String, u64> {
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.chunks_exact(2).filter_map(|pair| {
        let (protocol, names) = pair[0].split_once(": ")?;
        let values = pair[1].strip_prefix(protocol)?.strip_prefix(": ")?;
        let named =
            move |(name, value): (&str, &str)| Some((format!("{protocol}.{name}"), value.parse().ok()?));
        Some(names.split_whitespace().zip(values.split_whitespace()).filter_map(named))
    });
    pairs.flatten().collect()
}

/// The sockets in `TIME_WAIT` of `sockstat`, which has a line of names with values for each protocol. The line of TCP
/// counts those of both address families.
fn parse_time_wait(text: &str) -> Option<u64> {
    let tcp = text.lines().find_map(|line| line.strip_prefix("TCP: "))?;
    tcp.split_whitespace().skip_while(|word| *word != "tw").nth(1)?.parse().ok()
}

/// Parses `snmp6`: a line for each counter.
fn parse_lines(text: &str) -> BTreeMap<String, u64> {
    let counter = |line: &str| {
        let (name, value) = line.split_once(char::is_whitespace)?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(counter).collect()
}

/// Parses `dev`: two lines of headings, then a line for each interface.
fn parse_devices(text: &str) -> BTreeMap<String, [u64; COLUMNS.len()]> {
    let device = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        let counts: Vec<u64> = counts.split_whitespace().map_while(|count| count.parse().ok()).collect();
        let wanted = COLUMNS.map(|column| counts.get(column).copied().unwrap_or(0));
        Some((name.trim().to_owned(), wanted))
    };
    text.lines().skip(2).filter_map(device).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "Ip: Forwarding InReceives InDelivers ReasmReqds ReasmOKs OutRequests OutTransmits
Ip: 2 100 90 6 2 50 40
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
Udp: 211 3 12 212 9 1 2 0 4
UdpLite: InDatagrams NoPorts
UdpLite: 9 9
";

    fn reading(snmp: &str) -> Reading {
        Reading { protocols: parse_pairs(snmp), ..Reading::default() }
    }

    #[test]
    fn counters_are_found_by_name_and_differenced() {
        let facts = reading(SNMP).since(&reading("Udp: RcvbufErrors NoPorts\nUdp: 2 3\n"));
        let wanted = UdpFacts {
            in_datagrams: 211,
            out_datagrams: 212,
            no_ports: 0,
            in_errors: 12,
            rcvbuf_errors: 7,
            sndbuf_errors: 1,
            in_csum_errors: 2,
            mem_errors: 4,
        };
        assert_eq!(facts.udp4, wanted);
        assert_eq!(facts.udp6, UdpFacts::default());
        assert_eq!(facts.udp(|udp| udp.in_datagrams), 211);
    }

    #[test]
    fn what_tcp_did_is_differenced_and_its_waiting_sockets_are_not() {
        let snmp = "Tcp: RtoMin MaxConn ActiveOpens PassiveOpens RetransSegs OutRsts InSegs OutSegs\n\
                    Tcp: 200 -1 7 6 5 4 40 30\n\
                    TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPReqQFullDrop TCPSynRetrans DelayedACKs\n\
                    TcpExt: 1 8 9 2 3 20\n";
        let of = |snmp: &str, time_wait| Reading { time_wait, ..reading(snmp) };
        let before = of("TcpExt: ListenOverflows ListenDrops\nTcpExt: 5 5\n", Some(30));
        let wanted = TcpFacts {
            active_opens: 7,
            passive_opens: 6,
            listen_overflows: 3,
            listen_drops: 4,
            request_drops: 2,
            syn_cookies_sent: 1,
            resets_sent: 4,
            retransmitted: 5,
            syn_retransmitted: 3,
            segments_received: 40,
            segments_sent: 30,
            delayed_acks: 20,
            time_wait_before: Some(30),
            time_wait_after: Some(12),
        };
        assert_eq!(of(snmp, Some(12)).since(&before).tcp, Some(wanted));
        let sockstat = "sockets: used 81\nTCP: inuse 1 orphan 0 tw 42 alloc 1 mem 180\nUDP: inuse 66 mem 0\n";
        assert_eq!(parse_time_wait(sockstat), Some(42));
        assert_eq!(parse_time_wait("UDP: inuse 66 mem 0\n"), None);
    }

    #[test]
    fn fragments_of_a_packet_count_once() {
        let ip = reading(SNMP).since(&Reading::default()).ip4;
        assert_eq!((ip.in_receives, ip.in_delivers), (96, 90));
        assert_eq!((ip.out_requests, ip.out_transmits), (50, Some(40)));
        let old = reading("Ip: OutRequests\nIp: 5\n").since(&Reading::default()).ip4;
        assert_eq!((old.out_requests, old.out_transmits), (5, None));
    }

    #[test]
    fn ipv6_has_a_file_of_its_own() {
        let text = "Ip6InReceives  \t5\nIp6InNoECTPkts 7\nIp6InCEPkts 1\nUdp6InDatagrams \t7\nUdp6RcvbufErrors\t2\n\
                    Icmp6InMsgs 3\nUdpLite6InErrors 3\n";
        let facts = Reading { protocols: parse_lines(text), ..Reading::default() }.since(&Reading::default());
        assert_eq!((facts.ip6.in_receives, facts.ip6.in_segments, facts.ip6.icmp_in), (5, 8, 3));
        assert_eq!((facts.udp6.in_datagrams, facts.udp6.rcvbuf_errors, facts.udp6.in_errors), (7, 2, 0));
        assert_eq!(facts.family(true), (&facts.ip6, &facts.udp6));
    }

    #[test]
    fn an_interface_counts_both_ways() {
        let text = "Inter-|   Receive                      |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 9 5 0 0 0 0 0 0 9 5 0 0 0 0 0 0
  eth0:1 11 12 13 4 5 6 7 8 21 22 23 12 13 14 15
";
        let before =
            Reading { devices: BTreeMap::from([("lo".into(), [5, 0, 0, 5, 0, 0])]), ..Reading::default() };
        let drops = |count| BTreeMap::from([("eth0".to_owned(), count)]);
        let missed = |count| BTreeMap::from([(("eth0".to_owned(), "rx_missed".to_owned()), count)]);
        let before = Reading { queues: Some(drops((1 << 32) - 5)), drivers: missed(3), ..before };
        let after = Reading {
            devices: parse_devices(text),
            queues: Some(drops(2)),
            drivers: missed(4),
            ..Reading::default()
        };
        let facts = after.since(&before);
        let wanted = DeviceFacts {
            name: "eth0".into(),
            rx_packets: 11,
            rx_errors: 12,
            rx_dropped: 13,
            tx_packets: 21,
            tx_errors: 22,
            tx_dropped: 23,
            qdisc_dropped: Some(7),
            driver: BTreeMap::from([("rx_missed".to_owned(), 1)]),
        };
        assert_eq!(facts.devices, [wanted], "lo did not move");
    }
}

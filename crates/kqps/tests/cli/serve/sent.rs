//! Datagrams of a test, their expected fates, and the kernel's counts meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use kqps_skips::{Capability, skip};

use super::PATIENCE;

/// A query for `a.test A` with an ID of its own, in mixed case.
pub(crate) fn query(id: u16) -> Vec<u8> {
    let mut bytes = id.to_be_bytes().to_vec();
    bytes.extend([0x01, 0x20, 0, 1, 0, 0, 0, 0, 0, 0]);
    bytes.extend(b"\x01a\x04TeSt\x00\x00\x01\x00\x01");
    bytes
}

/// The reply to [`query`]: its bytes with QR set and AD cleared.
pub(crate) fn reply(id: u16) -> Vec<u8> {
    let mut bytes = query(id);
    bytes[2] |= 0x80;
    bytes[3] &= !0x20;
    bytes
}

/// A socket that receives replies only from the address that it asks.
pub(crate) fn flow(to: SocketAddr) -> UdpSocket {
    let any: IpAddr = if to.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
    let socket = UdpSocket::bind((any, 0)).unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// The datagrams sent to a server, by their expected fates.
#[derive(Default)]
pub(crate) struct Sent {
    pub(crate) answered: u64,
    pub(crate) dropped: BTreeMap<String, u64>,
}

pub(crate) const ROUNDS: u16 = 6;

impl Sent {
    /// Sends good and bad datagrams over several flows, and awaits a reply to every good one.
    pub(crate) fn play(&mut self, to: SocketAddr, flows: usize) {
        let flows: Vec<UdpSocket> = (0..flows).map(|_| flow(to)).collect();
        for id in 0..ROUNDS {
            for flow in &flows {
                for (cause, bytes) in [
                    ("query-too-short", &[] as &[u8]),
                    ("query-too-short", &query(id)[..11]),
                    ("is-response", &reply(id)),
                    ("query-too-long", &[0; 4097]),
                ] {
                    flow.send(bytes).unwrap();
                    *self.dropped.entry(cause.to_owned()).or_default() += 1;
                }
                flow.send(&query(id)).unwrap();
                self.answered += 1;
            }
        }
        for flow in &flows {
            let mut expected: BTreeSet<Vec<u8>> = (0..ROUNDS).map(reply).collect();
            while !expected.is_empty() {
                let mut buffer = [0; 512];
                let length =
                    flow.recv(&mut buffer).unwrap_or_else(|error| panic!("no reply from {to}: {error}"));
                assert!(expected.remove(&buffer[..length]), "{:x?} from {to}", &buffer[..length]);
            }
        }
    }

    /// Sends queries with source port 0, which takes a raw socket and the privilege for one.
    pub(crate) fn play_port_zero(&mut self, to: SocketAddr) {
        for _ in 0..3 {
            // No checksum (RFC 768).
            if send_raw(to, 0, 0, &query(0)) {
                *self.dropped.entry("port-zero".to_owned()).or_default() += 1;
            }
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.answered + self.dropped.values().sum::<u64>()
    }
}

/// Sends `payload` in an IPv4 datagram with this source port and checksum. Returns whether that was possible.
pub(crate) fn send_raw(to: SocketAddr, from_port: u16, checksum: u16, payload: &[u8]) -> bool {
    let Ok(raw) = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::RAW, Some(17.into())) else {
        skip(Capability::RawSockets, "datagrams that no other socket sends");
        return false;
    };
    let fields = [from_port, to.port(), 8 + payload.len() as u16, checksum];
    let mut datagram: Vec<u8> = fields.into_iter().flat_map(u16::to_be_bytes).collect();
    datagram.extend(payload);
    raw.send_to(&datagram, &to.into()).unwrap();
    true
}

/// Waits until the receive queues of the sockets on this port are empty.
pub(crate) fn wait_until_read(port: u16) {
    let begin = Instant::now();
    let waiting = || {
        ["udp", "udp6"].iter().any(|table| {
            let table = std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap();
            table.lines().skip(1).any(|line| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                fields[1].ends_with(&format!(":{port:04X}")) && !fields[4].ends_with(":00000000")
            })
        })
    };
    while waiting() {
        assert!(begin.elapsed() < PATIENCE, "the queue on port {port} is not read");
        std::thread::yield_now();
    }
}

/// The kernel's counts of this thread's network namespace: datagrams that programs read, and datagrams
/// dropped at full buffers.
pub(crate) fn kernel_counts() -> (u64, u64) {
    let old = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut udp = old.lines().filter_map(|line| line.strip_prefix("Udp: "));
    let (names, values) = (udp.next().unwrap(), udp.next().unwrap());
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for (name, value) in names.split(' ').zip(values.split(' ')) {
        counts.insert(format!("Udp{name}"), value.parse().unwrap());
    }
    for line in std::fs::read_to_string("/proc/thread-self/net/snmp6").unwrap().lines() {
        let mut fields = line.split_whitespace();
        counts.insert(fields.next().unwrap().to_owned(), fields.next().unwrap().parse().unwrap());
    }
    let both = |name: &str| counts[&format!("Udp{name}")] + counts[&format!("Udp6{name}")];
    (both("InDatagrams"), both("RcvbufErrors"))
}

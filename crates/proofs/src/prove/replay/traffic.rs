//! Known traffic: who asks what and when, over which transport and connection, and what the answer was in the capture.
//! The first label of a query's name is its number.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result};
use kqps_capture::write::Writer;

use super::MS_NS;
use crate::numbered::message;

/// Clients: five of one network, two of another, and one alone. Each is a network and the last byte of an address.
const CLIENTS: [(u8, u8); 8] = [(1, 1), (2, 9), (1, 4), (1, 7), (3, 3), (1, 200), (2, 8), (1, 90)];

/// The server in the capture (RFC 5737).
const SERVER: ([u8; 4], u16) = ([192, 0, 2, 53], 53);

/// When the capture begins, nanoseconds since 1970: the beginning of 2026.
const BEGIN_NS: u64 = 1_767_225_600_000_000_000;

/// Gaps between two queries over UDP, nanoseconds: in bursts, close together, and far apart.
const GAPS_NS: [u64; 6] = [0, 0, 150_000, 700_000, 3 * MS_NS, 9 * MS_NS];

/// How long connections are idle before they are closed, and the gap between two of their queries, milliseconds.
const IDLE_MS: [u64; 4] = [20, 45, 0, 120];
const BETWEEN_MS: u64 = 7;

/// Numbers of queries over TCP begin here, in traffic that has both.
const FIRST_OVER_TCP: u32 = 500_000;

/// The answer to a query in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The answer that an echo gives, too.
    Same,
    /// The rcode NXDOMAIN, where an echo says NOERROR.
    OtherRcode,
    /// An answer with authority, which that of an echo is not.
    OtherAnswer,
    /// Nothing.
    None,
}

/// A query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Query {
    pub(super) number: u32,
    /// When it comes, nanoseconds after the first query.
    pub(super) due_ns: u64,
    /// The number of its client.
    pub(super) client: usize,
    /// The number of its connection; `None` over UDP.
    pub(super) connection: Option<usize>,
    pub(super) fate: Fate,
}

/// A connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) client: usize,
    /// When it is closed, nanoseconds after the first query; `None` if it outlasts the capture.
    pub(super) closed_ns: Option<u64>,
    /// How long it is idle after its last query, milliseconds.
    pub(super) idle_ms: u64,
}

/// Queries in the order of their times.
pub(super) struct Traffic {
    pub(super) asked: Vec<Query>,
    pub(super) connections: Vec<Connection>,
}

/// A packet or some of the capture.
enum Event<'a> {
    Connect(usize),
    Query(&'a Query),
    Response(&'a Query),
    Close(usize),
}

impl Traffic {
    /// So many queries over UDP, with gaps and clients drawn from a fixed seed.
    pub(super) fn over_udp(count: u32) -> Self {
        let mut random = fastrand::Rng::with_seed(3);
        let mut due_ns = 0;
        let asked = (0..count).map(|number| {
            if number > 0 {
                due_ns += GAPS_NS[random.usize(..GAPS_NS.len())];
            }
            let fate = match number % 7 {
                0 => Fate::None,
                1 => Fate::OtherRcode,
                2 => Fate::OtherAnswer,
                _ => Fate::Same,
            };
            Query { number, due_ns, client: random.usize(..CLIENTS.len()), connection: None, fate }
        });
        Self { asked: asked.collect(), connections: Vec::new() }
    }

    /// So many connections of one to four queries, of which several are open at once. One more connection stays open to
    /// the end of the capture, and asks again when all others are closed.
    pub(super) fn over_tcp(count: usize) -> Self {
        let (mut asked, mut connections) = (Vec::new(), Vec::new());
        let query = |due_ms: u64, client, connection| Query {
            number: 0,
            due_ns: due_ms * MS_NS,
            client,
            connection: Some(connection),
            fate: Fate::None,
        };
        let mut end_ms = 0;
        for number in 0..count {
            let (client, begin_ms) = (number % CLIENTS.len(), 11 * number as u64 + 1);
            let last_ms = begin_ms + BETWEEN_MS * (number as u64 % 4);
            let idle_ms = IDLE_MS[number / 2 % IDLE_MS.len()];
            let times = (begin_ms..=last_ms).step_by(BETWEEN_MS as usize);
            asked.extend(times.map(|due_ms| query(due_ms, client, number)));
            let closed_ns = Some((last_ms + idle_ms) * MS_NS);
            connections.push(Connection { client, closed_ns, idle_ms });
            end_ms = end_ms.max(last_ms + idle_ms);
        }
        for due_ms in [0, end_ms + 100] {
            asked.push(query(due_ms, 4, count));
        }
        connections.push(Connection { client: 4, closed_ns: None, idle_ms: 0 });
        asked.sort_by_key(|one| one.due_ns);
        for (one, number) in asked.iter_mut().zip(FIRST_OVER_TCP..) {
            one.number = number;
        }
        Self { asked, connections }
    }

    /// This traffic over UDP beside some over TCP.
    pub(super) fn beside(mut self, tcp: Self) -> Self {
        self.asked.extend(tcp.asked);
        self.asked.sort_by_key(|one| one.due_ns);
        Self { asked: self.asked, connections: tcp.connections }
    }

    /// The time from the first query to the last, nanoseconds.
    pub(super) fn duration_ns(&self) -> u64 {
        self.asked.last().map_or(0, |last| last.due_ns)
    }

    /// The number of its transports.
    pub(super) fn transports(&self) -> usize {
        let has = |over_tcp| self.asked.iter().any(|one| one.connection.is_some() == over_tcp);
        usize::from(has(false)) + usize::from(has(true))
    }

    /// Whether the capture has responses, which it has over UDP alone.
    pub(super) fn has_responses(&self) -> bool {
        self.asked.iter().any(|one| one.fate != Fate::None)
    }

    /// The clients of each network.
    pub(super) fn networks() -> Vec<Vec<usize>> {
        let mut networks: BTreeMap<u8, Vec<usize>> = BTreeMap::new();
        for (client, (network, _)) in CLIENTS.iter().enumerate() {
            networks.entry(*network).or_default().push(client);
        }
        networks.into_values().collect()
    }

    /// Writes the capture.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let mut events: Vec<(u64, Event<'_>)> = Vec::new();
        for one in &self.asked {
            let is_first = |connection: &usize| {
                self.asked
                    .iter()
                    .find(|other| other.connection == Some(*connection))
                    .map(|other| other.number)
                    == Some(one.number)
            };
            if let Some(connection) = one.connection.filter(is_first) {
                events.push((one.due_ns, Event::Connect(connection)));
            }
            events.push((one.due_ns, Event::Query(one)));
            if one.fate != Fate::None {
                events.push((one.due_ns + 200_000, Event::Response(one)));
            }
        }
        let closed = self.connections.iter().enumerate();
        events.extend(closed.filter_map(|(number, one)| Some((one.closed_ns?, Event::Close(number)))));
        // Events at the same time keep their order.
        events.sort_by_key(|(at_ns, _)| *at_ns);
        self.write_events(path, &events).with_context(|| format!("cannot write {}", path.display()))
    }

    fn write_events(&self, path: &Path, events: &[(u64, Event<'_>)]) -> io::Result<()> {
        let mut writer = Writer::new(BufWriter::new(File::create(path)?))?;
        let server = SocketAddr::from(SERVER);
        for (at_ns, event) in events {
            let at_ns = BEGIN_NS + at_ns;
            match *event {
                Event::Connect(number) => writer.tcp_connect(at_ns, self.end_of(number), server)?,
                Event::Close(number) => writer.tcp_close(at_ns, self.end_of(number), server)?,
                Event::Query(one) => match one.connection {
                    Some(number) => {
                        writer.tcp_message(at_ns, self.end_of(number), server, &message(one.number))?;
                    }
                    None => writer.udp(at_ns, client(one.client, 4000), server, &message(one.number))?,
                },
                Event::Response(one) => {
                    writer.udp(at_ns, server, client(one.client, 4000), &response(one))?;
                }
            }
        }
        writer.finish().map(drop)
    }

    /// The client's end of a connection: each has a port of its own.
    fn end_of(&self, connection: usize) -> SocketAddr {
        let port = u16::try_from(10_000 + connection).expect("few connections");
        client(self.connections[connection].client, port)
    }
}

/// The address of a client.
fn client(number: usize, port: u16) -> SocketAddr {
    let (network, last) = CLIENTS[number];
    SocketAddr::from(([10, 0, network, last], port))
}

/// The response that the capture has.
fn response(asked: &Query) -> Vec<u8> {
    let mut message = message(asked.number);
    // QR, and AA or the rcode NXDOMAIN (RFC 1035, section 4.1.1).
    message[2] |= 0x80;
    match asked.fate {
        Fate::OtherRcode => message[3] |= 3,
        Fate::OtherAnswer => message[2] |= 0x04,
        Fate::Same | Fate::None => {}
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_open_beside_each_other_and_one_outlasts_them() {
        let traffic = Traffic::over_tcp(8);
        assert_eq!((traffic.connections.len(), traffic.transports()), (9, 1));
        assert_eq!(traffic.asked.len(), 2 * (1 + 2 + 3 + 4) + 2);
        assert_eq!((traffic.asked[0].due_ns, traffic.asked[0].connection), (0, Some(8)));
        assert_eq!(traffic.asked.last().unwrap().connection, Some(8));
        let networks: Vec<usize> = Traffic::networks().iter().map(Vec::len).collect();
        assert_eq!(networks, [5, 2, 1]);
        assert_eq!(Traffic::over_udp(50).beside(traffic).transports(), 2);
    }
}

//! Counts the messages of a capture or a query file.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use kqps_capture::{Counts, Kind, Message};
use kqps_dataset::Dataset;
use kqps_message::name::{NameText, literal_end};
use kqps_message::rcode::RcodeName;
use kqps_message::rtype::RtypeName;
use kqps_message::{HEADER_BYTES, Header, edns};

use super::facts::{CaptureShown, ExtrasShown, FileFacts, NameShown};
use super::rates::Rates;
use super::spread::Spread;
use super::top::Top;

/// The most clients that are counted one by one.
const CLIENTS_MOST: usize = 1 << 20;

/// The most connections that are known as open.
const OPEN_MOST: usize = 1 << 20;

/// The word for a query without a question that can be read.
const NO_QUESTION: &str = "none";

/// Bits of an address that name a client's network.
const V4_BITS: u32 = 24;
const V6_BITS: u32 = 48;

/// Counts so far. Its memory is bounded, however many messages there are.
#[derive(Debug, Default)]
pub(super) struct Tally {
    queries: u64,
    types: BTreeMap<u16, u64>,
    without_question: u64,
    expected: BTreeMap<u16, u64>,
    extras: ExtrasShown,
    query_bytes: Spread,
    top: Top,
    name: Vec<u8>,
    rates: Rates,
    clients: HashSet<IpAddr>,
    networks: HashSet<IpAddr>,
    clients_at_least: bool,
    transports: BTreeMap<&'static str, u64>,
    /// Connections with a query, and the numbers of those that may be open.
    connections: u64,
    open: HashSet<u64>,
    rcodes: BTreeMap<u16, u64>,
    truncated: u64,
    response_bytes: Spread,
}

impl Tally {
    /// Counts a message of a capture.
    pub(super) fn message(&mut self, message: &Message<'_>) {
        match message.kind {
            Kind::Query => {
                self.query(message.bytes);
                self.rates.add(message.at_ns);
                self.client(message.client.ip());
                *self.transports.entry(message.transport.name()).or_default() += 1;
                if let Some(number) = message.connection {
                    self.asked_on(number);
                }
            }
            Kind::Response => self.response(message.bytes),
        }
    }

    /// Counts the connection of a query, once.
    fn asked_on(&mut self, connection: u64) {
        if self.open.len() >= OPEN_MOST && !self.open.contains(&connection) {
            // Ends that the capture lacks. A connection that goes on counts twice.
            self.open.clear();
        }
        self.connections += u64::from(self.open.insert(connection));
    }

    /// A connection has ended.
    pub(super) fn closed(&mut self, connection: u64) {
        self.open.remove(&connection);
    }

    /// Counts a query.
    pub(super) fn query(&mut self, message: &[u8]) {
        self.queries += 1;
        self.query_bytes.add(message.len() as u64);
        match question_of(message) {
            Some((name, qtype)) => {
                *self.types.entry(qtype).or_default() += 1;
                self.name.clear();
                self.name.extend_from_slice(name);
                self.name.make_ascii_lowercase();
                self.top.add(&self.name);
            }
            None => self.without_question += 1,
        }
        self.extras.add(ExtrasShown::from_message(message));
    }

    /// Counts what a query file expects.
    pub(super) fn expected(&mut self, rcode: Option<u16>) {
        if let Some(rcode) = rcode {
            *self.expected.entry(rcode).or_default() += 1;
        }
    }

    fn response(&mut self, message: &[u8]) {
        self.response_bytes.add(message.len() as u64);
        if let Some(header) = Header::from_bytes(message) {
            *self.rcodes.entry(edns::rcode(header, message)).or_default() += 1;
            self.truncated += u64::from(header.is_truncated());
        }
    }

    fn client(&mut self, address: IpAddr) {
        if self.clients.len() < CLIENTS_MOST {
            self.clients.insert(address);
            self.networks.insert(network_of(address));
        } else if !self.clients.contains(&address) {
            self.clients_at_least = true;
        }
    }

    /// The facts of a capture.
    pub(super) fn of_capture(self, counts: &Counts, top: usize) -> FileFacts {
        let skipped = counts.skipped().filter(|(_, count)| *count > 0);
        let first_ns = self.rates.first_ns();
        let capture = CaptureShown {
            packets: counts.packets,
            responses: counts.responses,
            further: counts.further,
            skipped: skipped.map(|(why, count)| (why.name().to_owned(), count)).collect(),
            other_ports: counts.other_ports.clone(),
            first_unix_ms: first_ns.map(|first_ns| first_ns / 1_000_000),
            clock_steps: counts.steps,
            strays: counts.strays,
            span_s: self.rates.span_s(),
            rate: None,
            clients: self.clients.len() as u64,
            networks: self.networks.len() as u64,
            clients_at_least: self.clients_at_least,
            transports: self.transports.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            connections: self.connections,
            rcodes: by_rcode(&self.rcodes),
            truncated: self.truncated,
            response_bytes: self.response_bytes.shown(),
        };
        let shown = self.shown(BTreeMap::new(), top);
        let capture = CaptureShown { rate: self.rates.shown(), ..capture };
        FileFacts { capture: Some(capture), ..shown }
    }

    /// The facts of a query file.
    pub(super) fn of_queries(self, dataset: &Dataset, top: usize) -> FileFacts {
        let skipped = dataset.skipped_causes().map(|(cause, count)| (cause.to_owned(), count)).collect();
        self.shown(skipped, top)
    }

    fn shown(&self, skipped: BTreeMap<String, u64>, top: usize) -> FileFacts {
        let mut types: BTreeMap<String, u64> =
            self.types.iter().map(|(qtype, count)| (RtypeName(*qtype).to_string(), *count)).collect();
        if self.without_question > 0 {
            types.insert(NO_QUESTION.to_owned(), self.without_question);
        }
        let names = self.top.most(top).into_iter();
        FileFacts {
            queries: self.queries,
            capture: None,
            skipped,
            types,
            expected_rcodes: by_rcode(&self.expected),
            extras: self.extras,
            query_bytes: self.query_bytes.shown(),
            top_names: names
                .map(|(name, queries, too_high_by)| NameShown {
                    name: NameText(name).to_string(),
                    queries,
                    too_high_by,
                })
                .collect(),
        }
    }
}

/// The name and type of a message's first question; `None` if there is none, or if it cannot be read.
fn question_of(message: &[u8]) -> Option<(&[u8], u16)> {
    if Header::from_bytes(message)?.questions() == 0 {
        return None;
    }
    let end = literal_end(message, HEADER_BYTES)?;
    let qtype: [u8; 2] = *message.get(end..)?.first_chunk()?;
    Some((&message[HEADER_BYTES..end], u16::from_be_bytes(qtype)))
}

fn by_rcode(counts: &BTreeMap<u16, u64>) -> BTreeMap<String, u64> {
    counts.iter().map(|(rcode, count)| (RcodeName(*rcode).to_string(), *count)).collect()
}

fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & (u32::MAX << (32 - V4_BITS))).into()),
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & (u128::MAX << (128 - V6_BITS))).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_count_once_if_a_query_came_on_them() {
        let mut tally = Tally::default();
        for connection in [7, 9, 7] {
            tally.asked_on(connection);
        }
        tally.closed(8);
        tally.closed(7);
        assert_eq!((tally.connections, tally.open.len()), (2, 1));
    }

    #[test]
    fn networks_are_prefixes() {
        let network = |text: &str| network_of(text.parse().unwrap()).to_string();
        assert_eq!(network("192.0.2.77"), "192.0.2.0");
        assert_eq!(network("2001:db8:1:2::3"), "2001:db8:1::");
    }

    #[test]
    fn a_question_is_read_or_there_is_none() {
        let mut message = Vec::new();
        kqps_message::query::write(&mut message, b"wWw.test", 28, None).unwrap();
        assert_eq!(question_of(&message), Some((&b"\x03wWw\x04test\0"[..], 28)));
        assert_eq!(question_of(&message[..message.len() - 3]), None);
        assert_eq!(question_of(&[0; 12]), None);
    }
}

//! Compiles a capture: its queries, in order of time, with what their responses say of the right answers, with numbers
//! for their clients, and with the places of their connections.
//!
//! Memory in MiB, whatever the length of the capture, for 1 M clients:
//!
//! ```text
//! 15   queries that wait, to be sorted and to meet their responses (`room`)
//! 25   clients: 18 bytes each, and 8 in the table of their numbers (`numbers`); 26 bytes for each one more, up to
//!      8 Mi clients
//!  3   connections (`connections`)
//!  3   queries that left without a response (`slow`)
//!  1   responses that came before their queries, and truncated responses (`recent`)
//!  3   buffers of source and encoded form, and 4 bytes for 1024 queries of the table: 0.4 MiB for 100 M
//! ```
//!
//! That is 50 MiB. The reader of the capture adds 2 MiB for a plain capture of whole datagrams, up to 11 MiB for open
//! connections, and more for zstd and fragments, within bounds of its own. Networks are numbered when the queries that
//! waited have left: up to 20 MiB for as many networks as clients, in the place of the room and of the table of the
//! clients' numbers.
//!
//! No message costs an allocation. A packet costs its part of the reader, about 100 bytes to hash in the source and as
//! many in the encoded form, and a search in each of three tables: its exchange, its client and what came early. A
//! query that leaves without a response takes a place in a fourth one.

mod blocks;
mod clients;
mod clock;
mod connections;
mod exchange;
mod expectation;
mod numbers;
mod order;
mod recent;
mod room;
mod servers;
mod slow;
mod strip;

use std::io::{self, Read, Seek, Write};
use std::path::Path;

use kqps_capture::{Counts, Event, Kind, Message, Reader, Settings, Transport as Carried};
use kqps_message::{Edns, HEADER_BYTES, Header as MessageHeader, question};

use crate::binary;
use crate::captured::Captured;
use crate::encoded::{Facts, Header, Sections};
use crate::error::DatasetError;
use crate::facts::CaptureFacts;
use crate::failure::CompileError;
use crate::options::{Client, Options};
use crate::skipped::Skipped;
use crate::source::{Hashing, Shared};
use crate::tail::Tail;
use crate::writer::Writer;
use clients::ClientKey;
use clock::Clock;
use connections::{Connections, Last};
use expectation::{Expectation, is_transfer};
use numbers::Numbers;
use recent::Recent;
use room::{Connection, Room, State, Waiting};
use servers::Servers;
use slow::Slow;

/// How long a query waits for earlier queries, and how late its response may be, in captured time.
const STAY_NS: u64 = 5_000_000_000;
/// The most clients: 208 MiB.
const CLIENTS_MOST: usize = 8 << 20;
/// How long after a truncated response the same question over TCP is a retry.
const RETRY_NS: u64 = 5_000_000_000;
const EARLY: usize = 1 << 12;
const TRUNCATED: usize = 1 << 14;

/// Encodes the queries of a capture.
pub(crate) fn compile<R, W>(
    source: Hashing<R>,
    path: &Path,
    options: &Options,
    writer: Writer<W>,
) -> Result<Header, CompileError>
where
    R: Read + Send + 'static,
    W: Read + Write + Seek,
{
    let unreadable = |error| CompileError::Source(DatasetError::Capture { path: path.to_owned(), error });
    let source = Shared::new(source);
    let settings = Settings {
        ports: options.capture.ports.clone(),
        servers: options.capture.servers.clone(),
        ..Settings::default()
    };
    let mut reader = Reader::new(source.clone(), &settings).map_err(unreadable)?;
    let mut compiler = Compiler::new(path, options, writer);
    while let Some(event) = reader.next().map_err(unreadable)? {
        match event {
            Event::Message(message) => compiler.message(&message)?,
            Event::Closed { at_ns, connection } => compiler.closed(at_ns, connection)?,
        }
    }
    let source_hash = source.hash_to_end().map_err(|error| CompileError::unreadable(path, error))?;
    compiler.finish(source_hash, reader.counts())
}

struct Compiler<'a, W> {
    path: &'a Path,
    edns: Option<Edns>,
    by: Client,
    clients_most: usize,
    writer: Writer<W>,
    room: Room,
    /// Responses that came before their queries, as the packets of two interfaces may.
    early: Recent<Expectation>,
    /// The records of queries that left the room without a response.
    slow: Slow,
    /// Truncated responses over UDP, after which the same question may come over TCP.
    truncated: Recent<()>,
    clients: Numbers<18>,
    servers: Servers,
    connections: Connections,
    clock: Clock,
    facts: CaptureFacts,
    skipped: Skipped,
    message: Vec<u8>,
    scratch: Vec<u8>,
}

impl<'a, W: Read + Write + Seek> Compiler<'a, W> {
    fn new(path: &'a Path, options: &Options, writer: Writer<W>) -> Self {
        Self {
            path,
            edns: options.every_query(),
            by: options.capture.client,
            clients_most: CLIENTS_MOST,
            writer,
            room: Room::new(),
            early: Recent::new(EARLY),
            slow: Slow::new(),
            truncated: Recent::new(TRUNCATED),
            clients: Numbers::new(),
            servers: Servers::default(),
            connections: Connections::default(),
            clock: Clock::default(),
            facts: CaptureFacts::default(),
            skipped: Skipped::default(),
            message: Vec::with_capacity(1 << 16),
            scratch: Vec::with_capacity(1 << 10),
        }
    }

    fn message(&mut self, message: &Message<'_>) -> Result<(), CompileError> {
        self.clock.see(message.at_ns);
        match (message.kind, question_of(message.bytes)) {
            (Kind::Query, Some(question)) => return self.query(message, question),
            (Kind::Query, None) => self.skipped.message(),
            (Kind::Response, Some(question)) => return self.response(message, question),
            (Kind::Response, None) => {}
        }
        Ok(())
    }

    fn query(&mut self, message: &Message<'_>, question: &[u8]) -> Result<(), CompileError> {
        self.make_room(message.at_ns, message.bytes.len())?;
        self.servers.see(message.server.ip());
        let at_ns = message.at_ns;
        if message.transport == Carried::Tcp {
            let retry = exchange::retry_of(message, question, &mut self.scratch);
            let times_ns = at_ns.saturating_sub(RETRY_NS)..=at_ns;
            self.facts.retried += u64::from(self.truncated.take(retry, times_ns).is_some());
        }
        let exchange = exchange::number(message, question, &mut self.scratch);
        let early = self.early.take(exchange, at_ns..=at_ns.saturating_add(STAY_NS));
        let waiting = Waiting {
            at_ns,
            exchange,
            connection: message.connection.and_then(Connection::of_number),
            expectation: early.unwrap_or(Expectation::NONE),
            client: clients::key_of(message.client, self.by),
            carried: message.transport,
            state: if early.is_some() { State::Answered } else { State::Open },
        };
        self.room.put(waiting, message.bytes);
        Ok(())
    }

    fn response(&mut self, message: &Message<'_>, question: &[u8]) -> Result<(), CompileError> {
        let Some(header) = MessageHeader::from_bytes(message.bytes) else { return Ok(()) };
        if header.is_truncated() && message.transport == Carried::Udp {
            let retry = exchange::retry_of(message, question, &mut self.scratch);
            self.truncated.put(retry, message.at_ns, ());
        }
        let exchange = exchange::number(message, question, &mut self.scratch);
        let expectation = Expectation::from_response(header, message.bytes, question, &mut self.scratch);
        let at_ns = message.at_ns;
        if self.room.answer(exchange, at_ns, expectation) {
            return Ok(());
        }
        if let Some(connection) = message.connection {
            self.connections.replied(connection, self.clock.since_first(at_ns));
        }
        let Some(record) = self.slow.take(exchange, at_ns.saturating_sub(STAY_NS)..=at_ns) else {
            self.early.put(exchange, at_ns, expectation);
            return Ok(());
        };
        self.facts.answered += 1;
        match expectation.rcode() {
            Some(rcode) => {
                self.writer.expect(record, rcode, expectation.answer()).map_err(CompileError::Output)
            }
            None => Ok(()),
        }
    }

    fn closed(&mut self, at_ns: u64, connection: u64) -> Result<(), CompileError> {
        self.make_room(at_ns, 0)?;
        let waiting = Waiting {
            at_ns,
            exchange: 0,
            connection: Connection::of_number(connection),
            expectation: Expectation::NONE,
            client: [0; 18],
            carried: Carried::Tcp,
            state: State::Closed,
        };
        self.room.put(waiting, &[]);
        Ok(())
    }

    /// Has those leave the room that have waited long enough at this time, and as many more as the next one needs.
    fn make_room(&mut self, at_ns: u64, message_bytes: usize) -> Result<(), CompileError> {
        let limit_ns = at_ns.saturating_sub(STAY_NS);
        while self.room.first_ns().is_some_and(|first_ns| first_ns < limit_ns)
            || !self.room.has_room(message_bytes)
        {
            self.leave()?;
        }
        Ok(())
    }

    /// Has the earliest leave the room. Returns false if it is empty.
    fn leave(&mut self) -> Result<bool, CompileError> {
        let Some(waiting) = self.room.take(&mut self.message) else { return Ok(false) };
        if waiting.state != State::Closed {
            self.write(&waiting)?;
        } else if let Some(connection) = waiting.connection
            && let Some(last) =
                self.connections.close(connection.number(), self.clock.since_first(waiting.at_ns))
        {
            self.amend(last)?;
        }
        Ok(true)
    }

    /// Encodes the query that has left the room, with its message in `self.message`.
    fn write(&mut self, waiting: &Waiting) -> Result<(), CompileError> {
        let stripped = strip::strip(&mut self.message);
        let Ok(facts) = binary::encode(&mut self.message, self.edns) else {
            self.skipped.message();
            return Ok(());
        };
        // A server answers a signed query as it would not answer others.
        let expectation = if stripped.signature { Expectation::NONE } else { waiting.expectation };
        let facts =
            Facts { expected_rcode: expectation.rcode(), expected_answer: expectation.answer(), ..facts };
        let due_ns = self.clock.due(waiting.at_ns);
        let client = self.client(&waiting.client)?;
        let carried = waiting.carried;
        let mut captured =
            Captured { due_ns, client, carried, place: 0, begins: false, ends: false, idle_ms: 0 };
        if let Some(connection) = waiting.connection.map(Connection::number) {
            for last in self.connections.make_room(connection, due_ns) {
                self.amend(last)?;
            }
            (captured.place, captured.begins) = self.connections.enter(connection);
        }
        let written = self.writer.push(&self.message, facts, Some(captured));
        let record = written.map_err(|error| CompileError::unwritable(self.path, error))?;
        if let Some(connection) = waiting.connection.map(Connection::number) {
            let replied_ns = match waiting.expectation.after_ns() {
                0 => 0,
                after_ns => due_ns.saturating_add(after_ns),
            };
            self.connections.wrote(connection, Last { record, captured, replied_ns });
        }
        if waiting.state == State::Open && !stripped.signature {
            self.slow.put(waiting.exchange, waiting.at_ns, record);
        }
        *self.facts.by_transport.entry(carried).or_default() += 1;
        self.facts.answered += u64::from(waiting.state == State::Answered);
        self.facts.transfers += u64::from(is_transfer(self.question(facts.question_bytes)));
        self.facts.signatures += u64::from(stripped.signature);
        self.facts.cookies += u64::from(stripped.cookie);
        self.facts.keepalives += u64::from(stripped.keepalive);
        self.facts.subnets += u64::from(stripped.subnet);
        self.facts.identities += u64::from(stripped.identity);
        Ok(())
    }

    /// The number of a client. The error says that there are too many.
    fn client(&mut self, key: &ClientKey) -> Result<u32, CompileError> {
        let client = self.clients.number(key);
        if self.clients.len() <= self.clients_most {
            return Ok(client);
        }
        let (path, most, by) = (self.path.to_owned(), self.clients_most, self.by);
        Err(CompileError::Source(DatasetError::TooManyClients { path, most, by }))
    }

    /// The question of so many bytes in `self.message`.
    fn question(&self, bytes: u16) -> &[u8] {
        self.message.get(HEADER_BYTES..HEADER_BYTES + usize::from(bytes)).unwrap_or_default()
    }

    fn amend(&mut self, last: Last) -> Result<(), CompileError> {
        self.writer.amend(last.record, last.captured).map_err(CompileError::Output)
    }

    fn finish(mut self, source_hash: [u8; 32], counts: &Counts) -> Result<Header, CompileError> {
        while self.leave()? {}
        for last in self.connections.still_open() {
            self.amend(last)?;
        }
        self.count(counts);
        if self.facts.by_transport.is_empty() {
            let CaptureFacts { packets, responses, skipped, other_ports, .. } = self.facts;
            let (path, bad) = (self.path.to_owned(), self.skipped.bad());
            return Err(CompileError::Source(DatasetError::EmptyCapture {
                path,
                packets,
                responses,
                bad,
                skipped,
                other_ports,
            }));
        }
        // The room is empty, and its memory is there for the networks.
        drop(self.room);
        write_tail(self.writer, self.clients, self.facts, source_hash, self.skipped)
            .map_err(CompileError::Output)
    }

    /// Puts the counts that others kept into the facts.
    fn count(&mut self, counts: &Counts) {
        let facts = &mut self.facts;
        facts.packets = counts.packets;
        facts.queries = counts.queries;
        facts.responses = counts.responses;
        facts.further = counts.further;
        (facts.steps, facts.strays) = (counts.steps, counts.strays);
        facts.skipped = counts.skipped().map(|(why, packets)| (why.name().to_owned(), packets)).collect();
        facts.other_ports = counts.other_ports.clone();
        facts.duration_ns = self.clock.last_due_ns();
        facts.first_unix_ns = self.clock.first_unix_ns();
        facts.sorted = self.clock.sorted;
        facts.late = self.clock.late;
        facts.clients = u32::try_from(self.clients.len()).expect("clients have numbers of 32 bits");
        facts.servers = u32::try_from(self.servers.len()).expect("64 servers are counted at most");
        facts.servers_asking = self.servers.asking(self.clients.keys());
        facts.places = self.connections.places();
        facts.connections = self.connections.begun();
    }
}

/// Writes what follows the records: the table, the clients with their networks, and the facts.
fn write_tail<W: Read + Write + Seek>(
    mut writer: Writer<W>,
    clients: Numbers<18>,
    facts: CaptureFacts,
    source_hash: [u8; 32],
    skipped: Skipped,
) -> io::Result<Header> {
    writer.end_records()?;
    let sizes = clients::places(clients, |place| writer.append(&place.to_bytes()))?;
    for size in &sizes {
        writer.append(&size.to_le_bytes())?;
    }
    let networks = u32::try_from(sizes.len()).expect("networks have numbers of 32 bits");
    let facts = CaptureFacts { networks, ..facts };
    let (clients, networks) = (u64::from(facts.clients), u64::from(facts.networks));
    let encoded = Tail::Capture(Box::new(facts)).encode()?;
    writer.append(&encoded)?;
    let sections = Sections { clients, networks, facts_bytes: encoded.len() as u64 };
    writer.finish(source_hash, skipped, sections)
}

/// The question section of a message; `None` if it cannot be read, or if the message is longer than one can be.
fn question_of(message: &[u8]) -> Option<&[u8]> {
    if message.len() > usize::from(u16::MAX) {
        return None;
    }
    message.get(HEADER_BYTES..question::end(message)?)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn too_many_clients_end_in_one_error_with_the_way_out() {
        for (by, way_out) in
            [(Client::Address, "--captured-server"), (Client::AddressAndPort, "--client address")]
        {
            let mut options = Options::default();
            options.capture.client = by;
            let writer = Writer::new(Cursor::new(Vec::new())).expect("memory takes all");
            let mut compiler = Compiler::new(Path::new("a.pcap"), &options, writer);
            compiler.clients_most = 2;
            for last in [1, 2, 1, 3] {
                let message = Message {
                    at_ns: 1,
                    kind: Kind::Query,
                    client: SocketAddr::from(([192, 0, 2, last], 1000)),
                    server: SocketAddr::from(([198, 51, 100, 1], 53)),
                    transport: Carried::Udp,
                    connection: None,
                    bytes: b"\x01\x02\x01\0\0\x01\0\0\0\0\0\0\x04test\0\x00\x01\x00\x01",
                };
                compiler.message(&message).expect("it waits");
            }
            let error = compiler.finish([0; 32], &Counts::default()).expect_err("three clients");
            let CompileError::Source(error) = error else { panic!("{error:?}") };
            let said = error.to_string();
            assert!(said.starts_with("a.pcap has more than 2 clients") && said.contains(way_out), "{said}");
        }
    }
}

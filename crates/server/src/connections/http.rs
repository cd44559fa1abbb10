//! A connection by HTTP/2 in TLS (RFC 8484). What is read are the queries of requests, and what is written are their
//! replies in the same order, each after its length as over TCP: the connection need not know of streams. A length of 0
//! stands for a query that gets no reply. The limits of connections hold for it as for any other. A request that is no
//! query gets a status and is counted.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kqps_http::{Failure, Peer, ServerEvent, ServerSession, Values};
use kqps_message::header::Header;
use kqps_message::{may_be_replayed, question, record, rtype};

use super::frame::{LENGTH_BYTES, append, first_message};
use super::tls::TlsStream;

/// The statuses of requests that are no query.
const STATUSES: [u16; 7] = [400, 404, 405, 413, 415, 425, 503];

thread_local! {
    /// Header fields and bodies of the replies of all connections of a thread.
    static VALUES: RefCell<Values> = RefCell::default();
}

/// The requests that were no query, of the connections of one listening socket, by status.
#[derive(Debug, Default)]
pub(super) struct Refusals([AtomicU64; STATUSES.len()]);

impl Refusals {
    fn count(&self, status: u16) {
        if let Some(at) = STATUSES.iter().position(|known| *known == status) {
            self.0[at].fetch_add(1, Relaxed);
        }
    }

    /// The counts by status, without zeros.
    pub(super) fn by_status(&self) -> BTreeMap<String, u64> {
        let counts =
            STATUSES.iter().zip(&self.0).map(|(status, count)| (status.to_string(), count.load(Relaxed)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

/// A connection by HTTP/2 in TLS.
pub struct HttpStream {
    pub(super) tls: TlsStream,
    session: ServerSession,
    /// Queries after their lengths, of which the first `given` bytes were read.
    queries: Vec<u8>,
    given: usize,
    /// Whether the client sends no more.
    at_end: bool,
    refusals: Arc<Refusals>,
}

impl HttpStream {
    pub(super) fn new(tls: TlsStream, refusals: &Arc<Refusals>) -> Self {
        Self {
            tls: tls.without_messages(),
            session: ServerSession::default(),
            queries: Vec::new(),
            given: 0,
            at_end: false,
            refusals: Arc::clone(refusals),
        }
    }

    /// Whether more can be read although the last read was short.
    pub(super) fn may_have_more(&self) -> bool {
        self.at_end || self.given < self.queries.len() || self.tls.may_have_more()
    }

    /// Whether requests are under way.
    pub(super) fn is_busy(&self) -> bool {
        self.session.is_busy()
    }

    /// Whether replies wait for the client to take more.
    pub(super) fn has_responses(&self) -> bool {
        self.session.has_responses()
    }

    /// Sends GOAWAY and `close_notify`, as far as there is room, and ends the server's direction.
    pub(super) fn shutdown(&mut self, how: Shutdown) -> io::Result<()> {
        self.session.close();
        // A client that does not take it needs no word of the end.
        let _ = self.send();
        self.tls.shutdown(how)
    }

    /// Takes the requests that have arrived, and sends what HTTP/2 has to say to them.
    fn receive(&mut self) -> io::Result<()> {
        let Self { session, queries, refusals, .. } = self;
        let received = self.tls.take_plain(|bytes, is_early| {
            let is_safe = |query: &[u8]| !is_early || may_be_replayed(query);
            session.receive_early(bytes, is_safe, |taken| match taken {
                ServerEvent::Query(query) => append(queries, query),
                ServerEvent::Refused(status) => refusals.count(status),
            })
        })?;
        let sent = self.send();
        self.at_end = match received.transpose().map_err(broken)? {
            None | Some(Peer::Closed) => true,
            Some(Peer::Open) => false,
        };
        sent
    }

    /// Passes what HTTP/2 framed to TLS.
    fn send(&mut self) -> io::Result<()> {
        let Self { session, tls, .. } = self;
        if session.has_outgoing() { session.take_outgoing(|bytes| tls.queue(bytes)) } else { Ok(()) }
    }
}

impl Read for HttpStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.queries.len() {
            if self.at_end {
                return Ok(0);
            }
            // The client must read before it is read from. What it has sent stays in the socket.
            if !self.tls.has_unsent() {
                self.receive()?;
            }
            // Frames without a query are work, too: another round may read more.
            if self.queries.is_empty() {
                return if self.at_end { Ok(0) } else { Err(ErrorKind::Interrupted.into()) };
            }
        }
        let waiting = &self.queries[self.given..];
        let bytes = waiting.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&waiting[..bytes]);
        self.given += bytes;
        if self.given == self.queries.len() {
            self.queries = Vec::new();
            self.given = 0;
        }
        Ok(bytes)
    }
}

impl Write for HttpStream {
    /// Takes whole replies while the kernel took the records of all earlier ones.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let mut taken = 0;
        VALUES.with_borrow_mut(|values| {
            while let Some(reply) = first_message(&bytes[taken..]) {
                taken += LENGTH_BYTES + reply.len();
                let reply = Some(reply).filter(|reply| !reply.is_empty());
                self.session.reply(reply, reply.and_then(max_age_s), values);
            }
        });
        self.session.flush();
        self.send()?;
        Ok(taken)
    }

    /// Passes records to the kernel; an error while it has no room for all.
    fn flush(&mut self) -> io::Result<()> {
        self.tls.flush()
    }
}

/// How long a reply may be kept, seconds: the smallest TTL of its answer, and for a denial that of its SOA record or its
/// MINIMUM (RFC 8484, section 5.1; RFC 2308, section 5). A reply that says neither is not kept, such as SERVFAIL. `None` if
/// it cannot be read.
fn max_age_s(reply: &[u8]) -> Option<u32> {
    let header = Header::from_bytes(reply)?;
    let answers = u32::from(header.answers());
    let mut at = question::end(reply)?;
    let mut least_s: Option<u32> = None;
    let mut note = |ttl_s: u32| {
        // With the top bit it counts as 0 (RFC 2181, section 8).
        let ttl_s = if ttl_s > i32::MAX.cast_unsigned() { 0 } else { ttl_s };
        least_s = Some(least_s.map_or(ttl_s, |least_s| least_s.min(ttl_s)));
    };
    for number in 0..answers + u32::from(header.authorities()) {
        let record = record::read(reply, at)?;
        at = record.end;
        if number < answers {
            note(record.ttl_s);
        } else if record.rtype == rtype::SOA {
            note(record.ttl_s);
            note(u32::from_be_bytes(*record.data.last_chunk()?));
        }
    }
    Some(least_s.unwrap_or(0))
}

/// The error of a connection whose HTTP/2 failed. Its kind sets it apart from errors of the socket and of TLS.
#[allow(clippy::needless_pass_by_value)] // `map_err` hands it over
fn broken(failure: Failure) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, failure.to_string())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use kqps_http::ALPN;
    use kqps_tls::certificate::{KeyType, make};
    use kqps_tls::client::server_name;
    use kqps_tls::{Acceptor, Client, ClientSettings, ClientTls, Trust};

    use super::*;

    /// The beginning of a client's HTTP/2 (RFC 9113, section 3.4), with SETTINGS, and a PING.
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0kqps1234";

    /// A client that writes frames by hand.
    struct Framing {
        socket: TcpStream,
        tls: ClientTls,
    }

    impl Framing {
        /// Both ends of a connection whose handshake is complete.
        fn open() -> (Self, HttpStream) {
            let made = make(KeyType::Ecdsa, &["dns.test".to_owned()]).unwrap();
            let settings = ClientSettings::new(Trust::Anyone, false);
            let client = Client::new(&settings).unwrap().speaking(ALPN);
            let connector = client.connector(server_name("dns.test").unwrap(), 0);
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (accepted, _) = listener.accept().unwrap();
            socket.set_nonblocking(true).unwrap();
            accepted.set_nonblocking(true).unwrap();
            let accepted = mio::net::TcpStream::from_std(accepted);
            let acceptor = Acceptor::speaking(ALPN, &made.identity).unwrap();
            let tls = TlsStream::accept(&acceptor, accepted, &Arc::default()).unwrap();
            let mut stream = HttpStream::new(tls, &Arc::default());
            let (mut outgoing, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
            let mut tls = connector.connect(&mut outgoing).unwrap();
            while !tls.is_established() {
                socket.write_all(&std::mem::take(&mut outgoing)).unwrap();
                let _ = stream.read(&mut buffer);
                let arrived = socket.read(&mut buffer).unwrap_or(0);
                let mut records = [tls.kept(), &buffer[..arrived]].concat();
                tls.open(&mut records, &mut Vec::new(), &mut outgoing).unwrap();
            }
            socket.write_all(&outgoing).unwrap();
            (Self { socket, tls }, stream)
        }

        fn send(&mut self, frames: &[u8]) {
            let mut records = Vec::new();
            self.tls.seal(frames, &mut records).unwrap();
            self.socket.write_all(&records).unwrap();
        }
    }

    /// The kind of error that reading returns once something has arrived.
    fn read(stream: &mut HttpStream) -> ErrorKind {
        let since = Instant::now();
        loop {
            let kind = stream.read(&mut [0; 64]).expect_err("there is no query").kind();
            if kind != ErrorKind::WouldBlock {
                return kind;
            }
            assert!(since.elapsed() < Duration::from_secs(10), "nothing arrives");
        }
    }

    #[test]
    fn a_read_of_frames_without_a_query_ends_so_that_a_turn_counts_it() {
        let (mut client, mut stream) = Framing::open();
        client.send(PREFACE);
        for _ in 0..20 {
            client.send(PING);
            assert_eq!(read(&mut stream), ErrorKind::Interrupted);
        }
        // Frames after the first ones may have arrived with them.
        while stream.read(&mut [0; 64]).expect_err("there is no query").kind() == ErrorKind::Interrupted {}
        assert!(!stream.is_busy() && !stream.may_have_more());
    }

    #[test]
    fn a_reply_may_be_kept_as_long_as_its_shortest_record() {
        let record = |rtype: u8, ttl: u32, data: &[u8]| {
            let fixed = [&[0, 0, rtype, 0, 1][..], &ttl.to_be_bytes(), &[0, data.len() as u8]].concat();
            [&fixed, data].concat()
        };
        let reply = |answers: u8, authorities: u8, records: &[&Vec<u8>]| {
            let head = [0, 0, 0x80, 0, 0, 1, 0, answers, 0, authorities, 0, 0];
            let records = records.iter().flat_map(|record| record.iter().copied());
            head.into_iter().chain(*b"\x01a\0\x00\x01\x00\x01").chain(records).collect::<Vec<u8>>()
        };
        let [hour, minute, high] = [3600, 60, 1 << 31].map(|ttl| record(1, ttl, b"x"));
        let soa = |ttl: u32, minimum: u32| {
            record(6, ttl, &[&b"\0\0"[..], &[0; 16], &minimum.to_be_bytes()].concat())
        };
        let (short, long, endless) = (soa(3600, 30), soa(20, 300), soa(u32::MAX, u32::MAX));
        let ns = record(2, 5, b"\0");
        for (reply, age_s) in [
            (reply(2, 0, &[&hour, &minute]), Some(60)),
            (reply(1, 0, &[&hour, &minute]), Some(3600)),
            (reply(1, 1, &[&hour, &ns]), Some(3600)),
            (reply(2, 0, &[&hour, &high]), Some(0)),
            // Denials: MINIMUM, the TTL of the SOA record, and that of an alias.
            (reply(0, 1, &[&short]), Some(30)),
            (reply(0, 2, &[&ns, &long]), Some(20)),
            (reply(1, 1, &[&minute, &short]), Some(30)),
            (reply(1, 1, &[&minute, &soa(900, 300)]), Some(60)),
            (reply(0, 1, &[&endless]), Some(0)),
            // Neither an answer nor a denial.
            (reply(0, 0, &[&hour]), Some(0)),
            (reply(0, 1, &[&ns]), Some(0)),
            (reply(2, 0, &[&hour]), None),
            (reply(0, 1, &[]), None),
        ] {
            assert_eq!(max_age_s(&reply), age_s, "{reply:x?}");
        }
    }

    #[test]
    fn refusals_are_counted_by_status() {
        let refusals = Refusals::default();
        for status in [404, 415, 404] {
            refusals.count(status);
        }
        assert_eq!(refusals.by_status(), [("404".to_owned(), 2), ("415".to_owned(), 1)].into());
    }
}

//! A connection in TLS (RFC 7858): what is read and written are the bytes of messages. The limits of connections hold
//! for it as for any other. A handshake is no query, so a client that never ends it is closed as idle. Of early data
//! (0-RTT) only messages that may be replayed are read before the handshake is complete (RFC 8446, section 8).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use kqps_message::may_be_replayed;
use kqps_tls::{Acceptor, Failure, Kind, Peer, ServerTls};
use mio::net::TcpStream;

use super::frame::{LENGTH_BYTES, first_message};

/// Room for the bytes of one read, and for the beginning of a record before them.
const RECORDS_BYTES: usize = 1 << 18;

/// The most bytes of messages that one write takes. The kernel may take none of their records until later.
const SEALED_MOST: usize = 1 << 16;

thread_local! {
    /// The buffer into which all connections of a thread read, one at a time.
    static RECORDS: RefCell<Box<[u8]>> = RefCell::new(vec![0; RECORDS_BYTES].into());
}

/// The handshakes that the connections of one listening socket completed, by kind.
#[derive(Debug, Default)]
pub(super) struct Handshakes([AtomicU64; Kind::NAMES.len()]);

impl Handshakes {
    fn count(&self, kind: Kind) {
        self.0[kind.number()].fetch_add(1, Relaxed);
    }

    /// The counts by name, without zeros.
    pub(super) fn by_kind(&self) -> BTreeMap<String, u64> {
        let counts =
            Kind::NAMES.iter().zip(&self.0).map(|(name, count)| ((*name).to_owned(), count.load(Relaxed)));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

/// How much of early data may be read before the handshake is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Early {
    /// The first messages, as far as they may be replayed.
    Messages,
    /// All, by a reader that looks at it.
    All,
}

/// A connection in TLS.
pub struct TlsStream {
    pub(super) socket: TcpStream,
    tls: ServerTls,
    /// Bytes of messages that arrived, of which the first `given` were read, and the first `released` may be.
    plain: Vec<u8>,
    given: usize,
    released: usize,
    early: Early,
    /// Records for the kernel, of which it took the first `taken` bytes.
    outgoing: Vec<u8>,
    taken: usize,
    /// Whether the client sends no more.
    at_end: bool,
    /// Whether the last read of the socket filled its buffer.
    was_full: bool,
    handshakes: Arc<Handshakes>,
    is_counted: bool,
}

impl TlsStream {
    /// The TLS of a connection that was just accepted. Fails if the process has no memory or randomness left.
    pub(super) fn accept(
        acceptor: &Acceptor,
        socket: TcpStream,
        handshakes: &Arc<Handshakes>,
    ) -> io::Result<Self> {
        Ok(Self {
            socket,
            tls: acceptor.accept().map_err(broken)?,
            plain: Vec::new(),
            given: 0,
            released: 0,
            early: Early::Messages,
            outgoing: Vec::new(),
            taken: 0,
            at_end: false,
            was_full: false,
            handshakes: Arc::clone(handshakes),
            is_counted: false,
        })
    }

    /// Lets the stream carry bytes that are no messages after their lengths. Early data is then read at once.
    pub(super) fn without_messages(self) -> Self {
        Self { early: Early::All, ..self }
    }

    /// Whether more can be read although the last read was short: bytes, or the end, which `close_notify` brings before
    /// the socket does.
    pub(super) fn may_have_more(&self) -> bool {
        self.was_full || self.at_end || self.given < self.released
    }

    /// Whether records wait for the kernel.
    pub(super) fn has_unsent(&self) -> bool {
        self.taken < self.outgoing.len()
    }

    /// Sends `close_notify`, as far as there is room, and ends the server's direction.
    pub(super) fn shutdown(&mut self, how: Shutdown) -> io::Result<()> {
        self.tls.close(&mut self.outgoing);
        let _ = self.push();
        self.socket.shutdown(how)
    }

    /// Reads once from the socket, unless bytes of messages wait that may be read. Returns false at the end. Records
    /// without such bytes are work, too: the error is `Interrupted`, and another round may read more.
    fn fill(&mut self) -> io::Result<bool> {
        if self.given == self.released {
            if self.at_end {
                return Ok(false);
            }
            self.receive()?;
        }
        match (self.given == self.released, self.at_end) {
            (false, _) => Ok(true),
            (true, true) => Ok(false),
            (true, false) => Err(ErrorKind::Interrupted.into()),
        }
    }

    /// Hands all bytes of messages that have arrived to `take`, and whether the handshake is not complete, so that they
    /// may be a replay. Returns `None` at the end.
    pub(super) fn take_plain<T>(&mut self, take: impl FnOnce(&[u8], bool) -> T) -> io::Result<Option<T>> {
        if !self.fill()? {
            return Ok(None);
        }
        let is_early = !self.tls.is_established();
        let taken = take(&self.plain[self.given..self.released], is_early);
        self.given = self.released;
        self.forget_given();
        Ok(Some(taken))
    }

    /// Forgets what was read, if nothing else is left.
    fn forget_given(&mut self) {
        if self.given == self.plain.len() {
            self.plain = Vec::new();
            (self.given, self.released) = (0, 0);
        }
    }

    /// Notes how much of what arrived may be read.
    fn release(&mut self) {
        if self.early == Early::All || self.tls.is_established() {
            self.released = self.plain.len();
            return;
        }
        while let Some(message) = first_message(&self.plain[self.released..])
            && may_be_replayed(message)
        {
            self.released += LENGTH_BYTES + message.len();
        }
    }

    /// Takes bytes, also while the kernel has not taken the records of earlier ones.
    pub(super) fn queue(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tls.seal(bytes, &mut self.outgoing).map_err(broken)?;
        self.push().map(drop)
    }

    /// Reads once from the socket.
    fn receive(&mut self) -> io::Result<()> {
        RECORDS.with_borrow_mut(|records| {
            let kept = self.tls.kept().len();
            records[..kept].copy_from_slice(self.tls.kept());
            self.was_full = false;
            let bytes = self.socket.read(&mut records[kept..])?;
            self.at_end = bytes == 0;
            self.was_full = kept + bytes == records.len();
            let opened = self.tls.open(&mut records[..kept + bytes], &mut self.plain, &mut self.outgoing);
            if !self.is_counted && self.tls.is_established() {
                self.is_counted = true;
                self.handshakes.count(self.tls.session().kind);
            }
            self.release();
            // The alert is the last that the client gets after a failure.
            let pushed = self.push();
            self.at_end |= opened.map_err(broken)? == Peer::Closed;
            pushed.map(drop)
        })
    }

    /// Writes records as far as the kernel takes them. Returns whether it took all.
    fn push(&mut self) -> io::Result<bool> {
        while self.has_unsent() {
            match self.socket.write(&self.outgoing[self.taken..]) {
                Ok(bytes) => self.taken += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // An idle connection holds no memory.
        self.outgoing = Vec::new();
        self.taken = 0;
        Ok(true)
    }
}

impl Read for TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.fill()? {
            return Ok(0);
        }
        let waiting = &self.plain[self.given..self.released];
        let bytes = waiting.len().min(buffer.len());
        buffer[..bytes].copy_from_slice(&waiting[..bytes]);
        self.given += bytes;
        self.forget_given();
        Ok(bytes)
    }
}

impl Write for TlsStream {
    /// Takes bytes while the kernel took the records of all earlier ones.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let bytes = &bytes[..bytes.len().min(SEALED_MOST)];
        self.tls.seal(bytes, &mut self.outgoing).map_err(broken)?;
        self.push()?;
        Ok(bytes.len())
    }

    /// Passes records to the kernel; an error while it has no room for all.
    fn flush(&mut self) -> io::Result<()> {
        if self.push()? { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) }
    }
}

/// The error of a connection whose TLS failed. Its kind sets it apart from errors of the socket.
#[allow(clippy::needless_pass_by_value)] // `map_err` hands it over
fn broken(failure: Failure) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, failure.to_string())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream as Socket};
    use std::time::{Duration, Instant};

    use kqps_tls::ALPN;
    use kqps_tls::certificate::{KeyType, make};
    use kqps_tls::fuzz::VainClient;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    /// The kind of error that reading returns once something has arrived.
    fn read(stream: &mut TlsStream) -> ErrorKind {
        let since = Instant::now();
        loop {
            let kind = stream.read(&mut [0; 64]).expect_err("there is no message").kind();
            if kind != ErrorKind::WouldBlock {
                return kind;
            }
            assert!(since.elapsed() < PATIENCE, "nothing arrives");
        }
    }

    #[test]
    fn a_read_of_records_without_data_ends_so_that_a_turn_counts_it() {
        let made = make(KeyType::Ecdsa, &["dns.test".to_owned()]).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = Socket::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        let acceptor = Acceptor::new(&made.identity).unwrap();
        let accepted = TcpStream::from_std(accepted);
        let mut stream = TlsStream::accept(&acceptor, accepted, &Arc::default()).unwrap();
        let (mut client, first) = VainClient::new(ALPN);
        socket.write_all(&first).unwrap();
        assert_eq!(read(&mut stream), ErrorKind::Interrupted, "a handshake is no message");
        let mut buffer = vec![0; 1 << 14];
        let answer = loop {
            let bytes = socket.read(&mut buffer).unwrap();
            if let Some(answer) = client.answer(&buffer[..bytes]) {
                break answer;
            }
        };
        socket.write_all(&answer).unwrap();
        assert_eq!(read(&mut stream), ErrorKind::Interrupted);
        for _ in 0..20 {
            socket.write_all(&client.records(50)).unwrap();
            assert_eq!(read(&mut stream), ErrorKind::Interrupted);
        }
    }
}

//! A connection to a back end. One call writes many queries, and replies are cut out of the bytes received, in any
//! order (RFC 7766, sections 6.2.1.1 and 7). The connection is opened in advance and kept. After it has ended it is
//! opened again, each time after a longer pause.

use std::io::{self, ErrorKind, Read as _, Write as _};

use kqps_kernel::errno;
use kqps_message::header::HEADER_BYTES;
use kqps_server::connections::Stream;
use kqps_server::connections::frame::{LENGTH_BYTES, first_message};
use mio::event::{Event, Source as _};
use mio::net::{TcpStream, UnixStream};
use mio::{Registry, Token};

use super::ids::{IDS_MOST, Ids};
use super::policy::Target;
use super::short;

/// No more queries are accepted while this many bytes of them are not written.
const QUEUE_MOST: usize = 1 << 20;

/// How long opening may take, in nanoseconds.
const OPENING_NS: u64 = 1_000_000_000;

/// How long opening may take if the back end is needed and was reached before: this time in nanoseconds, or this many
/// times the duration of that opening if that is longer. The kernel repeats a lost SYN only after 1 s (RFC 6298,
/// section 2).
const OPENING_AGAIN_NS: u64 = 200_000_000;
const OPENING_AGAIN_TIMES: u64 = 4;

/// How long the connection stays closed after a failure, at first and at most, in nanoseconds. The pause doubles
/// each time.
const AGAIN_FIRST_NS: u64 = 50_000_000;
const AGAIN_MOST_NS: u64 = 1_000_000_000;

/// A connection and its outstanding queries.
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own, and every combination happens
pub(super) struct StreamLink {
    state: State,
    token: Token,
    pub(super) ids: Ids,
    /// Queries with their lengths, of which the first `written` bytes are written.
    queue: Vec<u8>,
    written: usize,
    /// The number of queries that are not flushed, and when the first of them was queued.
    queued: usize,
    queued_ns: u64,
    /// The kernel had no room.
    is_full: bool,
    /// The poller reports when there is room again.
    is_watched: bool,
    /// The beginning of a reply.
    partial: Vec<u8>,
    is_readable: bool,
    /// The back end sends nothing more than what can be read now.
    is_at_end: bool,
    /// How long the connection stays closed after it ends.
    wait_ns: u64,
    opened_ns: u64,
    /// How long opening took the last time.
    opening_took_ns: Option<u64>,
    /// When the connection last brought an answer, in nanoseconds.
    pub(super) heard_ns: u64,
}

enum State {
    Closed { until_ns: u64 },
    Opening { stream: Stream, until_ns: u64 },
    Open(Stream),
}

/// The connection has ended, or the back end sent something that is not DNS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    /// The back end closed the connection between two messages.
    Ended,
    /// The connection was refused, reset, or cut off in the middle of a message, or the bytes were not a message.
    Broken,
    /// No file descriptor is free.
    NoRoom,
}

impl StreamLink {
    /// A closed connection that is due for opening at once.
    pub(super) fn new(token: Token) -> Self {
        Self {
            state: State::Closed { until_ns: 0 },
            token,
            ids: Ids::new(),
            queue: Vec::new(),
            written: 0,
            queued: 0,
            queued_ns: 0,
            is_full: false,
            is_watched: false,
            partial: Vec::new(),
            is_readable: false,
            is_at_end: false,
            wait_ns: 0,
            opened_ns: 0,
            opening_took_ns: None,
            heard_ns: 0,
        }
    }

    pub(super) fn is_opening(&self) -> bool {
        matches!(self.state, State::Opening { .. })
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Whether it accepts another query.
    #[inline]
    pub(super) fn takes(&self) -> bool {
        self.is_open() && self.ids.used() < IDS_MOST && self.queue.len() - self.written < QUEUE_MOST
    }

    /// Opens the connection if it is due, and gives up if opening takes too long. Returns whether it opened at once.
    pub(super) fn open(&mut self, target: &Target, registry: &Registry, now_ns: u64) -> Result<bool, Gone> {
        match self.state {
            State::Closed { until_ns } if until_ns <= now_ns => {}
            State::Opening { until_ns, .. } if until_ns <= now_ns => return Err(Gone::Broken),
            _ => return Ok(false),
        }
        let mut stream = match connect(target) {
            Ok(stream) => stream,
            Err(error) if is_no_room(&error) => {
                self.state = State::Closed { until_ns: now_ns + AGAIN_FIRST_NS };
                return Err(Gone::NoRoom);
            }
            Err(_) => return Err(Gone::Broken),
        };
        stream.register(registry, self.token, stream.interest(false)).map_err(|_| Gone::Broken)?;
        self.opened_ns = now_ns;
        let is_open = matches!(stream, Stream::Unix(_));
        self.state = if is_open {
            State::Open(stream)
        } else {
            State::Opening { stream, until_ns: now_ns + OPENING_NS }
        };
        Ok(is_open)
    }

    /// When something is due even if no event happens.
    pub(super) fn due_ns(&self) -> Option<u64> {
        match self.state {
            State::Closed { until_ns } | State::Opening { until_ns, .. } => Some(until_ns),
            State::Open(_) => None,
        }
    }

    /// If the connection is closed, makes it due for opening at `at_ns` at the latest. If it is being opened and was
    /// open before, makes the attempt end sooner.
    pub(super) fn hasten(&mut self, at_ns: u64) {
        match &mut self.state {
            State::Closed { until_ns } => *until_ns = at_ns.min(*until_ns),
            State::Opening { until_ns, .. } => {
                let Some(took_ns) = self.opening_took_ns else { return };
                let patience_ns = OPENING_AGAIN_NS.max(took_ns.saturating_mul(OPENING_AGAIN_TIMES));
                *until_ns = (*until_ns).min(self.opened_ns + patience_ns);
            }
            State::Open(_) => {}
        }
    }

    /// Handles an event. Returns whether the connection has just opened.
    pub(super) fn note(&mut self, event: &Event, now_ns: u64) -> Result<bool, Gone> {
        self.is_at_end |= event.is_read_closed() || event.is_error();
        self.is_readable |= event.is_readable() || self.is_at_end;
        if event.is_writable() {
            self.is_full = false;
        }
        let State::Opening { stream, .. } = &self.state else { return Ok(false) };
        if !is_connected(stream).map_err(|_| Gone::Broken)? {
            return Ok(false);
        }
        let closed = State::Closed { until_ns: 0 };
        if let State::Opening { stream, .. } = std::mem::replace(&mut self.state, closed) {
            self.state = State::Open(stream);
            self.opening_took_ns = Some(now_ns.saturating_sub(self.opened_ns));
        }
        Ok(true)
    }

    /// Queues a query with this ID. Returns the length of the queue. Call it only if [`Self::takes`] returned true.
    #[inline]
    pub(super) fn push(&mut self, query: &[u8], id: u16, now_ns: u64) -> usize {
        if self.queued == 0 {
            self.queued_ns = now_ns;
        }
        self.queued += 1;
        self.queue.extend_from_slice(&short(query.len()).to_be_bytes());
        self.queue.extend_from_slice(&id.to_be_bytes());
        self.queue.extend_from_slice(&query[LENGTH_BYTES..]);
        self.queued
    }

    /// When the first query that is not flushed was queued, in nanoseconds.
    pub(super) fn waits_since_ns(&self) -> Option<u64> {
        (self.queued > 0).then_some(self.queued_ns)
    }

    /// Whether there are bytes that the kernel would take.
    pub(super) fn can_write(&self) -> bool {
        !self.is_full && self.written < self.queue.len()
    }

    /// Writes the queue, as far as the kernel takes it.
    pub(super) fn flush(&mut self, registry: &Registry) -> Result<(), Gone> {
        self.queued = 0;
        let State::Open(stream) = &mut self.state else { return Ok(()) };
        while !self.is_full && self.written < self.queue.len() {
            match stream.write(&self.queue[self.written..]) {
                Ok(bytes) => self.written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_full = true,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone::Broken),
            }
        }
        if self.is_full != self.is_watched {
            self.is_watched = self.is_full;
            stream
                .reregister(registry, self.token, stream.interest(self.is_full))
                .map_err(|_| Gone::Broken)?;
        }
        if self.written == self.queue.len() {
            self.queue.clear();
            self.written = 0;
        } else if self.written > QUEUE_MOST {
            self.queue.drain(..self.written);
            self.written = 0;
        }
        Ok(())
    }

    /// Whether there may be something to read.
    pub(super) fn is_readable(&self) -> bool {
        self.is_readable && self.is_open()
    }

    /// Fills `input`, which must have room for more than a frame, with the kept bytes and newly read ones. Returns
    /// the number of bytes. Pass unused bytes to [`Self::keep`].
    pub(super) fn read(&mut self, input: &mut [u8]) -> Result<usize, Gone> {
        let kept = self.partial.len();
        input[..kept].copy_from_slice(&self.partial);
        let State::Open(stream) = &mut self.state else { return Ok(kept) };
        loop {
            let room = &mut input[kept..];
            match stream.read(room) {
                Ok(0) => return Err(if kept == 0 { Gone::Ended } else { Gone::Broken }),
                Ok(bytes) => {
                    // A short read means that there was no more (epoll(7)), except for an end that was reported with
                    // it.
                    self.is_readable = bytes == room.len() || self.is_at_end;
                    return Ok(kept + bytes);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.is_readable = false;
                    return Ok(kept);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(Gone::Broken),
            }
        }
    }

    /// Keeps the beginning of a frame for the next read.
    pub(super) fn keep(&mut self, rest: &[u8]) {
        self.partial.clear();
        self.partial.extend_from_slice(rest);
    }

    /// Closes the connection and forgets its outstanding queries. It is opened again after a pause, which grows
    /// unless the connection was open for a while.
    pub(super) fn close(&mut self, registry: &Registry, now_ns: u64) {
        if self.is_open() && now_ns.saturating_sub(self.opened_ns) >= AGAIN_MOST_NS {
            self.wait_ns = 0;
        }
        let state = std::mem::replace(&mut self.state, State::Closed { until_ns: now_ns + self.wait_ns });
        if let State::Opening { mut stream, .. } | State::Open(mut stream) = state {
            // Closing the socket follows, which ends the registration too.
            let _ = stream.deregister(registry);
        }
        self.wait_ns = (self.wait_ns * 2).clamp(AGAIN_FIRST_NS, AGAIN_MOST_NS);
        self.ids = Ids::new();
        self.queue = Vec::new();
        (self.written, self.queued) = (0, 0);
        self.partial = Vec::new();
        (self.is_readable, self.is_at_end) = (false, false);
        (self.is_full, self.is_watched) = (false, false);
    }
}

/// Whether the process or the system has no file descriptor left.
fn is_no_room(error: &io::Error) -> bool {
    let name = error.raw_os_error().map(errno::name);
    name.is_some_and(|name| name == "EMFILE" || name == "ENFILE")
}

/// Whether a connection that was being opened is established. An error if it was refused.
fn is_connected(stream: &Stream) -> io::Result<bool> {
    let Stream::Tcp(stream) = stream else { return Ok(true) };
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        // If no program listens at the port, the connection itself may get this port and connect to itself (RFC
        // 9293, section 3.5, simultaneous open). It would then keep the back end from listening there again.
        Ok(peer) if peer == stream.local_addr()? => Err(ErrorKind::ConnectionRefused.into()),
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

fn connect(target: &Target) -> io::Result<Stream> {
    match target {
        Target::Udp(address) | Target::Tcp(address) => {
            let stream = TcpStream::connect(*address)?;
            // Whole batches are written, so delaying a small one gains nothing.
            stream.set_nodelay(true)?;
            Ok(Stream::Tcp(stream))
        }
        Target::Unix(path) => UnixStream::connect(path).map(Stream::Unix),
    }
}

/// Cuts off the first message. Returns the message, and its length including that of the length field. `None` if it
/// is incomplete; an error if its length is too small for a header.
#[inline]
pub(super) fn first_frame(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, Gone> {
    let announced = bytes.first_chunk().map(|&length| usize::from(u16::from_be_bytes(length)));
    if announced.is_some_and(|length| length < HEADER_BYTES) {
        return Err(Gone::Broken);
    }
    Ok(first_message(bytes).map(|message| (message, LENGTH_BYTES + message.len())))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use kqps_server::connections::frame::FRAME_BYTES;
    use mio::{Events, Poll};

    use super::*;

    #[test]
    fn frames_are_cut_one_by_one() {
        let bytes = [&[0, 12][..], &[1; 12], &[0, 13], &[2; 13], &[0, 14], &[3; 5]].concat();
        let (first, used) = first_frame(&bytes).unwrap().unwrap();
        assert_eq!((first, used), (&[1; 12][..], 14));
        let (second, more) = first_frame(&bytes[used..]).unwrap().unwrap();
        assert_eq!((second, more), (&[2; 13][..], 15));
        assert_eq!(first_frame(&bytes[used + more..]), Ok(None));
        assert_eq!(first_frame(&bytes[..1]), Ok(None));
        assert_eq!(first_frame(&[]), Ok(None));
        assert_eq!(first_frame(&[0, 11]), Err(Gone::Broken));
    }

    #[test]
    fn an_end_is_seen_that_comes_with_the_last_reply() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::Tcp(listener.local_addr().unwrap());
        let (mut poll, mut events) = (Poll::new().unwrap(), Events::with_capacity(8));
        let mut link = StreamLink::new(Token(0));
        link.open(&target, poll.registry(), 0).unwrap();
        let (mut back_end, _) = listener.accept().unwrap();
        back_end.write_all(&[0; 20]).unwrap();
        drop(back_end);
        let mut input = vec![0; 2 * FRAME_BYTES];
        loop {
            poll.poll(&mut events, Some(Duration::from_secs(10))).unwrap();
            assert!(!events.is_empty(), "the end was reported and is forgotten");
            for event in &events {
                link.note(event, 0).unwrap();
            }
            while link.is_readable() {
                match link.read(&mut input) {
                    Ok(bytes) => assert_eq!(bytes, 20),
                    Err(gone) => return assert_eq!(gone, Gone::Ended),
                }
            }
        }
    }

    /// Opens a link to a listener. Returns when the attempt ends if the back end is needed meanwhile.
    fn given_up_ns(link: &mut StreamLink, target: &Target, poll: &Poll, now_ns: u64) -> u64 {
        link.close(poll.registry(), now_ns);
        link.hasten(now_ns);
        link.open(target, poll.registry(), now_ns).unwrap();
        assert!(link.is_opening());
        link.hasten(now_ns);
        link.due_ns().unwrap()
    }

    #[test]
    fn opening_is_given_up_sooner_where_it_was_open_before() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::Tcp(listener.local_addr().unwrap());
        let (mut poll, mut events) = (Poll::new().unwrap(), Events::with_capacity(8));
        let mut link = StreamLink::new(Token(0));
        let second = 1_000_000_000;
        assert_eq!(given_up_ns(&mut link, &target, &poll, second), 2 * second, "it was never open");
        while link.is_opening() {
            poll.poll(&mut events, Some(Duration::from_secs(10))).unwrap();
            assert!(!events.is_empty(), "it never opens");
            for event in &events {
                link.note(event, second + 1_000).unwrap();
            }
        }
        assert_eq!(given_up_ns(&mut link, &target, &poll, 2 * second), 2 * second + 200_000_000);
        // If the round trip is long, opening gets the time that it needs.
        link.opening_took_ns = Some(80_000_000);
        assert_eq!(given_up_ns(&mut link, &target, &poll, 3 * second), 3 * second + 320_000_000);
    }
}

//! A client's connection: bytes received but not yet handed on, and replies that the client has not yet read. Both
//! are bounded.

use std::io::{self, ErrorKind, Read as _};
use std::net::IpAddr;

use kqps_server::connections::frame::FRAME_BYTES;
use kqps_server::connections::{Active, End, KeptConnection, Output, Stream};
use mio::event::Source as _;
use mio::{Interest, Registry, Token};

use crate::stream::first_frame;

/// Maximum number of outstanding queries of one connection. Further queries stay unread.
const OUTSTANDING_MOST: usize = 1024;

/// A connection with more bytes of unread replies is closed.
const OUTPUT_MOST: usize = 1 << 20;

/// With this many bytes of unread replies, no more queries are read from the connection.
const OUTPUT_PAUSE: usize = 1 << 16;

/// The memory for replies that a connection without replies keeps, in bytes.
const KEPT_BYTES: usize = 4096;

#[allow(clippy::struct_excessive_bools)] // each is a fact of its own, and every combination happens
pub(super) struct Connection {
    stream: Stream,
    client: Option<IpAddr>,
    /// Bytes that were read and not yet handed on.
    pub(super) input: Vec<u8>,
    /// Replies that are not written.
    pub(super) output: Output<KEPT_BYTES>,
    /// The number of its queries that are not answered.
    pub(super) outstanding: usize,
    /// When it last made progress, in nanoseconds.
    pub(super) active_ns: u64,
    pub(super) is_readable: bool,
    /// The client has closed its sending side.
    pub(super) is_at_end: bool,
    /// The client sent something that is not DNS: nothing more is read, and the connection is closed after its
    /// replies.
    pub(super) is_refused: bool,
    /// The kernel had no room.
    pub(super) is_full: bool,
    is_queued: bool,
    pub(super) is_unwritten: bool,
}

impl Active for Connection {
    fn active_ns(&self) -> u64 {
        self.active_ns
    }

    fn is_idle(&self) -> bool {
        // A new connection that has not had its turn may have sent a query already.
        !self.is_queued && self.outstanding == 0 && self.input.is_empty() && self.output.is_empty()
    }
}

impl KeptConnection for Connection {
    fn new(stream: Stream, client: Option<IpAddr>, now_ns: u64) -> Self {
        Self {
            stream,
            client,
            input: Vec::new(),
            output: Output::default(),
            outstanding: 0,
            active_ns: now_ns,
            // A query often arrives with the connection.
            is_readable: true,
            is_at_end: false,
            is_refused: false,
            is_full: false,
            is_queued: false,
            is_unwritten: false,
        }
    }

    fn client(&self) -> Option<IpAddr> {
        self.client
    }

    fn queued(&mut self) -> &mut bool {
        &mut self.is_queued
    }

    fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.stream.register(registry, token, Interest::READABLE | Interest::WRITABLE)
    }

    fn close(self, _: End) {}
}

impl Connection {
    /// Why the connection is over, if the client sends nothing more and has received all replies.
    pub(super) fn is_over(&self) -> Option<End> {
        let is_over = self.is_at_end && self.outstanding == 0 && self.output.is_empty() && !self.has_frame();
        is_over.then_some(if self.is_refused { End::NotDns } else { End::Peer })
    }

    /// How many more queries it may have outstanding.
    pub(super) fn room(&self) -> usize {
        if self.is_paused() { 0 } else { OUTSTANDING_MOST - self.outstanding }
    }

    /// Whether the client must read replies or wait for them before its next query is read.
    pub(super) fn is_paused(&self) -> bool {
        self.outstanding >= OUTSTANDING_MOST || self.output.len() >= OUTPUT_PAUSE
    }

    pub(super) fn has_more(&self) -> bool {
        self.is_readable || self.has_frame()
    }

    pub(super) fn has_frame(&self) -> bool {
        !matches!(first_frame(&self.input), Ok(None))
    }

    /// Fills `input` with the kept bytes and, unless those contain a whole query, with what can be read.
    pub(super) fn fill(&mut self, input: &mut [u8]) -> Result<usize, End> {
        let kept = self.input.len();
        input[..kept].copy_from_slice(&self.input);
        if !self.is_readable || self.is_at_end || self.is_paused() || self.has_frame() {
            return Ok(kept);
        }
        let room = &mut input[kept..][..FRAME_BYTES];
        match self.stream.read(room) {
            Ok(0) => (self.is_at_end, self.is_readable) = (true, false),
            Ok(bytes) => return Ok(kept + bytes),
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_readable = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(End::Broken),
        }
        Ok(kept)
    }

    /// Writes replies, as far as the kernel takes them.
    pub(super) fn write(&mut self, now_ns: u64) -> Result<(), End> {
        if !self.is_full && self.output.push(&mut self.stream)? {
            self.active_ns = now_ns;
        }
        self.is_full = !self.output.is_empty();
        if self.output.len() > OUTPUT_MOST { Err(End::Slow) } else { Ok(()) }
    }
}

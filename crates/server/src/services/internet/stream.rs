//! A connection of the server of many addresses: what it read, what it must still write, and who answers on it.

use std::io::{self, ErrorKind, Read as _};
use std::net::{IpAddr, Ipv4Addr};

use kqps_kernel::tcp::reset_at_close;
use mio::event::{Event, Source as _};
use mio::{Interest, Registry, Token};

use super::tree::{TcpConduct, Tree};
use crate::connections::frame::{FRAME_BYTES, first_message};
use crate::connections::{Active, End, KeptConnection, Output, Stream};

/// With so many queries under way, or so many bytes unread by the client, no further query is answered.
const OUTSTANDING_MOST: usize = 1024;
const OUTPUT_PAUSE: usize = 1 << 16;

/// With so many bytes of replies that the client has not read, or that wait for their time, no further query is read either.
const REPLIES_MOST: usize = 1 << 20;

#[allow(clippy::struct_excessive_bools)] // each is a fact of its own, and every combination happens
pub(super) struct InternetStream {
    stream: Stream,
    client: Option<IpAddr>,
    /// The address that the client connected to.
    pub(super) server: IpAddr,
    pub(super) conduct: TcpConduct,
    /// Whether its server is not known yet.
    pub(super) is_new: bool,
    /// Bytes that were read and not answered: a part of a query, or queries that came while too much waited.
    input: Vec<u8>,
    pub(super) output: Output<0>,
    /// Queries whose answers wait for their time.
    pub(super) outstanding: usize,
    /// Bytes of replies that wait for their time.
    pub(super) outstanding_bytes: usize,
    /// When the last piece of a slow reply is due.
    pub(super) busy_until_ns: u64,
    pub(super) active_ns: u64,
    is_readable: bool,
    is_at_end: bool,
    is_full: bool,
    is_queued: bool,
}

impl Active for InternetStream {
    fn active_ns(&self) -> u64 {
        self.active_ns
    }

    fn is_idle(&self) -> bool {
        !self.is_queued && self.outstanding == 0 && self.input.is_empty() && self.output.is_empty()
    }
}

impl KeptConnection for InternetStream {
    fn new(stream: Stream, client: Option<IpAddr>, now_ns: u64) -> Self {
        Self {
            stream,
            client,
            server: Ipv4Addr::UNSPECIFIED.into(),
            conduct: TcpConduct::Usual,
            is_new: true,
            input: Vec::new(),
            output: Output::default(),
            outstanding: 0,
            outstanding_bytes: 0,
            busy_until_ns: 0,
            active_ns: now_ns,
            // A query often arrives with the connection.
            is_readable: true,
            is_at_end: false,
            is_full: false,
            is_queued: false,
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

impl InternetStream {
    /// Finds out which server the client connected to, and how that treats connections. A connection that is refused will
    /// be reset.
    pub(super) fn begin(&mut self, tree: &dyn Tree) -> io::Result<TcpConduct> {
        let Stream::Tcp(stream) = &self.stream else {
            return Err(io::Error::other("a connection without an address"));
        };
        self.server = stream.local_addr()?.ip();
        self.conduct = tree.conduct(self.server);
        self.is_new = false;
        if matches!(self.conduct, TcpConduct::Refuse { .. }) {
            reset_at_close(stream)?;
        }
        Ok(self.conduct)
    }

    /// Notes an event.
    pub(super) fn note(&mut self, event: &Event) {
        self.is_readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.is_full &= !event.is_writable();
    }

    /// Fills `input` with the kept bytes and with what can be read now. Returns the number of bytes.
    pub(super) fn fill(&mut self, input: &mut [u8]) -> Result<usize, End> {
        let kept = self.input.len();
        input[..kept].copy_from_slice(&self.input);
        if !self.is_readable || self.is_at_end || self.is_paused() || self.has_query() {
            return Ok(kept);
        }
        match self.stream.read(&mut input[kept..kept + FRAME_BYTES]) {
            Ok(0) => (self.is_at_end, self.is_readable) = (true, false),
            Ok(bytes) => return Ok(kept + bytes),
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.is_readable = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(End::Broken),
        }
        Ok(kept)
    }

    /// Keeps bytes that were not answered.
    pub(super) fn keep(&mut self, rest: &[u8]) {
        self.input.clear();
        self.input.extend_from_slice(rest);
        if rest.is_empty() {
            // An idle connection holds no memory.
            self.input = Vec::new();
        }
    }

    /// Writes replies, as far as the kernel takes them.
    pub(super) fn write(&mut self, now_ns: u64) -> Result<(), End> {
        if self.output.is_empty() {
            return Ok(());
        }
        if !self.is_full && self.output.push(&mut self.stream)? {
            self.active_ns = now_ns;
        }
        self.is_full = !self.output.is_empty();
        Ok(())
    }

    /// Whether there may be something to read and to answer now.
    pub(super) fn can_go_on(&self) -> bool {
        !self.is_paused() && (self.has_query() || (self.is_readable && !self.is_at_end))
    }

    /// Whether so much waits that no further query is answered.
    pub(super) fn is_paused(&self) -> bool {
        self.outstanding >= OUTSTANDING_MOST
            || self.output.len() >= OUTPUT_PAUSE
            || self.output.len() + self.outstanding_bytes >= REPLIES_MOST
    }

    /// Whether a whole query is kept.
    fn has_query(&self) -> bool {
        first_message(&self.input).is_some()
    }

    /// Why the connection is over; `None` if it is not.
    pub(super) fn is_over(&self) -> Option<End> {
        let has_all = self.outstanding == 0 && self.output.is_empty() && !self.has_query();
        let is_over = self.is_at_end && has_all;
        is_over.then_some(End::Peer)
    }
}

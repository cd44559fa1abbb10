//! A connection of an attacker: its socket, what it sends, and how far it has come.

use std::collections::VecDeque;
use std::io;

use kqps_http::ResetSession;
use kqps_kernel::tcp_client::TcpClient;
use kqps_tls::{ClientTls, Failure};

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// TCP has not connected.
    Connecting,
    /// TLS shakes hands.
    Handshaking,
    /// TCP, and TLS if there is any, are complete.
    Open,
}

/// A connection that is being made, or is held.
pub(super) struct Connection {
    pub(super) socket: TcpClient,
    /// The number of its target.
    pub(super) target: usize,
    pub(super) stage: Stage,
    /// When the attempt began.
    pub(super) began_ns: u64,
    /// When TCP had connected; 0 before.
    pub(super) connected_ns: u64,
    /// Whether the kernel reports room to write.
    pub(super) awaits_room: bool,
    /// `None` without TLS.
    pub(super) tls: Option<Box<ClientTls>>,
    /// The streams; `None` unless it has any.
    pub(super) http: Option<Box<ResetSession>>,
    /// Bytes that the kernel has not taken, and how many it took before them.
    outgoing: Vec<u8>,
    taken: u64,
    /// Where each stream that is not out ends among all bytes.
    stream_ends: VecDeque<u64>,
    /// Streams that wait for the handshake.
    pub(super) waiting: u64,
    /// The rest of a query that is sent slowly, and when its next byte is due.
    pub(super) slow: VecDeque<u8>,
    pub(super) next_byte_ns: u64,
    /// The beginning of a DNS message.
    pub(super) partial: Vec<u8>,
    /// Whether the server takes no more streams, or none are left.
    pub(super) is_away: bool,
}

/// Bytes that the kernel took.
pub(super) struct Flushed {
    pub(super) bytes: u64,
    /// Streams that are out with them.
    pub(super) streams: u64,
    /// The error after these bytes, if there was one.
    pub(super) error: Option<io::Error>,
}

impl Connection {
    /// A connection to a target of this number that is being made since `began_ns`.
    pub(super) fn new(socket: TcpClient, target: usize, began_ns: u64) -> Self {
        Self {
            socket,
            target,
            stage: Stage::Connecting,
            began_ns,
            connected_ns: 0,
            awaits_room: true,
            tls: None,
            http: None,
            outgoing: Vec::new(),
            taken: 0,
            stream_ends: VecDeque::new(),
            waiting: 0,
            slow: VecDeque::new(),
            next_byte_ns: 0,
            partial: Vec::new(),
            is_away: false,
        }
    }

    /// Whether it has come as far as it will, and the kernel has taken its bytes.
    pub(super) fn is_settled(&self) -> bool {
        self.stage == Stage::Open && self.outgoing.is_empty()
    }

    /// When something is due, if attempts may take so long.
    pub(super) fn due_ns(&self, timeout_ns: u64) -> Option<u64> {
        match self.stage {
            Stage::Connecting | Stage::Handshaking => Some(self.began_ns.saturating_add(timeout_ns)),
            Stage::Open => (!self.slow.is_empty()).then_some(self.next_byte_ns),
        }
    }

    /// Bytes that the kernel has not taken.
    pub(super) fn unsent(&self) -> usize {
        self.outgoing.len()
    }

    /// Room for bytes that TLS has for the server.
    pub(super) fn with_outgoing<R>(
        &mut self,
        tls: impl FnOnce(Option<&mut ClientTls>, &mut Vec<u8>) -> R,
    ) -> R {
        tls(self.tls.as_deref_mut(), &mut self.outgoing)
    }

    /// Appends bytes for the server, encrypted if there is TLS.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if let Some(tls) = &mut self.tls {
            return tls.seal(bytes, &mut self.outgoing);
        }
        self.outgoing.extend_from_slice(bytes);
        Ok(())
    }

    /// Opens and resets a stream. Returns whether there was one left.
    pub(super) fn push_stream(&mut self, room: &mut Vec<u8>) -> Result<bool, Failure> {
        room.clear();
        let Some(http) = &mut self.http else { return Ok(false) };
        if !http.open_and_reset(room) {
            self.is_away = true;
            return Ok(false);
        }
        self.push(room)?;
        self.stream_ends.push_back(self.taken + self.outgoing.len() as u64);
        Ok(true)
    }

    /// Passes bytes to the kernel, as far as it has room.
    pub(super) fn flush(&mut self) -> Flushed {
        let (mut taken, mut streams, mut error) = (0, 0, None);
        while (taken as usize) < self.outgoing.len() && error.is_none() {
            match self.socket.write(&self.outgoing[taken as usize..]) {
                Ok(0) => break,
                Ok(bytes) => taken += bytes as u64,
                Err(failed) => error = Some(failed),
            }
        }
        self.outgoing.drain(..taken as usize);
        self.taken += taken;
        while self.stream_ends.front().is_some_and(|end| *end <= self.taken) {
            self.stream_ends.pop_front();
            streams += 1;
        }
        Flushed { bytes: taken, streams, error }
    }

    /// Streams that did not leave.
    pub(super) fn cut_off(&self) -> u64 {
        self.waiting + self.stream_ends.len() as u64
    }
}

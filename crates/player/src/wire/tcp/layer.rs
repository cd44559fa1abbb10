//! The layer between messages and the bytes of a connection: nothing, TLS, or HTTP/2 in TLS. A loop is compiled for
//! each, so that plain connections pay nothing for the others.

use std::io;
use std::net::IpAddr;

use kqps_kernel::tcp_client::{TcpClient, TcpRead};
use kqps_tls::Failure;

use super::frame::messages;
use crate::connections::{ConnectionCounts, Ending, TlsCounts};
use crate::loss::{Loss, by_failure};
use crate::reply::Cause;

/// The ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    /// The client: its address, if the kernel did not choose it.
    pub(super) from: Option<IpAddr>,
    /// The number of the target.
    pub(super) target: usize,
}

/// The layer between messages and the bytes of one connection.
pub(crate) trait Layer: Default {
    /// State that the connections of a thread share.
    type Shared;

    /// Whether each message has a stream of its own, which can end alone.
    const HAS_STREAMS: bool = false;

    /// Whether the bytes for the kernel are those of the messages.
    const IS_PLAIN: bool = false;

    /// The counts that it needs; `None` if it counts nothing.
    fn counts() -> Option<TlsCounts>;

    /// Begins, once TCP has connected a client to the target of this number. `waiting` are the messages that wait.
    fn begin(&mut self, shared: &Self::Shared, ends: Ends, waiting: &[u8]) -> Result<(), Fault>;

    /// Whether messages can pass.
    fn is_open(&self) -> bool;

    /// Whether messages may pass as early data, before it is open.
    #[inline]
    fn takes_early_data(&self) -> bool {
        false
    }

    /// Tickets that the target of this number has sent so far.
    fn tickets(shared: &Self::Shared, target: usize) -> u64;

    /// Counts that it has opened, after this time in microseconds.
    fn count_opened(&self, took_us: u64, counts: Option<&mut TlsCounts>);

    /// Whether it has something for the kernel beside new messages: bytes of a handshake, or messages that waited for
    /// it.
    fn has_own_bytes(&self) -> bool;

    /// The bytes for the kernel. If it is open, they are those of all `messages`, or of as many as there are streams
    /// for; the others stay. Before that they are those of messages that may be early data. A message that had to wait
    /// is dropped if its query, which has this key, is not `wanted` any more.
    fn outgoing<'a>(
        &'a mut self,
        messages: &'a mut Vec<u8>,
        now_ns: u64,
        wanted: impl FnMut(u16) -> bool,
    ) -> Result<&'a mut Vec<u8>, Fault>;

    /// The bytes of an earlier read that the next [`Self::take`] needs before those that arrived since.
    fn kept(&self) -> &[u8];

    /// Takes the bytes that it kept and those that arrived since, and calls `each` for everything that arrived whole.
    fn take(
        &mut self,
        bytes: &mut [u8],
        room: &mut Room,
        each: impl FnMut(Arrived<'_>),
    ) -> Result<Rest, Broken>;

    /// Calls `each` for every query that was lost alone since the last call, with its key.
    #[inline]
    fn each_lost(&mut self, each: impl FnMut(u16, Loss)) {
        let _ = each;
    }

    /// Whether the peer has said how many messages it takes at once, if it must.
    #[inline]
    fn has_settings(&self) -> bool {
        true
    }

    /// Whether further messages may be handed to the connection.
    #[inline]
    fn takes_more(&self) -> bool {
        true
    }

    /// Cancels messages whose queries are lost: those that it got before this time. Returns whether it must be asked for
    /// its bytes then.
    #[inline]
    fn abandon(&mut self, lost_before_ns: u64) -> bool {
        let _ = lost_before_ns;
        false
    }

    /// Whether the peer goes away, and has answered all that it will.
    #[inline]
    fn has_gone_away(&self) -> bool {
        false
    }

    /// Notes that the connection ends at `now_ns`, before [`Self::finish`]. `was_made` is whether it was counted as
    /// opened.
    #[inline]
    fn ended(&mut self, was_made: bool, now_ns: u64, counts: Option<&mut TlsCounts>) {
        let _ = (was_made, now_ns, counts);
    }

    /// The last bytes before the connection is closed. `has_failed` is whether the layer failed.
    fn last_bytes(&mut self, has_failed: bool) -> &[u8];

    /// Adds what the connections of a thread share to its counts, at the end of a trial.
    fn finish(shared: &Self::Shared, counts: &mut ConnectionCounts);
}

/// Room for the bytes of one read, and for the beginning of a reply or record before them.
const READ_BYTES: usize = 1 << 18;

/// Memory into which all connections of a thread read, one at a time.
pub(crate) struct Buffers {
    pub(super) bytes: Box<[u8]>,
    pub(super) room: Room,
}

/// Room to which layers write, one at a time.
#[derive(Default)]
pub(crate) struct Room {
    /// Messages that were decrypted.
    pub(super) plain: Vec<u8>,
    /// A message with its query's ID.
    pub(super) message: Vec<u8>,
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; READ_BYTES].into(), room: Room::default() }
    }

    /// Puts bytes that a layer kept at the beginning, and reads once from a socket behind them. The number of bytes
    /// that it returns includes both.
    #[inline]
    pub(super) fn fill(&mut self, kept: &[u8], socket: &TcpClient) -> io::Result<TcpRead> {
        self.bytes[..kept.len()].copy_from_slice(kept);
        let read = socket.read(&mut self.bytes[kept.len()..])?;
        Ok(match read {
            TcpRead::Bytes { bytes, arrived_ns } => TcpRead::Bytes { bytes: kept.len() + bytes, arrived_ns },
            nothing => nothing,
        })
    }

    /// Puts bytes that a layer kept at the beginning, and these behind them. Returns both, and room for the layer.
    pub(super) fn join(&mut self, kept: &[u8], bytes: &[u8]) -> (&mut [u8], &mut Room) {
        let whole = &mut self.bytes[..kept.len() + bytes.len()];
        let (first, second) = whole.split_at_mut(kept.len());
        first.copy_from_slice(kept);
        second.copy_from_slice(bytes);
        (whole, &mut self.room)
    }
}

/// Something that arrived whole.
#[derive(Debug)]
pub(crate) enum Arrived<'a> {
    /// A message, whose ID says which query it answers.
    Message(&'a [u8]),
    /// A reply to the query with this key, which is wrong by what carried it.
    Wrong {
        /// The query's key.
        key: u16,
        /// Why it is wrong.
        cause: Cause,
    },
}

/// The rest after the last whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing more has arrived.
    Nothing,
    /// The peer closed its direction.
    End,
    /// The peer takes no more messages, and has answered all that it will.
    GoneAway,
}

/// Why nothing more can be read.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The socket returned an error, which ends the connection so.
    Socket(Ending),
    /// The layer failed.
    Layer(Fault),
}

/// Why a layer failed.
#[derive(Debug)]
pub(crate) enum Fault {
    Tls(Failure),
    /// HTTP/2 failed, and the layer has counted by what.
    Http,
}

impl Fault {
    /// The cause for which queries are lost, if it fails in the making of a connection.
    pub(super) fn loss(&self) -> Loss {
        match self {
            Self::Tls(failure) => by_failure(failure),
            Self::Http => Loss::Framing,
        }
    }

    /// How it ends a connection.
    pub(super) fn ending(&self) -> Ending {
        match self {
            Self::Tls(failure) => Ending::from_failure(failure),
            Self::Http => Ending::Framing,
        }
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self::Tls(failure)
    }
}

impl From<kqps_http::Failure> for Fault {
    fn from(_: kqps_http::Failure) -> Self {
        Self::Http
    }
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Self {
        Self::Layer(fault)
    }
}

/// No layer: messages are the bytes of the connection.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    /// The beginning of a reply.
    partial: Vec<u8>,
}

impl Layer for Plain {
    type Shared = ();

    const IS_PLAIN: bool = true;

    fn counts() -> Option<TlsCounts> {
        None
    }

    fn begin(&mut self, (): &(), _: Ends, _: &[u8]) -> Result<(), Fault> {
        Ok(())
    }

    #[inline]
    fn is_open(&self) -> bool {
        true
    }

    fn tickets((): &(), _: usize) -> u64 {
        0
    }

    fn count_opened(&self, _: u64, _: Option<&mut TlsCounts>) {}

    #[inline]
    fn has_own_bytes(&self) -> bool {
        false
    }

    #[inline]
    fn outgoing<'a>(
        &'a mut self,
        messages: &'a mut Vec<u8>,
        _: u64,
        _: impl FnMut(u16) -> bool,
    ) -> Result<&'a mut Vec<u8>, Fault> {
        Ok(messages)
    }

    #[inline]
    fn kept(&self) -> &[u8] {
        &self.partial
    }

    #[inline]
    fn take(
        &mut self,
        bytes: &mut [u8],
        _: &mut Room,
        mut each: impl FnMut(Arrived<'_>),
    ) -> Result<Rest, Broken> {
        let rest = messages(bytes, |reply| each(Arrived::Message(reply)));
        self.partial.clear();
        self.partial.extend_from_slice(rest);
        Ok(Rest::Nothing)
    }

    fn last_bytes(&mut self, _: bool) -> &[u8] {
        &[]
    }

    fn finish((): &(), _: &mut ConnectionCounts) {}
}

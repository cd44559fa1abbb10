//! What lies between messages and the bytes of a connection: nothing, or TLS. A loop is compiled for each, so that
//! plain connections pay nothing for the other.

use kqps_kernel::tcp_client::{TcpClient, TcpRead};
use kqps_tls::Failure;

use super::frame::messages;
use crate::connections::TlsCounts;

/// What lies between messages and the bytes of one connection.
pub(crate) trait Layer: Default {
    /// What the connections of a thread share.
    type Shared;

    /// The counts that it needs; `None` if it counts nothing.
    fn counts() -> Option<TlsCounts>;

    /// Begins, once TCP has connected to the target of this number.
    fn begin(&mut self, shared: &Self::Shared, target: usize) -> Result<(), Failure>;

    /// Whether messages can pass.
    fn is_open(&self) -> bool;

    /// Tickets that the target of this number has sent so far.
    fn tickets(shared: &Self::Shared, target: usize) -> u64;

    /// Counts that it has opened, after this time in microseconds.
    fn count_opened(&self, took_us: u64, counts: Option<&mut TlsCounts>);

    /// Whether it has bytes of its own for the kernel, such as those of a handshake.
    fn has_own_bytes(&self) -> bool;

    /// The bytes for the kernel. If it is open, they are all of `messages`.
    fn outgoing<'a>(&'a mut self, messages: &'a mut Vec<u8>) -> Result<&'a mut Vec<u8>, Failure>;

    /// Reads once, and calls `each` for every whole message, with the kernel's time of arrival of the last byte that it
    /// read.
    fn read(
        &mut self,
        socket: &TcpClient,
        buffers: &mut Buffers,
        each: impl FnMut(&[u8], Option<u64>),
    ) -> Result<Rest, Broken>;

    /// The last bytes before the connection is closed. `has_failed` is whether the layer failed.
    fn last_bytes(&mut self, has_failed: bool) -> &[u8];

    /// Adds what the connections of a thread share to its counts, at the end of a trial.
    fn finish(shared: &Self::Shared, counts: Option<&mut TlsCounts>);
}

/// Room for the bytes of one read, and for the beginning of a reply or record before them.
const READ_BYTES: usize = 1 << 18;

/// What all connections of a thread read into, one at a time.
pub(crate) struct Buffers {
    pub(super) bytes: Box<[u8]>,
    /// Messages that were decrypted.
    pub(super) plain: Vec<u8>,
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; READ_BYTES].into(), plain: Vec::new() }
    }
}

/// What a read found after the last whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing more has arrived.
    Nothing,
    /// There may be more.
    More,
    /// The peer closed its direction.
    End,
}

/// Why nothing more can be read.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The socket returned an error.
    Socket,
    /// TLS failed.
    Tls(Failure),
}

/// No layer: messages are the bytes of the connection.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    /// The beginning of a reply.
    partial: Vec<u8>,
}

impl Layer for Plain {
    type Shared = ();

    fn counts() -> Option<TlsCounts> {
        None
    }

    fn begin(&mut self, (): &(), _: usize) -> Result<(), Failure> {
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
    fn outgoing<'a>(&'a mut self, messages: &'a mut Vec<u8>) -> Result<&'a mut Vec<u8>, Failure> {
        Ok(messages)
    }

    #[inline]
    fn read(
        &mut self,
        socket: &TcpClient,
        buffers: &mut Buffers,
        mut each: impl FnMut(&[u8], Option<u64>),
    ) -> Result<Rest, Broken> {
        let buffer = &mut buffers.bytes;
        let kept = self.partial.len();
        buffer[..kept].copy_from_slice(&self.partial);
        let (bytes, arrived_ns) = match socket.read(&mut buffer[kept..]).map_err(|_| Broken::Socket)? {
            TcpRead::Nothing => return Ok(Rest::Nothing),
            TcpRead::End => return Ok(Rest::End),
            TcpRead::Bytes { bytes, arrived_ns } => (bytes, arrived_ns),
        };
        let is_full = kept + bytes == buffer.len();
        let rest = messages(&buffer[..kept + bytes], |reply| each(reply, arrived_ns));
        self.partial.clear();
        self.partial.extend_from_slice(rest);
        Ok(if is_full { Rest::More } else { Rest::Nothing })
    }

    fn last_bytes(&mut self, _: bool) -> &[u8] {
        &[]
    }

    fn finish((): &(), _: Option<&mut TlsCounts>) {}
}

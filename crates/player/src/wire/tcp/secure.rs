//! TLS between messages and the bytes of a connection (RFC 7858).

use kqps_kernel::tcp_client::{TcpClient, TcpRead};
use kqps_tls::{ClientTls, Connector, Failure, Peer};

use super::frame::messages;
use super::layer::{Arrived, Broken, Buffers, Fault, Layer, Rest};
use crate::connections::{ConnectionCounts, TlsCounts};

/// The TLS of one connection.
#[derive(Default)]
pub(crate) struct Secure {
    /// `None` until TCP has connected.
    tls: Option<ClientTls>,
    /// The beginning of a reply.
    partial: Vec<u8>,
    /// Records that the kernel has not taken.
    outgoing: Vec<u8>,
}

impl Layer for Secure {
    /// What makes the TLS of connections to each target.
    type Shared = Vec<Connector>;

    fn counts() -> Option<TlsCounts> {
        Some(TlsCounts::default())
    }

    fn begin(&mut self, connectors: &Vec<Connector>, target: usize) -> Result<(), Fault> {
        self.tls = Some(connectors[target].connect(&mut self.outgoing)?);
        Ok(())
    }

    #[inline]
    fn is_open(&self) -> bool {
        self.tls.as_ref().is_some_and(ClientTls::is_established)
    }

    fn tickets(connectors: &Vec<Connector>, target: usize) -> u64 {
        connectors[target].tickets().received
    }

    fn count_opened(&self, took_us: u64, counts: Option<&mut TlsCounts>) {
        if let (Some(tls), Some(counts)) = (&self.tls, counts) {
            counts.opened(&tls.session(), took_us);
        }
    }

    #[inline]
    fn has_own_bytes(&self) -> bool {
        !self.outgoing.is_empty()
    }

    #[inline]
    fn outgoing<'a>(&'a mut self, messages: &'a mut Vec<u8>, _: u64) -> Result<&'a mut Vec<u8>, Fault> {
        if let Some(tls) = self.tls.as_mut().filter(|tls| tls.is_established() && !messages.is_empty()) {
            tls.seal(messages, &mut self.outgoing)?;
            messages.clear();
        }
        Ok(&mut self.outgoing)
    }

    fn read(
        &mut self,
        socket: &TcpClient,
        buffers: &mut Buffers,
        mut each: impl FnMut(Arrived<'_>, Option<u64>),
    ) -> Result<Rest, Broken> {
        let (arrived_ns, opened, is_full) = match self.decrypt(socket, buffers)? {
            Decrypted::Nothing => return Ok(Rest::Nothing),
            Decrypted::End => return Ok(Rest::End),
            Decrypted::Bytes { arrived_ns, opened, is_full } => (arrived_ns, opened, is_full),
        };
        // What the peer sent before TLS failed is whole.
        let rest = messages(&buffers.plain, |reply| each(Arrived::Message(reply), arrived_ns));
        self.partial.clear();
        self.partial.extend_from_slice(rest);
        rest_of(opened, is_full)
    }

    fn last_bytes(&mut self, has_failed: bool) -> &[u8] {
        if let Some(tls) = self.tls.as_mut().filter(|tls| !has_failed && tls.is_established()) {
            tls.close(&mut self.outgoing);
        }
        &self.outgoing
    }

    fn finish(connectors: &Vec<Connector>, counts: &mut ConnectionCounts) {
        let Some(counts) = &mut counts.tls else { return };
        for tickets in connectors.iter().map(Connector::tickets) {
            counts.tickets.received += tickets.received;
            counts.tickets.offered += tickets.offered;
        }
    }
}

/// What a read brought.
pub(super) enum Decrypted {
    /// Nothing.
    Nothing,
    /// The end.
    End,
    /// Records. What they hold stands in `plain` of the buffers, after the beginning of a reply.
    Bytes {
        /// The kernel's time of arrival.
        arrived_ns: Option<u64>,
        /// Whether the peer may still send, or why TLS failed after what was decrypted.
        opened: Result<Peer, Failure>,
        /// Whether the read filled its buffer.
        is_full: bool,
    },
}

impl Secure {
    /// Reads once, and decrypts what arrived.
    #[inline]
    pub(super) fn decrypt(&mut self, socket: &TcpClient, buffers: &mut Buffers) -> Result<Decrypted, Broken> {
        let Some(tls) = &mut self.tls else { return Ok(Decrypted::Nothing) };
        let Buffers { bytes: buffer, plain, .. } = buffers;
        let kept = tls.kept().len();
        buffer[..kept].copy_from_slice(tls.kept());
        let (bytes, arrived_ns) = match socket.read(&mut buffer[kept..]).map_err(|_| Broken::Socket)? {
            TcpRead::Nothing => return Ok(Decrypted::Nothing),
            TcpRead::End => return Ok(Decrypted::End),
            TcpRead::Bytes { bytes, arrived_ns } => (bytes, arrived_ns),
        };
        let is_full = kept + bytes == buffer.len();
        plain.clear();
        plain.extend_from_slice(&self.partial);
        let opened = tls.open(&mut buffer[..kept + bytes], plain, &mut self.outgoing);
        Ok(Decrypted::Bytes { arrived_ns, opened, is_full })
    }

    /// Encrypts bytes for the kernel, once the handshake is complete.
    pub(super) fn seal(&mut self, plain: &[u8]) -> Result<(), Failure> {
        match self.tls.as_mut().filter(|tls| tls.is_established()) {
            Some(tls) => tls.seal(plain, &mut self.outgoing),
            None => Ok(()),
        }
    }

    /// Records that the kernel has not taken.
    pub(super) fn outgoing_mut(&mut self) -> &mut Vec<u8> {
        &mut self.outgoing
    }

    /// The application protocol that the handshake agreed on.
    pub(super) fn protocol(&self) -> Option<&[u8]> {
        self.tls.as_ref().and_then(ClientTls::protocol)
    }
}

/// What follows a read whose records were decrypted with this outcome.
#[inline]
pub(super) fn rest_of(opened: Result<Peer, Failure>, is_full: bool) -> Result<Rest, Broken> {
    match opened {
        Ok(Peer::Closed) => Ok(Rest::End),
        Ok(Peer::Open) if is_full => Ok(Rest::More),
        Ok(Peer::Open) => Ok(Rest::Nothing),
        Err(failure) => Err(Fault::Tls(failure).into()),
    }
}

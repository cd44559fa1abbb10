//! TLS between messages and the bytes of a connection (RFC 7858).

use kqps_kernel::tcp_client::{TcpClient, TcpRead};
use kqps_tls::{ClientTls, Connector, Failure, Peer};

use super::frame::messages;
use super::layer::{Broken, Buffers, Layer, Rest};
use crate::connections::TlsCounts;

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

    fn begin(&mut self, connectors: &Vec<Connector>, target: usize) -> Result<(), Failure> {
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
    fn outgoing<'a>(&'a mut self, messages: &'a mut Vec<u8>) -> Result<&'a mut Vec<u8>, Failure> {
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
        mut each: impl FnMut(&[u8], Option<u64>),
    ) -> Result<Rest, Broken> {
        let Some(tls) = &mut self.tls else { return Ok(Rest::Nothing) };
        let Buffers { bytes: buffer, plain } = buffers;
        let kept = tls.kept().len();
        buffer[..kept].copy_from_slice(tls.kept());
        let (bytes, arrived_ns) = match socket.read(&mut buffer[kept..]).map_err(|_| Broken::Socket)? {
            TcpRead::Nothing => return Ok(Rest::Nothing),
            TcpRead::End => return Ok(Rest::End),
            TcpRead::Bytes { bytes, arrived_ns } => (bytes, arrived_ns),
        };
        let is_full = kept + bytes == buffer.len();
        plain.clear();
        plain.extend_from_slice(&self.partial);
        let opened = tls.open(&mut buffer[..kept + bytes], plain, &mut self.outgoing);
        // What the peer sent before TLS failed is whole.
        let rest = messages(plain, |reply| each(reply, arrived_ns));
        self.partial.clear();
        self.partial.extend_from_slice(rest);
        match opened {
            Ok(Peer::Closed) => Ok(Rest::End),
            Ok(Peer::Open) if is_full => Ok(Rest::More),
            Ok(Peer::Open) => Ok(Rest::Nothing),
            Err(failure) => Err(Broken::Tls(failure)),
        }
    }

    fn last_bytes(&mut self, has_failed: bool) -> &[u8] {
        if let Some(tls) = self.tls.as_mut().filter(|tls| !has_failed && tls.is_established()) {
            tls.close(&mut self.outgoing);
        }
        &self.outgoing
    }

    fn finish(connectors: &Vec<Connector>, counts: Option<&mut TlsCounts>) {
        let Some(counts) = counts else { return };
        for tickets in connectors.iter().map(Connector::tickets) {
            counts.tickets.received += tickets.received;
            counts.tickets.offered += tickets.offered;
        }
    }
}

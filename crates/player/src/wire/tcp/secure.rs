//! TLS between messages and the bytes of a connection (RFC 7858).

use kqps_tls::{ClientTls, Connector, Failure, Peer};

use super::frame::messages;
use super::layer::{Arrived, Broken, Fault, Layer, Rest, Room};
use crate::connections::{ConnectionCounts, TlsCounts};

/// A peer that asks for more answers of TLS or HTTP/2 than this, and reads none of them, ends the connection, bytes.
/// They are more than what one read can ask for.
const UNREAD_MOST: usize = 1 << 20;

/// What such a peer does, in words.
pub(super) const UNREAD: &str = "the peer does not read what it asks for";

/// The TLS of one connection.
#[derive(Default)]
pub(crate) struct Secure {
    /// `None` until TCP has connected.
    tls: Option<ClientTls>,
    /// The beginning of a reply.
    partial: Vec<u8>,
    /// Records that the kernel has not taken.
    outgoing: Vec<u8>,
    /// How many bytes of them, at most, answer what the peer asked for beside queries: in TLS new keys, in HTTP/2
    /// settings and pings.
    answers: usize,
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
    fn outgoing<'a>(
        &'a mut self,
        messages: &'a mut Vec<u8>,
        _: u64,
        _: impl FnMut(u16) -> bool,
    ) -> Result<&'a mut Vec<u8>, Fault> {
        if let Some(tls) = self.tls.as_mut().filter(|tls| tls.is_established() && !messages.is_empty()) {
            tls.seal(messages, &mut self.outgoing)?;
            messages.clear();
        }
        Ok(&mut self.outgoing)
    }

    #[inline]
    fn kept(&self) -> &[u8] {
        self.tls.as_ref().map_or(&[][..], ClientTls::kept)
    }

    fn take(
        &mut self,
        bytes: &mut [u8],
        room: &mut Room,
        mut each: impl FnMut(Arrived<'_>),
    ) -> Result<Rest, Broken> {
        let before = self.outgoing.len();
        let opened = self.decrypt(bytes, room);
        // What the peer sent before TLS failed is whole.
        let rest = messages(&room.plain, |reply| each(Arrived::Message(reply)));
        self.partial.clear();
        self.partial.extend_from_slice(rest);
        let rest = rest_of(opened)?;
        if self.has_room_for_answers(before) {
            Ok(rest)
        } else {
            Err(Fault::Tls(Failure::Protocol(UNREAD.into())).into())
        }
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

impl Secure {
    /// Decrypts records that arrived, after those that TLS kept. What they hold then stands in `plain`, after the
    /// beginning of a reply, also if TLS failed after it. Returns whether the peer may still send.
    #[inline]
    pub(super) fn decrypt(&mut self, records: &mut [u8], room: &mut Room) -> Result<Peer, Failure> {
        room.plain.clear();
        room.plain.extend_from_slice(&self.partial);
        match &mut self.tls {
            Some(tls) => tls.open(records, &mut room.plain, &mut self.outgoing),
            None => Ok(Peer::Open),
        }
    }

    /// Notes that a read appended answers for the peer to the `before` bytes that waited for the kernel. Returns
    /// whether so few answers of earlier reads still waited that the peer may be reading.
    #[inline]
    pub(super) fn has_room_for_answers(&mut self, before: usize) -> bool {
        let unread = self.answers.min(before);
        self.answers = unread + (self.outgoing.len() - before);
        unread <= UNREAD_MOST
    }

    /// Bytes that the kernel has not taken.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.outgoing.len()
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

/// What follows records that were decrypted with this outcome.
#[inline]
pub(super) fn rest_of(opened: Result<Peer, Failure>) -> Result<Rest, Broken> {
    match opened {
        Ok(Peer::Closed) => Ok(Rest::End),
        Ok(Peer::Open) => Ok(Rest::Nothing),
        Err(failure) => Err(Fault::Tls(failure).into()),
    }
}

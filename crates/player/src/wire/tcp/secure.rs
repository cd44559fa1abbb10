//! TLS between messages and the bytes of a connection (RFC 7858).

use kqps_message::may_be_replayed;
use kqps_tls::{ClientTls, Connector, Early, Failure, Peer};

use super::early_bytes::EarlyBytes;
use super::frame::{LENGTH_BYTES, first_message, frames, messages};
use super::layer::{Arrived, Broken, Ends, Fault, Layer, Rest, Room};
use crate::connections::{ConnectionCounts, TlsCounts};

/// A peer that asks for more answers of TLS or HTTP/2 than this, and reads none of them, ends the connection, bytes.
/// They are more than what one read can ask for.
const UNREAD_MOST: usize = 1 << 20;

/// The fault of such a peer, in words.
pub(super) const UNREAD: &str = "the peer does not read what it asks for";

/// State that the connections of a thread share.
pub(crate) struct Shared {
    /// Maker of the TLS of connections, by target.
    pub(super) connectors: Vec<Connector>,
    /// Whether messages that leave together share records.
    pub(super) packing: bool,
}

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
    /// `None` if it has none.
    early: Option<Box<EarlyBytes>>,
    /// Whether messages that leave together share records.
    packing: bool,
}

impl Layer for Secure {
    type Shared = Shared;

    fn counts() -> Option<TlsCounts> {
        Some(TlsCounts::default())
    }

    fn begin(&mut self, shared: &Shared, ends: Ends, waiting: &[u8]) -> Result<(), Fault> {
        // Early data is offered for a message alone.
        let is_early = first_message(waiting).is_some_and(may_be_replayed);
        self.packing = shared.packing;
        let tls = shared.connectors[ends.target].connect_from(ends.from, is_early, &mut self.outgoing)?;
        self.early = (tls.early_bytes() > 0).then(Box::default);
        self.tls = Some(tls);
        Ok(())
    }

    #[inline]
    fn is_open(&self) -> bool {
        self.tls.as_ref().is_some_and(ClientTls::is_established)
    }

    #[inline]
    fn takes_early_data(&self) -> bool {
        self.early_bytes_left() > 0
    }

    fn tickets(shared: &Shared, target: usize) -> u64 {
        shared.connectors[target].tickets().received
    }

    fn count_opened(&self, took_us: u64, counts: Option<&mut TlsCounts>) {
        if let (Some(tls), Some(counts)) = (&self.tls, counts) {
            counts.opened(&tls.session(), took_us);
            match tls.early() {
                Early::None => {}
                Early::Accepted => counts.early.accepted += 1,
                Early::Offered => counts.early.rejected += 1,
            }
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
            if self.packing {
                tls.seal(messages, &mut self.outgoing)?;
            } else {
                tls.seal_each(frames(messages), &mut self.outgoing)?;
            }
            messages.clear();
        } else if !messages.is_empty() && self.takes_early_data() {
            self.seal_early_messages(messages)?;
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
        // Bytes that the peer sent before TLS failed are whole.
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

    fn ended(&mut self, was_made: bool, _: u64, counts: Option<&mut TlsCounts>) {
        if let (Some(early), Some(counts)) = (&self.early, counts) {
            counts.early.undecided += u64::from(!was_made);
            counts.early.queries += early.queries;
            counts.early.queries_again += early.again;
        }
    }

    fn last_bytes(&mut self, has_failed: bool) -> &[u8] {
        if let Some(tls) = self.tls.as_mut().filter(|tls| !has_failed && tls.is_established()) {
            tls.close(&mut self.outgoing);
        }
        &self.outgoing
    }

    fn finish(shared: &Shared, counts: &mut ConnectionCounts) {
        let Some(counts) = &mut counts.tls else { return };
        for tickets in shared.connectors.iter().map(Connector::tickets) {
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
        let Some(tls) = &mut self.tls else { return Ok(Peer::Open) };
        let peer = tls.open(records, &mut room.plain, &mut self.outgoing)?;
        if let Some(early) = self.early.as_mut().filter(|_| tls.is_established()) {
            let parts = early.settle(tls.early() == Early::Accepted);
            if !parts.is_empty() {
                tls.seal_each(parts.iter().map(Vec::as_slice), &mut self.outgoing)?;
            }
        }
        Ok(peer)
    }

    /// Bytes that may still leave as early data.
    #[inline]
    pub(super) fn early_bytes_left(&self) -> usize {
        let has_all_left = self.early.as_ref().is_some_and(|early| early.has_all_left());
        self.tls.as_ref().filter(|_| has_all_left).map_or(0, ClientTls::early_bytes)
    }

    /// Encrypts the first messages as early data, as far as they may be replayed and there is room for them.
    fn seal_early_messages(&mut self, messages: &mut Vec<u8>) -> Result<(), Failure> {
        let (mut sealed, mut used) = (0, 0);
        while let Some(message) = first_message(&messages[used..]).filter(|message| may_be_replayed(message))
        {
            let end = used + LENGTH_BYTES + message.len();
            if end - sealed > self.early_bytes_left() {
                break;
            }
            used = end;
            self.note_early(1);
            if !self.packing {
                self.seal_early(&messages[sealed..used])?;
                sealed = used;
            }
        }
        if sealed < used {
            self.seal_early(&messages[sealed..used])?;
        }
        messages.drain(..used);
        Ok(())
    }

    /// Encrypts bytes as early data, as far as there is room. What is left follows when the handshake is complete.
    fn seal_early(&mut self, plain: &[u8]) -> Result<(), Failure> {
        let left = self.early_bytes_left();
        let (Some(tls), Some(early)) = (&mut self.tls, &mut self.early) else { return Ok(()) };
        let taken = plain.len().min(left);
        if taken > 0 {
            tls.seal_early(&plain[..taken], &mut self.outgoing)?;
        }
        early.keep(plain, taken);
        Ok(())
    }

    /// Counts queries that left as early data.
    pub(super) fn note_early(&mut self, queries: u64) {
        if let Some(early) = &mut self.early {
            early.queries += queries;
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

    /// Whether messages that leave together share records.
    #[inline]
    pub(super) fn packing(&self) -> bool {
        self.packing
    }

    /// Bytes that the kernel has not taken.
    #[inline]
    pub(super) fn waiting(&self) -> usize {
        self.outgoing.len()
    }

    /// Encrypts bytes for the kernel, as early data until the handshake is complete.
    pub(super) fn seal(&mut self, plain: &[u8]) -> Result<(), Failure> {
        match self.tls.as_mut().filter(|tls| tls.is_established()) {
            Some(tls) => tls.seal(plain, &mut self.outgoing),
            None => self.seal_early(plain),
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

/// The rest after records that were decrypted with this outcome.
#[inline]
pub(super) fn rest_of(opened: Result<Peer, Failure>) -> Result<Rest, Broken> {
    match opened {
        Ok(Peer::Closed) => Ok(Rest::End),
        Ok(Peer::Open) => Ok(Rest::Nothing),
        Err(failure) => Err(Fault::Tls(failure).into()),
    }
}

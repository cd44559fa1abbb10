//! The TLS of one connection. Records come from the caller's buffer and are decrypted there; an idle connection keeps
//! the beginning of a record and no other buffer.

use std::ops::DerefMut;

use rustls::client::{ClientConnectionData, EarlyDataError, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, ReadEarlyData, UnbufferedConnectionCommon,
    UnbufferedStatus, WriteTraffic,
};

use crate::failure::Failure;
use crate::last_flight::LastFlight;
use crate::session::{Kind, Session};
use crate::skipped::WholeRecords;

/// The TLS of a client's connection.
pub type ClientTls = Tls<UnbufferedClientConnection>;

/// The TLS of a server's connection.
pub type ServerTls = Tls<UnbufferedServerConnection>;

/// More bytes of a record, or of a handshake message in many records, are an error. A record has at most 18 KiB, and a
/// message of the handshake at most 64 KiB in the limits of rustls.
const KEPT_MOST: usize = 1 << 17;

/// The first room for a message of the handshake.
const HANDSHAKE_BYTES: usize = 512;

/// The most bytes of messages in a record (RFC 8446, section 5.1), and room for what a record adds to them: header,
/// type and tag.
const FRAGMENT_BYTES: usize = 1 << 14;
const RECORD_BYTES: usize = 32;

/// Bytes that a record of early data adds: its type and its tag (RFC 8446, section 5.2). They count against the
/// ticket's limit here. The limit is one of the data alone (RFC 8446, section 4.2.10), but a server that rejects early
/// data may skip no more than that of encrypted records, as rustls does, and ends the connection otherwise.
const EARLY_RECORD_BYTES: usize = 17;

/// The room for an alert.
const ALERT_BYTES: usize = 64;

/// An end of a connection, as rustls has it.
pub trait Side: DerefMut<Target = UnbufferedConnectionCommon<Self::Data>> {
    /// Data that rustls keeps for this end alone.
    type Data: 'static;

    /// Whether early data may arrive that is skipped.
    const SKIPS_EARLY_DATA: bool = false;

    /// Takes records until there is something to do.
    fn process<'c, 'i>(&'c mut self, records: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// Appends early data that arrived to `plain`.
    fn read_early(data: ReadEarlyData<'_, '_, Self::Data>, plain: &mut Vec<u8>) -> Result<(), Failure>;
}

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, records: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(records)
    }

    /// No server sends any.
    fn read_early(_: ReadEarlyData<'_, '_, Self::Data>, _: &mut Vec<u8>) -> Result<(), Failure> {
        Ok(())
    }
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    const SKIPS_EARLY_DATA: bool = true;

    fn process<'c, 'i>(&'c mut self, records: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(records)
    }

    fn read_early(mut data: ReadEarlyData<'_, '_, Self::Data>, plain: &mut Vec<u8>) -> Result<(), Failure> {
        while let Some(record) = data.next_record() {
            plain.extend_from_slice(record?.payload);
        }
        Ok(())
    }
}

/// The TLS of one connection, at the end `S` of it.
pub struct Tls<S> {
    side: S,
    /// Bytes that arrived and that rustls has not taken: the beginning of a record, or of a message of the handshake.
    kept: Vec<u8>,
    /// Bytes at the beginning of `kept` that are whole records, while the handshake of a server is under way.
    kept_record_bytes: usize,
    /// Whether it failed. Rustls then takes no more bytes.
    has_failed: bool,
    /// Bytes that the records of early data may still have.
    early_record_bytes: usize,
    early: Early,
    /// The encrypted records of the client's handshake, while it is not known what became of its early data.
    last_flight: Option<LastFlight>,
}

/// Early data (0-RTT) of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Early {
    /// The client offered none, or over TCP sent none.
    None,
    /// The client offered it, and the server did not take it, or has not yet.
    Offered,
    /// The server took it.
    Accepted,
}

/// Whether the peer may still send messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// It may.
    Open,
    /// It sent `close_notify`.
    Closed,
}

/// The next step of a connection, as rustls says.
enum Step {
    /// Another call.
    Again,
    /// Another call. Rustls tried all whole records, and what it has for the peer was sent.
    Sent,
    /// More bytes. Rustls tried all whole records.
    Wait,
    /// The peer sent `close_notify`.
    PeerClosed,
    Failed(Failure),
}

impl<S: Side> Tls<S> {
    pub(crate) fn new(side: S) -> Self {
        Self {
            side,
            kept: Vec::new(),
            kept_record_bytes: 0,
            has_failed: false,
            early_record_bytes: 0,
            early: Early::None,
            last_flight: None,
        }
    }

    /// Bytes that the next [`Self::open`] needs before those that arrived since.
    pub fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// Whether the handshake is complete.
    #[inline]
    pub fn is_established(&self) -> bool {
        !self.side.is_handshaking()
    }

    /// The application protocol that the handshake agreed on (ALPN); `None` before its end, or if it agreed on none.
    pub fn protocol(&self) -> Option<&[u8]> {
        self.side.alpn_protocol()
    }

    /// The session on which the handshake agreed; meaningful once it is complete.
    pub fn session(&self) -> Session {
        let session = Session::from_state(&self.side);
        let kind = if self.early == Early::Accepted { Kind::Early } else { session.kind };
        Session { kind, ..session }
    }

    /// The suite of TLS 1.3 that the handshake agreed on.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn suite(&self) -> Option<&'static rustls::Tls13CipherSuite> {
        self.side.negotiated_cipher_suite().and_then(|suite| suite.tls13())
    }

    /// The state of early data; final once the handshake is complete.
    pub fn early(&self) -> Early {
        self.early
    }

    /// Takes records: the bytes of [`Self::kept`] and those that arrived since. Appends the bytes of messages to
    /// `plain`, those of early data if the handshake is not complete then, and what must be sent to `outgoing`; after a
    /// failure that is the alert for the peer.
    ///
    /// # Errors
    ///
    /// If the peer sent an alert, or something that TLS forbids, or a certificate that is not accepted. The connection
    /// then has ended.
    pub fn open(
        &mut self,
        records: &mut [u8],
        plain: &mut Vec<u8>,
        outgoing: &mut Vec<u8>,
    ) -> Result<Peer, Failure> {
        self.check()?;
        self.early_record_bytes = 0;
        let whole = if S::SKIPS_EARLY_DATA && !self.is_established() {
            WholeRecords::from_bytes(records, self.kept_record_bytes)
        } else {
            WholeRecords::default()
        };
        let (mut used, mut peer) = (0, Peer::Open);
        loop {
            let (taken, step) = self.step(&mut records[used..], plain, outgoing);
            used += taken;
            match step {
                Step::Again => {}
                Step::Sent => used = whole.skipped_from(records, used),
                Step::Wait => {
                    used = whole.skipped_from(records, used);
                    break;
                }
                Step::PeerClosed => peer = Peer::Closed,
                Step::Failed(failure) => {
                    // The handshake may have been completed before.
                    let _ = self.decide_early();
                    self.has_failed = true;
                    self.append_alert(&mut records[used..], outgoing);
                    return Err(failure);
                }
            }
        }
        self.kept_record_bytes = whole.bytes_from(used);
        self.keep(&records[used..])?;
        self.decide_early()?;
        Ok(peer)
    }

    /// Finds out what became of early data, once the handshake is complete.
    #[inline]
    fn decide_early(&mut self) -> Result<(), Failure> {
        if self.last_flight.is_none() || !self.is_established() {
            return Ok(());
        }
        let Some(flight) = self.last_flight.take() else { return Ok(()) };
        let is_resumed = Session::from_state(&self.side).kind == Kind::Resumed;
        match flight.took_early_data(is_resumed) {
            Some(true) => self.early = Early::Accepted,
            Some(false) => {}
            None => {
                self.has_failed = true;
                return Err(Failure::Protocol(format!("what became of early data is unknown: {flight:?}")));
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Failure> {
        if self.has_failed { Err(Failure::Protocol("the connection has failed".into())) } else { Ok(()) }
    }

    fn keep(&mut self, rest: &[u8]) -> Result<(), Failure> {
        if rest.len() > KEPT_MOST {
            self.has_failed = true;
            return Err(Failure::Protocol("a message of the handshake is too long".into()));
        }
        if rest.is_empty() {
            self.kept = Vec::new();
        } else {
            self.kept.clear();
            self.kept.extend_from_slice(rest);
        }
        Ok(())
    }

    /// Does one thing. Returns how many bytes of the records are not needed any more.
    #[inline]
    fn step(&mut self, records: &mut [u8], plain: &mut Vec<u8>, outgoing: &mut Vec<u8>) -> (usize, Step) {
        let UnbufferedStatus { mut discard, state } = self.side.process(records);
        let step = match state {
            Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                let mut step = Step::Again;
                while let Some(record) = traffic.next_record() {
                    match record {
                        Ok(record) => {
                            plain.extend_from_slice(record.payload);
                            discard += record.discard;
                        }
                        Err(error) => {
                            step = Step::Failed(error.into());
                            break;
                        }
                    }
                }
                step
            }
            Ok(ConnectionState::ReadEarlyData(data)) => {
                self.early = Early::Accepted;
                S::read_early(data, plain).map_or_else(Step::Failed, |()| Step::Again)
            }
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                let start = outgoing.len();
                encode(&mut data, outgoing);
                if let Some(flight) = &mut self.last_flight {
                    flight.note(&outgoing[start..]);
                }
                Step::Again
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done();
                Step::Sent
            }
            Ok(ConnectionState::PeerClosed) => Step::PeerClosed,
            // The handshake waits for the peer, or messages may be sent, or both sides have closed.
            Ok(_) => Step::Wait,
            Err(error) => Step::Failed(error.into()),
        };
        (discard, step)
    }

    /// Appends the alert that rustls has for the peer after a failure, if it has one.
    fn append_alert(&mut self, records: &mut [u8], outgoing: &mut Vec<u8>) {
        while self.side.wants_write() {
            match self.side.process(records).state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, outgoing),
                _ => break,
            }
        }
    }

    /// Appends records with these bytes of messages to `outgoing`: as few as hold them. Call it once the handshake is
    /// complete, or after early data arrived.
    ///
    /// # Errors
    ///
    /// If the keys are used up, or the handshake is not complete.
    #[inline]
    pub fn seal(&mut self, plain: &[u8], outgoing: &mut Vec<u8>) -> Result<(), Failure> {
        self.seal_each([plain], outgoing)
    }

    /// Appends records as [`Self::seal`] does. Each of these parts has records of its own.
    #[inline]
    pub fn seal_each<'p>(
        &mut self,
        parts: impl IntoIterator<Item = &'p [u8]>,
        outgoing: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        self.write(outgoing, |traffic, outgoing| {
            parts.into_iter().try_for_each(|plain| encrypt(traffic, plain, outgoing))
        })
    }

    /// Appends `close_notify` to `outgoing`, if the handshake is complete: no more messages follow.
    pub fn close(&mut self, outgoing: &mut Vec<u8>) {
        // A connection that has failed closes without it.
        let _ = self.write(outgoing, |traffic, outgoing| {
            let start = outgoing.len();
            outgoing.resize(start + ALERT_BYTES, 0);
            let written = traffic.queue_close_notify(&mut outgoing[start..]).unwrap_or(0);
            outgoing.truncate(start + written);
            Ok(())
        });
    }

    fn write(
        &mut self,
        outgoing: &mut Vec<u8>,
        write: impl FnOnce(&mut WriteTraffic<'_, S::Data>, &mut Vec<u8>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.check()?;
        loop {
            match self.side.process(&mut self.kept).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => return write(&mut traffic, outgoing),
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, outgoing),
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(_) => return Err(Failure::Protocol("the connection takes no messages".into())),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl ClientTls {
    /// Begins a handshake, whose first bytes it appends to `outgoing`. Early data may follow them, if rustls offers it, in
    /// records of `early_bytes` at most.
    pub(crate) fn begin(
        side: UnbufferedClientConnection,
        early_bytes: usize,
        outgoing: &mut Vec<u8>,
    ) -> Result<Self, Failure> {
        let mut tls = Self::new(side);
        loop {
            match tls.side.process(&mut []).state? {
                ConnectionState::EncodeTlsData(mut data) => encode(&mut data, outgoing),
                ConnectionState::TransmitTlsData(mut data) => {
                    if early_bytes > EARLY_RECORD_BYTES && data.may_encrypt_early_data().is_some() {
                        // Rustls takes early data until it hears that its first messages were sent. The first bytes
                        // that arrive say so.
                        (tls.early, tls.early_record_bytes) = (Early::Offered, early_bytes);
                        tls.last_flight = Some(LastFlight::default());
                        return Ok(tls);
                    }
                    data.done();
                }
                _ => return Ok(tls),
            }
        }
    }

    /// Bytes of early data that [`Self::seal_early`] still takes.
    #[inline]
    pub fn early_bytes(&self) -> usize {
        self.early_record_bytes.saturating_sub(added_to_early(self.early_record_bytes))
    }

    /// Appends records with these bytes, as early data, to `outgoing`. Each record adds 17 bytes, which count against the
    /// limit. The server may reject them, and they must then be sent again.
    ///
    /// # Panics
    ///
    /// If there are more of them than [`Self::early_bytes`].
    pub fn seal_early(&mut self, plain: &[u8], outgoing: &mut Vec<u8>) -> Result<(), Failure> {
        assert!(plain.len() <= self.early_bytes(), "more early data than allowed");
        self.check()?;
        let record_bytes = plain.len() + added_to_early(plain.len());
        self.early_record_bytes = self.early_record_bytes.saturating_sub(record_bytes);
        let state = self.side.process(&mut []).state?;
        let ConnectionState::TransmitTlsData(mut data) = state else {
            return Err(Failure::Protocol("the connection takes no early data".into()));
        };
        let Some(mut early) = data.may_encrypt_early_data() else {
            return Err(Failure::Protocol("the connection takes no early data".into()));
        };
        let start = outgoing.len();
        outgoing.resize(start + room_for(plain), 0);
        let sealed = early.encrypt(plain, &mut outgoing[start..]);
        outgoing.truncate(start + sealed.as_ref().map_or(0, |written| *written));
        match sealed {
            Ok(_) => Ok(()),
            Err(EarlyDataError::ExceededAllowedEarlyData) => {
                Err(Failure::Protocol("more early data than allowed".into()))
            }
            Err(EarlyDataError::Encrypt(error)) => Err(Failure::Protocol(error.to_string())),
        }
    }
}

/// Bytes that records add to so many bytes of early data.
fn added_to_early(bytes: usize) -> usize {
    EARLY_RECORD_BYTES * (1 + bytes / FRAGMENT_BYTES)
}

/// The room for records with these bytes of messages.
fn room_for(plain: &[u8]) -> usize {
    plain.len() + RECORD_BYTES * (1 + plain.len() / FRAGMENT_BYTES)
}

/// Appends a record of the handshake, or an alert.
fn encode<D>(data: &mut EncodeTlsData<'_, D>, outgoing: &mut Vec<u8>) {
    let start = outgoing.len();
    let mut room = HANDSHAKE_BYTES;
    loop {
        outgoing.resize(start + room, 0);
        match data.encode(&mut outgoing[start..]) {
            Ok(written) => return outgoing.truncate(start + written),
            Err(EncodeError::InsufficientSize(needed)) => room = needed.required_size,
            Err(EncodeError::AlreadyEncoded) => return outgoing.truncate(start),
        }
    }
}

/// Appends records with these bytes of messages.
#[inline]
fn encrypt<D>(
    traffic: &mut WriteTraffic<'_, D>,
    plain: &[u8],
    outgoing: &mut Vec<u8>,
) -> Result<(), Failure> {
    let start = outgoing.len();
    let mut room = room_for(plain);
    loop {
        outgoing.resize(start + room, 0);
        match traffic.encrypt(plain, &mut outgoing[start..]) {
            Ok(written) => {
                outgoing.truncate(start + written);
                return Ok(());
            }
            Err(EncryptError::InsufficientSize(needed)) => room = needed.required_size,
            Err(EncryptError::EncryptExhausted) => {
                outgoing.truncate(start);
                return Err(Failure::Protocol("the keys are used up".into()));
            }
        }
    }
}

#[cfg(test)]
mod tests;

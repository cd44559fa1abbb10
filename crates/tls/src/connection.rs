//! The TLS of one connection. Records come from the caller's buffer and are decrypted there; an idle connection keeps
//! the beginning of a record and no other buffer.

use std::ops::DerefMut;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedConnectionCommon, UnbufferedStatus,
    WriteTraffic,
};

use crate::failure::Failure;
use crate::session::Session;

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

/// The room for an alert.
const ALERT_BYTES: usize = 64;

/// One end of a connection, as rustls has it.
pub trait Side: DerefMut<Target = UnbufferedConnectionCommon<Self::Data>> {
    /// What rustls keeps for this end alone.
    type Data: 'static;

    /// Takes records until there is something to do.
    fn process<'c, 'i>(&'c mut self, records: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, records: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(records)
    }
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, records: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(records)
    }
}

/// The TLS of one connection, at the end `S` of it.
pub struct Tls<S> {
    side: S,
    /// Bytes that arrived and that rustls has not taken: the beginning of a record, or of a message of the handshake.
    kept: Vec<u8>,
    /// Whether it failed. Rustls then takes no more bytes.
    has_failed: bool,
}

/// Whether the peer may still send messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// It may.
    Open,
    /// It sent `close_notify`.
    Closed,
}

/// What rustls needs next.
enum Step {
    /// Another call.
    Again,
    /// More bytes.
    Wait,
    /// The peer sent `close_notify`.
    PeerClosed,
    Failed(Failure),
}

impl<S: Side> Tls<S> {
    pub(crate) fn new(side: S) -> Self {
        Self { side, kept: Vec::new(), has_failed: false }
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

    /// What the handshake agreed on; meaningful once it is complete.
    pub fn session(&self) -> Session {
        Session::of(&self.side)
    }

    /// Takes records: the bytes of [`Self::kept`] and those that arrived since. Appends the bytes of messages to
    /// `plain`, and what must be sent to `outgoing`; after a failure that is the alert for the peer.
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
        let (mut used, mut peer) = (0, Peer::Open);
        loop {
            let (taken, step) = self.step(&mut records[used..], plain, outgoing);
            used += taken;
            match step {
                Step::Again => {}
                Step::Wait => break,
                Step::PeerClosed => peer = Peer::Closed,
                Step::Failed(failure) => {
                    self.has_failed = true;
                    self.append_alert(&mut records[used..], outgoing);
                    return Err(failure);
                }
            }
        }
        self.keep(&records[used..])?;
        Ok(peer)
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
            Ok(ConnectionState::EncodeTlsData(mut data)) => {
                encode(&mut data, outgoing);
                Step::Again
            }
            Ok(ConnectionState::TransmitTlsData(data)) => {
                data.done();
                Step::Again
            }
            Ok(ConnectionState::PeerClosed) => Step::PeerClosed,
            // The handshake waits for the peer, or messages may be sent, or both sides have closed. Early data is off.
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

    /// Appends records with these bytes of messages to `outgoing`. Call it once the handshake is complete.
    ///
    /// # Errors
    ///
    /// If the keys are used up, or the handshake is not complete.
    #[inline]
    pub fn seal(&mut self, plain: &[u8], outgoing: &mut Vec<u8>) -> Result<(), Failure> {
        self.write(outgoing, |traffic, outgoing| encrypt(traffic, plain, outgoing))
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
        write: impl Fn(&mut WriteTraffic<'_, S::Data>, &mut Vec<u8>) -> Result<(), Failure>,
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
    let mut room = plain.len() + RECORD_BYTES * (1 + plain.len() / FRAGMENT_BYTES);
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

//! Events of connections: TCP connects or not, TLS shakes hands, the kernel has room, and the server sends or ends
//! something.

use std::io;

use kqps_catalogue::Hostile;
use kqps_kernel::clock;
use kqps_kernel::epoll::{Interest, Ready};
use kqps_kernel::tcp_client::TcpRead;
use kqps_tls::Failure;

use super::Connections;
use crate::connections::Ending;
use crate::hostile::connection::Stage;
use crate::hostile::key::place;
use crate::hostile::queries::messages;
use crate::loss::{Loss, by_error, by_failure};

/// Reads of one connection before others have their turn.
const READS: usize = 4;

impl Connections<'_> {
    /// Handles an event.
    pub(super) fn handle(&mut self, event: Ready) {
        let (at, now_ns) = (place(event.key), clock::now_ns());
        if self.key(at) != event.key {
            return;
        }
        let Some(connection) = &self.places[at].connection else { return };
        if connection.stage == Stage::Connecting {
            if event.writable {
                self.tried(at, connection.socket.outcome(), now_ns);
            }
            return;
        }
        if event.readable {
            self.read(at, now_ns);
        }
        // The place may have another connection by now.
        if event.writable && self.key(at) == event.key {
            self.flush(at, now_ns);
        }
    }

    /// Takes the outcome of connecting.
    fn tried(&mut self, at: usize, outcome: io::Result<()>, now_ns: u64) {
        let ended = match outcome {
            Ok(()) => false,
            // A server that refuses does so before the connection is made, and one that resets does it after.
            Err(error) if is_reset(&error) => true,
            Err(error) => return self.failed(at, by_error(&error), now_ns),
        };
        let Some(connection) = &mut self.places[at].connection else { return };
        connection.connected_ns = now_ns;
        connection.stage = Stage::Open;
        self.counts.facts.connections.connected += 1;
        if ended {
            return self.ended(at, Ending::Reset, now_ns);
        }
        match self.kind() {
            Hostile::Reset => {
                self.counts.facts.connections.closed_by_player += 1;
                self.take(at);
            }
            Hostile::Idle => self.watch(at),
            _ if self.connectors.is_empty() => self.opened(at, now_ns),
            _ => self.shake_hands(at, now_ns),
        }
    }

    /// Begins a handshake of TLS.
    fn shake_hands(&mut self, at: usize, now_ns: u64) {
        let Some(connection) = &mut self.places[at].connection else { return };
        if let Some(handshakes) = &mut self.counts.facts.handshakes {
            handshakes.begun += 1;
        }
        connection.stage = Stage::Handshaking;
        let connector = &self.connectors[connection.target];
        match connection.with_outgoing(|_, outgoing| connector.connect(outgoing)) {
            Ok(tls) => {
                connection.tls = Some(Box::new(tls));
                self.flush(at, now_ns);
                self.schedule(at);
            }
            Err(failure) => self.tls_failed(at, &failure, now_ns),
        }
    }

    /// Does what the attacker wants of a connection, once it can.
    fn opened(&mut self, at: usize, now_ns: u64) {
        let kind = self.kind();
        let framed = if kind.has_queries() { self.queries.next() } else { Vec::new() };
        let Some(connection) = &mut self.places[at].connection else { return };
        connection.stage = Stage::Open;
        match kind {
            Hostile::Half => {
                let message_bytes = framed.len() - LENGTH_BYTES;
                let pushed = connection.push(&framed[..LENGTH_BYTES + message_bytes / 2]);
                self.pushed(at, pushed, now_ns);
            }
            Hostile::Slow => {
                connection.slow = framed.into();
                self.send_byte(at, now_ns);
                self.schedule(at);
            }
            Hostile::Streams => self.open_streams(at, now_ns),
            Hostile::Idle | Hostile::Handshake | Hostile::Reset | Hostile::Initials => self.flush(at, now_ns),
        }
    }

    /// Passes on bytes that were pushed, or ends the connection if that failed.
    pub(super) fn pushed(&mut self, at: usize, pushed: Result<(), Failure>, now_ns: u64) {
        match pushed {
            Ok(()) => self.flush(at, now_ns),
            Err(failure) => self.tls_failed(at, &failure, now_ns),
        }
    }

    /// Passes bytes to the kernel, as far as it has room.
    pub(super) fn flush(&mut self, at: usize, now_ns: u64) {
        let Some(connection) = &mut self.places[at].connection else { return };
        let flushed = connection.flush();
        self.counts.passed(flushed.bytes, flushed.streams);
        let is_done = connection.is_away && connection.unsent() == 0;
        match flushed.error {
            Some(error) => self.broke(at, &error, now_ns),
            None if is_done => self.close(at),
            None => self.watch(at),
        }
    }

    /// Asks the kernel to report room, if bytes wait for it.
    fn watch(&mut self, at: usize) {
        let key = self.key(at);
        let Some(connection) = &mut self.places[at].connection else { return };
        let awaits_room = connection.unsent() > 0;
        if connection.awaits_room != awaits_room {
            connection.awaits_room = awaits_room;
            let interest = if awaits_room { Interest::Both } else { Interest::Read };
            // A watched socket can be watched for something else, as long as it is open.
            let _ = self.epoll.change(&connection.socket, key, interest);
        }
    }

    /// Reads what has arrived.
    fn read(&mut self, at: usize, now_ns: u64) {
        for _ in 0..READS {
            let Some(connection) = &self.places[at].connection else { return };
            let kept = connection.tls.as_ref().map_or(&[][..], |tls| tls.kept());
            let kept_bytes = kept.len();
            self.buffer[..kept_bytes].copy_from_slice(kept);
            match connection.socket.read(&mut self.buffer[kept_bytes..]) {
                Ok(TcpRead::Nothing) => return,
                Ok(TcpRead::End) => return self.ended(at, Ending::Closed, now_ns),
                Ok(TcpRead::Bytes { bytes, .. }) => self.arrived(at, kept_bytes + bytes, now_ns),
                Err(error) => return self.broke(at, &error, now_ns),
            }
        }
    }

    /// Takes bytes that stand in the buffer.
    fn arrived(&mut self, at: usize, bytes: usize, now_ns: u64) {
        let Some(connection) = &mut self.places[at].connection else { return };
        self.plain.clear();
        if connection.tls.is_none() {
            self.plain.extend_from_slice(&self.buffer[..bytes]);
            return self.answered(at, now_ns);
        }
        let (buffer, plain) = (&mut self.buffer[..bytes], &mut self.plain);
        let opened = connection.with_outgoing(|tls, outgoing| {
            tls.map_or(Ok(()), |tls| tls.open(buffer, plain, outgoing).map(drop))
        });
        let is_made = connection.tls.as_ref().is_some_and(|tls| tls.is_established());
        if is_made && connection.stage == Stage::Handshaking {
            if let Some(handshakes) = &mut self.counts.facts.handshakes {
                handshakes.done += 1;
            }
            self.opened(at, now_ns);
        }
        if !self.plain.is_empty() {
            self.answered(at, now_ns);
        }
        match opened {
            Ok(()) => self.flush(at, now_ns),
            Err(failure) => self.tls_failed(at, &failure, now_ns),
        }
    }

    /// Takes what the server sent, as it stands in `plain`.
    fn answered(&mut self, at: usize, now_ns: u64) {
        let Some(connection) = &mut self.places[at].connection else { return };
        if connection.http.is_some() {
            return self.frames_arrived(at, now_ns);
        }
        let count = messages(&mut connection.partial, &self.plain);
        self.counts.replied("message", count);
    }

    /// TLS failed. The alert for the server leaves if it can.
    fn tls_failed(&mut self, at: usize, failure: &Failure, now_ns: u64) {
        let Some(connection) = &mut self.places[at].connection else { return };
        let flushed = connection.flush();
        self.counts.passed(flushed.bytes, flushed.streams);
        if connection.stage == Stage::Handshaking {
            self.counts.handshake_failed(Loss::NAMES[by_failure(failure).number()]);
            self.pause(at, now_ns);
            self.close(at);
        } else {
            self.ended(at, Ending::from_failure(failure), now_ns);
        }
    }

    /// The socket returned an error.
    fn broke(&mut self, at: usize, error: &io::Error, now_ns: u64) {
        let ending = if is_reset(error) { Ending::Reset } else { Ending::of_error(error) };
        self.ended(at, ending, now_ns);
    }
}

/// Bytes of a message's length before it.
const LENGTH_BYTES: usize = 2;

/// Whether the peer reset a connection. The kernel reports a broken pipe if the peer had closed its direction before.
fn is_reset(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

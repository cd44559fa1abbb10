//! Streams of HTTP/2 that are reset as soon as they are opened, many on each connection.

use kqps_http::ResetSession;

use super::Connections;
use crate::connections::Ending;
use crate::hostile::connection::Stage;

/// Streams that wait for the handshake of their connection, at most.
const WAITING_MOST: u64 = 100;

/// Bytes that wait for the kernel, at most, before a connection takes no stream.
const UNSENT_MOST: usize = 1 << 16;

/// Places that are asked for room for a stream.
const PLACES_ASKED: usize = 64;

/// How long no connection is made at a place after one could not be, nanoseconds.
const PAUSE_NS: u64 = 100_000_000;

impl Connections<'_> {
    /// Begins a stream at the next place that has room, and makes a connection there if there is none.
    pub(super) fn begin_stream(&mut self, now_ns: u64) -> bool {
        for _ in 0..self.places.len().min(PLACES_ASKED) {
            let at = self.turn;
            self.turn = (self.turn + 1) % self.places.len();
            if self.takes_stream(at, now_ns) {
                self.stream(at, now_ns);
                return true;
            }
        }
        false
    }

    /// Whether a place has room for a stream.
    fn takes_stream(&self, at: usize, now_ns: u64) -> bool {
        let place = &self.places[at];
        match &place.connection {
            None => place.paused_until_ns <= now_ns,
            Some(connection) if connection.stage == Stage::Open => {
                !connection.is_away && connection.unsent() < UNSENT_MOST
            }
            Some(connection) => connection.waiting < WAITING_MOST,
        }
    }

    fn stream(&mut self, at: usize, now_ns: u64) {
        if let Some(streams) = &mut self.counts.facts.streams {
            streams.begun += 1;
        }
        if self.places[at].connection.is_none() {
            self.connect(at, now_ns);
        }
        match &mut self.places[at].connection {
            Some(connection) => {
                connection.waiting += 1;
                if connection.stage == Stage::Open {
                    self.send_streams(at, now_ns);
                }
            }
            None => {
                if let Some(streams) = &mut self.counts.facts.streams {
                    streams.cut_off += 1;
                }
            }
        }
    }

    /// Begins HTTP/2 on a connection whose handshake is complete.
    pub(super) fn open_streams(&mut self, at: usize, now_ns: u64) {
        let Some(connection) = &mut self.places[at].connection else { return };
        let Some(http) = self.http else { return };
        let session = ResetSession::new(&http.authorities[connection.target], &http.paths[connection.target]);
        let mut first = Vec::new();
        session.begin(&mut first);
        connection.http = Some(Box::new(session));
        match connection.push(&first) {
            Ok(()) => self.send_streams(at, now_ns),
            failed => self.pushed(at, failed, now_ns),
        }
    }

    /// Sends the streams that wait.
    fn send_streams(&mut self, at: usize, now_ns: u64) {
        let Some(connection) = &mut self.places[at].connection else { return };
        let mut pushed = Ok(true);
        while connection.waiting > 0 && pushed == Ok(true) {
            pushed = connection.push_stream(&mut self.room);
            connection.waiting -= u64::from(pushed == Ok(true));
        }
        self.pushed(at, pushed.map(drop), now_ns);
    }

    /// Takes the frames of the server that stand in `plain`.
    pub(super) fn frames_arrived(&mut self, at: usize, now_ns: u64) {
        let Some(connection) = &mut self.places[at].connection else { return };
        let Some(mut http) = connection.http.take() else { return };
        let (counts, mut answers, mut is_away) = (&mut self.counts, Vec::new(), false);
        let received = http.receive(&self.plain, &mut answers, |frame| {
            counts.replied(frame.name, 1);
            if let Some(reason) = frame.away {
                crate::connections::count(&mut counts.facts.goaways, &reason, 1);
                is_away = true;
            }
        });
        connection.http = Some(http);
        connection.is_away |= is_away;
        if received.is_err() {
            return self.ended(at, Ending::Framing, now_ns);
        }
        let pushed = if answers.is_empty() { Ok(()) } else { connection.push(&answers) };
        self.pushed(at, pushed, now_ns);
    }

    /// Makes no connection at a place for a while.
    pub(super) fn pause(&mut self, at: usize, now_ns: u64) {
        self.places[at].paused_until_ns = now_ns + PAUSE_NS;
    }
}

//! How connections of QUIC end.

use std::time::Instant;

use bytes::Bytes;
use quinn_proto::{StreamId, VarInt};

use super::{Connection, EXCESSIVE_LOAD, INTERNAL_ERROR, NO_ERROR, Piece, whole};
use crate::streams::fault::Fault;
use crate::streams::quic::line::Line;
use crate::streams::reply;
use crate::streams::shared::Shared;

impl Connection {
    /// Ends the connection, instead of a reply or after it.
    pub(super) fn end(
        &mut self,
        fault: Fault,
        stream: StreamId,
        query: Vec<u8>,
        shared: &mut Shared,
        line: &mut Line,
        at: Instant,
    ) {
        // A connection that has ended sends no reply that was written before. A query that waits for a stateless reset
        // must not be acknowledged, so that the player sends it again.
        if fault != Fault::Reset {
            self.transmit(line, at);
        }
        match fault {
            Fault::HalfClose => {
                self.reply(&whole(stream, &reply::right(query)));
                self.transmit(line, at);
                self.close(NO_ERROR, shared, at);
            }
            Fault::Framing => {
                self.ending = Some("framing");
                note_end("DoQ: a stream ended before its reply did", shared);
                let frame = whole(stream, &reply::right(query)).bytes;
                let half = frame[..frame.len() / 2].to_vec();
                // The player ends the connection, so that all that it sent before is read.
                self.write(&Piece { stream, bytes: half, is_last: true, query: None });
            }
            Fault::Reset => {
                self.ending = Some("reset");
                note_end("stateless reset", shared);
                self.finish(shared);
            }
            Fault::CloseFailed => {
                note_end("closed with 0x1 (DOQ_INTERNAL_ERROR)", shared);
                self.close(INTERNAL_ERROR, shared, at);
            }
            Fault::CloseLoaded => {
                note_end("closed with 0x4 (DOQ_EXCESSIVE_LOAD)", shared);
                self.close(EXCESSIVE_LOAD, shared, at);
            }
            _ => self.close(NO_ERROR, shared, at),
        }
    }

    /// Closes the connection, since the server refuses connections for a while.
    pub(in super::super) fn refuse(&mut self, shared: &mut Shared, at: Instant) {
        if self.ending.is_none() && !self.has_ended {
            self.close(NO_ERROR, shared, at);
        }
    }

    /// Closes the connection with a code.
    fn close(&mut self, code: u32, shared: &mut Shared, at: Instant) {
        // Without an error and without open queries it was not needed any more.
        let is_idle = code == NO_ERROR && self.open == 0;
        self.ending = Some(if is_idle { "idle" } else { "quic-close" });
        self.inner.close(at, VarInt::from_u32(code), Bytes::new());
        self.finish(shared);
    }

    /// Takes no more notice of the connection, whose player does not learn that.
    pub(super) fn fall_silent(&mut self, shared: &mut Shared) {
        self.is_silent = true;
        self.ending = Some("idle-timeout");
        self.finish(shared);
    }

    /// QUIC reports the end of the connection.
    pub(super) fn lost(&mut self, shared: &mut Shared) {
        let is_refused = self.spoiled.is_some_and(|fault| fault != Fault::Silent);
        if is_refused {
            // The end of the attempt is counted with its fault.
            self.has_ended = true;
        }
        self.finish(shared);
    }

    /// Counts how the connection ended, and its queries without a reply, unless that was done before.
    pub(in super::super) fn finish(&mut self, shared: &mut Shared) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let counts = &mut shared.counts;
        let waiting = self.later.len() + self.joined.len() + usize::from(self.after_next.is_some());
        counts.pending += waiting as u64;
        counts.unacknowledged += self.unacknowledged.len() as u64;
        match self.ending {
            Some(cause) => counts.close(cause, self.open),
            None => counts.lose("time", self.open),
        }
    }
}

/// Counts an end that the player reports in these words.
fn note_end(words: &'static str, shared: &mut Shared) {
    *shared.counts.ends.entry(words).or_default() += 1;
}

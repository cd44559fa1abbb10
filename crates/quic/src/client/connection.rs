//! A connection of a client: queries to streams, and replies from them.

use std::time::Instant;

use bytes::Bytes;
use kqps_message::may_be_replayed;
use kqps_tls::{Failure, Kind, Session};
use quinn_proto::{ConnectionHandle, Dir, Event, ReadError, StreamEvent, StreamId};

use super::streams::{Stream, Streams};
use super::{ClientEvent, EarlyData};
use crate::code;
use crate::end::End;
use crate::frames::append;
use crate::session::Agreed;

/// The first byte of a Retry packet of QUIC version 1, without its unused bits, and the version after it (RFC 9000,
/// section 17.2.5).
const RETRY: u8 = 0xf0;
const VERSION_BYTES: [u8; 4] = [0, 0, 0, 1];

/// Where the ID of a query stands after its length.
const ID: std::ops::Range<usize> = 2..4;

pub(super) struct Connection {
    pub(super) handle: ConnectionHandle,
    pub(super) inner: quinn_proto::Connection,
    streams: Streams,
    /// Whether its handshake is complete.
    is_open: bool,
    /// Whether it may send early data.
    pub(super) offers_early_data: bool,
    was_retried: bool,
}

/// The rest of a stream after the replies that a read found.
enum Rest {
    /// More may follow.
    More,
    /// The stream is finished.
    Finished,
    /// The server reset the stream, with this code.
    Reset(u64),
}

impl Connection {
    pub(super) fn new(handle: ConnectionHandle, inner: quinn_proto::Connection) -> Self {
        let offers_early_data = inner.has_0rtt();
        Self {
            handle,
            inner,
            streams: Streams::default(),
            is_open: false,
            offers_early_data,
            was_retried: false,
        }
    }

    /// Sends a query on a new stream, if there may be one now.
    #[inline]
    pub(super) fn hand(&mut self, key: u16, query: &[u8], frame: &mut Vec<u8>, now_ns: u64) -> bool {
        if !(self.is_open || self.offers_early_data && may_be_replayed(query)) {
            return false;
        }
        let Some(id) = self.inner.streams().open(Dir::Bi) else { return false };
        frame.clear();
        append(frame, query);
        if let Some(id) = frame.get_mut(ID) {
            id.fill(0);
        }
        let mut stream = Stream::new(key, now_ns);
        let mut sending = self.inner.send_stream(id);
        // A stream that was just opened is only blocked, if it does not take all.
        let taken = sending.write(frame).unwrap_or(0);
        if taken == frame.len() {
            let _ = sending.finish();
        } else {
            stream.unsent.extend_from_slice(&frame[taken..]);
        }
        self.streams.push(id.index(), stream);
        true
    }

    /// Notes a datagram of this connection. Returns whether it is the first Retry packet.
    pub(super) fn notes_retry(&mut self, datagram: &[u8]) -> bool {
        let is_retry = datagram.first().is_some_and(|first| first & RETRY == RETRY)
            && datagram.get(1..5) == Some(&VERSION_BYTES[..]);
        let is_first = is_retry && !self.is_open && !self.was_retried;
        self.was_retried |= is_first;
        is_first
    }

    pub(super) fn poll(&mut self, at: Instant, each: &mut impl FnMut(ClientEvent<'_>)) {
        while let Some(event) = self.inner.poll() {
            match event {
                Event::Connected => self.opened(each),
                Event::ConnectionLost { reason } => {
                    if let Some(end) = End::from_error(reason, self.failure()) {
                        each(ClientEvent::Ended(end));
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(id, at, each),
                Event::Stream(StreamEvent::Writable { id }) => self.write_rest(id),
                Event::Stream(StreamEvent::Stopped { id, .. }) => self.stop_sending(id),
                Event::Stream(StreamEvent::Available { dir: Dir::Bi }) => each(ClientEvent::Available),
                _ => {}
            }
        }
    }

    fn failure(&self) -> Option<Failure> {
        Agreed::from_connection(&self.inner)?.failure
    }

    fn opened(&mut self, each: &mut impl FnMut(ClientEvent<'_>)) {
        self.is_open = true;
        let early = match (self.offers_early_data, self.inner.accepted_0rtt()) {
            (false, _) => EarlyData::NotOffered,
            (true, true) => EarlyData::Accepted,
            (true, false) => EarlyData::Rejected,
        };
        if let Some(Agreed { session, .. }) = Agreed::from_connection(&self.inner) {
            let kind = if early == EarlyData::Accepted { Kind::Early } else { session.kind };
            each(ClientEvent::Opened { session: Session { kind, ..session }, early });
        }
        if early == EarlyData::Rejected {
            // Its streams never were (RFC 9001, section 4.6.2).
            for stream in self.streams.take_all() {
                each(ClientEvent::Again(stream.key));
            }
        }
    }

    fn read(&mut self, id: StreamId, at: Instant, each: &mut impl FnMut(ClientEvent<'_>)) {
        let Some(stream) = self.streams.get_mut(id.index()) else { return };
        let mut receiving = self.inner.recv_stream(id);
        let Ok(mut chunks) = receiving.read(true) else { return };
        let rest = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    let Stream { key, replies, is_answered, .. } = &mut *stream;
                    replies.take(&chunk.bytes, |reply| {
                        *is_answered = true;
                        each(ClientEvent::Reply(*key, reply));
                    });
                }
                Ok(None) => break Rest::Finished,
                Err(ReadError::Blocked) => break Rest::More,
                Err(ReadError::Reset(code)) => break Rest::Reset(code.into_inner()),
            }
        };
        let _ = chunks.finalize();
        match rest {
            Rest::More => {}
            Rest::Finished if stream.is_answered && stream.replies.is_whole() => {
                self.streams.remove(id.index());
            }
            Rest::Finished => self.break_off(at, "a stream ended before its reply did", each),
            Rest::Reset(code) => self.failed(id, code, each),
        }
    }

    /// The server does not answer the query of this stream.
    fn failed(&mut self, id: StreamId, code: u64, each: &mut impl FnMut(ClientEvent<'_>)) {
        let Some(stream) = self.streams.remove(id.index()) else { return };
        self.give_up(id, &stream);
        if !stream.is_answered {
            each(ClientEvent::Failed(stream.key, code));
        }
    }

    /// Sends nothing more on a stream, as the server asks. Its reply may still come.
    fn stop_sending(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(id.index()).filter(|stream| !stream.unsent.is_empty()) {
            stream.unsent.clear();
            let _ = self.inner.send_stream(id).reset(code::number(code::REQUEST_CANCELLED));
        }
    }

    /// Needs nothing more of a stream.
    fn give_up(&mut self, id: StreamId, stream: &Stream) {
        let code = code::number(code::REQUEST_CANCELLED);
        // Each direction may have ended already.
        let _ = self.inner.recv_stream(id).stop(code);
        if !stream.unsent.is_empty() {
            let _ = self.inner.send_stream(id).reset(code);
        }
    }

    /// Closes the connection, since the server broke a rule of RFC 9250.
    fn break_off(&mut self, at: Instant, rule: &'static str, each: &mut impl FnMut(ClientEvent<'_>)) {
        self.inner.close(at, code::number(code::PROTOCOL_ERROR), Bytes::from_static(rule.as_bytes()));
        each(ClientEvent::Ended(End::Rules(rule)));
    }

    /// Sends more of a query that the connection did not take at once.
    fn write_rest(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(id.index()) else { return };
        if stream.unsent.is_empty() {
            return;
        }
        let mut sending = self.inner.send_stream(id);
        let taken = sending.write(&stream.unsent).unwrap_or(0);
        stream.unsent.drain(..taken);
        if stream.unsent.is_empty() {
            let _ = sending.finish();
        }
    }

    /// Gives up the streams of queries that were handed before this time. Returns whether there were any.
    pub(super) fn cancel_before(&mut self, before_ns: u64) -> bool {
        let mut has_cancelled = false;
        while let Some((number, stream)) = self.streams.take_older(before_ns) {
            has_cancelled = true;
            let id = StreamId::new(self.inner.side(), Dir::Bi, number);
            self.give_up(id, &stream);
        }
        has_cancelled
    }
}

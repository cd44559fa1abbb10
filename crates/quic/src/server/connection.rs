//! A connection of a server: queries from streams, and replies to them.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Instant;

use bytes::Bytes;
use kqps_message::header::HEADER_BYTES;
use kqps_message::{edns, may_be_replayed};
use kqps_tls::Kind;
use quinn_proto::{Dir, Event, ReadError, StreamEvent, StreamId, WriteError};

use super::{QueryKey, Reply, Responder, ServerEvent};
use crate::code;
use crate::end::End;
use crate::frames::{LENGTH_BYTES, append, first_message};
use crate::session::Agreed;

/// Buffers that all connections of a worker use, one at a time.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    input: Vec<u8>,
    message: Vec<u8>,
    output: Vec<u8>,
    /// Connections that were admitted and not made.
    pub(super) failed: Vec<(SocketAddr, Option<End>)>,
}

pub(super) struct Connection<M> {
    pub(super) inner: quinn_proto::Connection,
    /// The client's address when the connection began.
    pub(super) client: SocketAddr,
    /// Its handle, and its number among all that the server had.
    pub(super) at: (usize, u64),
    /// Whether it is in the queue of connections at which something happened.
    pub(super) is_ready: bool,
    pub(super) has_ended: bool,
    /// Streams whose query has not arrived whole, or whose reply has not left whole.
    streams: HashMap<StreamId, Stream<M>>,
    /// Early data that must not be replayed, and waits for the end of the handshake (RFC 9250, section 4.5).
    held: Vec<(StreamId, Vec<u8>)>,
    /// Streams whose queries were answered [`Reply::Later`], until their replies come.
    later: HashSet<StreamId>,
}

struct Stream<M> {
    /// The beginning of a query.
    partial: Vec<u8>,
    /// Whether the query has arrived.
    is_asked: bool,
    /// Whether the client has ended its direction, as far as was read.
    has_end: bool,
    /// Bytes of the reply that the connection has not taken.
    unsent: Vec<u8>,
    /// The messages that follow.
    many: Option<M>,
}

impl<M> Default for Stream<M> {
    fn default() -> Self {
        Self { partial: Vec::new(), is_asked: false, has_end: true, unsent: Vec::new(), many: None }
    }
}

impl<M> Stream<M> {
    /// A stream whose query has arrived, and not yet the end of the client's direction.
    fn without_end() -> Self {
        Self { is_asked: true, has_end: false, ..Self::default() }
    }
}

/// The rest of a stream after the bytes that a read found.
enum Rest {
    /// More may follow.
    More,
    /// The stream is finished.
    Finished,
    /// The client reset the stream.
    Reset,
}

impl<M> Connection<M> {
    pub(super) fn new(inner: quinn_proto::Connection, client: SocketAddr, at: (usize, u64)) -> Self {
        Self {
            inner,
            client,
            at,
            is_ready: false,
            has_ended: false,
            streams: HashMap::new(),
            held: Vec::new(),
            later: HashSet::new(),
        }
    }

    pub(super) fn poll<R: Responder<Many = M>>(
        &mut self,
        at: Instant,
        responder: &mut R,
        scratch: &mut Scratch,
        each: &mut impl FnMut(ServerEvent),
    ) {
        while let Some(event) = self.inner.poll() {
            let done = match event {
                Event::Connected => {
                    each(ServerEvent::Opened(self.kind()));
                    for (id, query) in std::mem::take(&mut self.held) {
                        self.respond(id, &query, responder, scratch);
                    }
                    Ok(())
                }
                Event::ConnectionLost { reason } => {
                    let failure = Agreed::from_connection(&self.inner).and_then(|agreed| agreed.failure);
                    if let Some(end) = End::from_error(reason, failure) {
                        self.ended(end, responder, each);
                    }
                    Ok(())
                }
                Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => self.accept(responder, scratch),
                Event::Stream(StreamEvent::Readable { id }) => self.read(id, responder, scratch),
                Event::Stream(StreamEvent::Writable { id }) => {
                    self.go_on(id, responder, scratch);
                    Ok(())
                }
                Event::Stream(StreamEvent::Stopped { id, .. }) => {
                    self.forget(id);
                    self.cancel(id, responder);
                    Ok(())
                }
                _ => Ok(()),
            };
            if let Err(rule) = done {
                let reason = Bytes::from_static(rule.as_bytes());
                self.inner.close(at, code::number(code::PROTOCOL_ERROR), reason);
                self.ended(End::Rules(rule), responder, each);
            }
        }
    }

    fn ended<R: Responder<Many = M>>(
        &mut self,
        end: End,
        responder: &mut R,
        each: &mut impl FnMut(ServerEvent),
    ) {
        if !std::mem::replace(&mut self.has_ended, true) {
            self.held.clear();
            responder.gone(self.later.len() as u64);
            self.later.clear();
            each(ServerEvent::Ended(self.client, end));
        }
    }

    fn kind(&self) -> Kind {
        let kind = Agreed::from_connection(&self.inner).map_or(Kind::Full, |agreed| agreed.session.kind);
        if kind == Kind::Resumed && self.inner.has_0rtt() { Kind::Early } else { kind }
    }

    fn accept<R: Responder<Many = M>>(
        &mut self,
        responder: &mut R,
        scratch: &mut Scratch,
    ) -> Result<(), &'static str> {
        while let Some(id) = self.inner.streams().accept(Dir::Bi) {
            self.read(id, responder, scratch)?;
        }
        Ok(())
    }

    /// Reads what arrived on a stream, and answers its query once that is whole. The error is the rule that the client
    /// broke.
    fn read<R: Responder<Many = M>>(
        &mut self,
        id: StreamId,
        responder: &mut R,
        scratch: &mut Scratch,
    ) -> Result<(), &'static str> {
        if self.has_ended {
            return Ok(());
        }
        let mut receiving = self.inner.recv_stream(id);
        let Ok(mut chunks) = receiving.read(true) else { return Ok(()) };
        let mut input = std::mem::take(&mut scratch.input);
        input.clear();
        let known = self.streams.get(&id);
        let is_asked = known.is_some_and(|stream| stream.is_asked);
        input.extend_from_slice(known.map_or(&[][..], |stream| stream.partial.as_slice()));
        let rest = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => input.extend_from_slice(&chunk.bytes),
                Ok(None) => break Rest::Finished,
                Err(ReadError::Blocked) => break Rest::More,
                Err(ReadError::Reset(_)) => break Rest::Reset,
            }
        };
        let _ = chunks.finalize();
        let done = self.take(id, is_asked, &input, &rest, responder, scratch);
        scratch.input = input;
        done
    }

    fn take<R: Responder<Many = M>>(
        &mut self,
        id: StreamId,
        is_asked: bool,
        input: &[u8],
        rest: &Rest,
        responder: &mut R,
        scratch: &mut Scratch,
    ) -> Result<(), &'static str> {
        if matches!(rest, Rest::Reset) {
            self.streams.remove(&id);
            self.cancel(id, responder);
            return Ok(());
        }
        if is_asked {
            if matches!(rest, Rest::Finished)
                && let Some(stream) = self.streams.get_mut(&id)
            {
                stream.has_end = true;
                if stream.unsent.is_empty() && stream.many.is_none() {
                    self.streams.remove(&id);
                }
            }
            return if input.is_empty() { Ok(()) } else { Err("more than one query on a stream") };
        }
        match first_message(input) {
            Some(query) if input.len() > LENGTH_BYTES + query.len() => Err("more than one query on a stream"),
            Some(query) => {
                check(query)?;
                self.streams.remove(&id);
                if matches!(rest, Rest::More) {
                    self.streams.insert(id, Stream::without_end());
                }
                if self.inner.is_handshaking() && !may_be_replayed(query) {
                    self.held.push((id, query.to_vec()));
                } else {
                    self.respond(id, query, responder, scratch);
                }
                Ok(())
            }
            None if matches!(rest, Rest::Finished) => Err("a stream ended before its query did"),
            None => {
                let stream = self.streams.entry(id).or_default();
                stream.partial.clear();
                stream.partial.extend_from_slice(input);
                Ok(())
            }
        }
    }

    fn respond<R: Responder<Many = M>>(
        &mut self,
        id: StreamId,
        query: &[u8],
        responder: &mut R,
        scratch: &mut Scratch,
    ) {
        let Scratch { message, output, .. } = scratch;
        message.clear();
        let (slot, number) = self.at;
        let key = QueryKey { slot, number, stream: id };
        match responder.answer(query, self.client.ip(), key, message) {
            Reply::One => {
                self.send(id, message, output);
            }
            Reply::Many(many) => {
                let stream = self.streams.entry(id).or_default();
                stream.is_asked = true;
                stream.many = Some(many);
                self.go_on(id, responder, scratch);
            }
            // `streams` does not have a stream that the client has ended: the reply needs none of its state.
            Reply::Later => {
                self.later.insert(id);
            }
            Reply::None => self.reset(id, code::UNSPECIFIED_ERROR),
        }
    }

    /// Sends a reply of one message, as far as there is room. Returns whether the client wants it.
    fn send(&mut self, id: StreamId, message: &[u8], output: &mut Vec<u8>) -> bool {
        output.clear();
        append(output, message);
        let Some(taken) = self.write(id, output) else {
            self.forget(id);
            return false;
        };
        if taken == output.len() {
            let _ = self.inner.send_stream(id).finish();
        } else {
            self.streams.entry(id).or_default().unsent.extend_from_slice(&output[taken..]);
        }
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.is_asked = true;
        }
        true
    }

    /// Sends the reply to a query that was answered later, or resets its stream. Returns whether the client wants it;
    /// `None` if the query does not wait any more.
    pub(super) fn reply_later(
        &mut self,
        id: StreamId,
        message: Option<&[u8]>,
        scratch: &mut Scratch,
    ) -> Option<bool> {
        if !self.later.remove(&id) {
            return None;
        }
        let Some(message) = message else {
            self.reset(id, code::UNSPECIFIED_ERROR);
            return Some(true);
        };
        Some(self.send(id, message, &mut scratch.output))
    }

    /// Sends more of a reply, as far as there is room.
    fn go_on<R: Responder<Many = M>>(&mut self, id: StreamId, responder: &mut R, scratch: &mut Scratch) {
        let Some(mut stream) = self.streams.remove(&id) else { return };
        if !stream.is_asked || stream.unsent.is_empty() && stream.many.is_none() {
            // Its reply left whole, or is still to come.
            self.streams.insert(id, stream);
            return;
        }
        loop {
            let Some(taken) = self.write(id, &stream.unsent) else { return self.forget(id) };
            stream.unsent.drain(..taken);
            if !stream.unsent.is_empty() {
                self.streams.insert(id, stream);
                return;
            }
            let Some(many) = &mut stream.many else { break };
            scratch.message.clear();
            if !responder.next(many, &mut scratch.message) {
                break;
            }
            append(&mut stream.unsent, &scratch.message);
        }
        let _ = self.inner.send_stream(id).finish();
        if !stream.has_end {
            self.streams.insert(id, Stream::without_end());
        }
    }

    /// Writes to a stream. Returns how many bytes it took, and `None` if the client wants no reply on it.
    fn write(&mut self, id: StreamId, bytes: &[u8]) -> Option<usize> {
        match self.inner.send_stream(id).write(bytes) {
            Ok(taken) => Some(taken),
            Err(WriteError::Blocked) => Some(0),
            Err(WriteError::Stopped(_) | WriteError::ClosedStream) => None,
        }
    }

    /// Drops a stream on which the client wants no reply. What it still sends there is no query.
    fn forget(&mut self, id: StreamId) {
        self.streams.remove(&id);
        self.held.retain(|(held, _)| *held != id);
        // It may have ended already.
        let _ = self.inner.recv_stream(id).stop(code::number(code::REQUEST_CANCELLED));
    }

    /// Resets a stream on which the client wants no reply, and counts its query if that waits for its reply.
    fn cancel<R: Responder<Many = M>>(&mut self, id: StreamId, responder: &mut R) {
        if self.later.remove(&id) {
            responder.gone(1);
        }
        self.reset(id, code::REQUEST_CANCELLED);
    }

    fn reset(&mut self, id: StreamId, code: u32) {
        // It may have ended already.
        let _ = self.inner.send_stream(id).reset(code::number(code));
    }
}

/// The rule that a query breaks (RFC 9250, section 4.3.3). An ID that is not 0 breaks one, too, and is answered with
/// the same ID: players such as kxdpgun 3.2 send one.
fn check(query: &[u8]) -> Result<(), &'static str> {
    if query.len() < HEADER_BYTES {
        return Err("a query is shorter than its header");
    }
    if edns::find(query).ok().flatten().is_some_and(|opt| edns::has_option(opt.data, edns::TCP_KEEPALIVE)) {
        return Err("a query has the option edns-tcp-keepalive");
    }
    Ok(())
}

#[cfg(test)]
mod tests;

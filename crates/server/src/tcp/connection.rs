//! One connection: bytes in, queries cut out of them, replies joined into few writes. It goes on in turns, each
//! as long as there is something to do without waiting, up to a limit that lets the others have theirs.
//!
//! What it keeps between turns is bounded: queries that are not answered yet, at most as long as one message,
//! and replies that the peer did not take, at most [`OUTPUT_MOST`] and one message. While there are such
//! replies nothing more is read, and the socket makes the peer wait.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::IpAddr;
use std::time::Instant;

use kqps_message::header::HEADER_BYTES;
use mio::{Interest, Registry, Token};

use super::counts::{End, TcpCounts};
use super::frame::{FRAME_BYTES, LENGTH_BYTES, MESSAGE_BYTES, append, first_message};
use super::places::Active;
use super::stream::Stream;
use super::{Said, StreamAnswer};

/// No more replies are made while so many bytes of them wait to be written.
const OUTPUT_MOST: usize = 65_536;

/// Replies taken in this many bytes are progress, even if more are waiting: less might be a peer that reads only
/// to hold its place.
const PROGRESS_BYTES: usize = 16 * 1024;

/// Rounds of reading, answering and writing in one turn.
const ROUNDS: usize = 16;

/// Replies of many messages under way at once. While the first is sent, queries behind it are answered between
/// its messages (RFC 7766, section 6.2.1.1); a second waits, and lets nothing pass.
const STREAMS: usize = 2;

/// What all connections of a thread work with, one at a time.
pub(super) struct Desk<A> {
    pub(super) answer: A,
    pub(super) counts: TcpCounts,
    input: Box<[u8]>,
    message: Box<[u8]>,
    output: Vec<u8>,
}

impl<A> Desk<A> {
    pub(super) fn new(answer: A) -> Self {
        Self {
            answer,
            counts: TcpCounts::default(),
            input: vec![0; FRAME_BYTES].into(),
            message: vec![0; MESSAGE_BYTES].into(),
            output: Vec::with_capacity(OUTPUT_MOST + FRAME_BYTES),
        }
    }
}

/// What a turn led to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It waits for its peer.
    Waits,
    /// There is more to do.
    Again,
    /// It is over.
    Ended(End),
}

/// A connection that is open.
#[allow(clippy::struct_excessive_bools)] // each is a fact of its own, and every combination happens
pub(super) struct Connection<S> {
    stream: Stream,
    /// Whose it is; nobody's where it came by a Unix socket.
    pub(super) client: Option<IpAddr>,
    /// When it last made progress.
    active: Instant,
    /// Whether it stands in the queue of those that can go on.
    pub(super) queued: bool,
    /// Whether there may be something to read.
    readable: bool,
    /// Whether the peer said that nothing more comes; what came before may still have to be read.
    ending: bool,
    /// Whether everything was read.
    at_end: bool,
    /// What was read and is not answered.
    partial: Vec<u8>,
    /// What is answered and not written, from `written` on.
    unsent: Vec<u8>,
    written: usize,
    taken_bytes: usize,
    streams: VecDeque<S>,
    /// What of its socket is watched, once anything is.
    watched: Option<Interest>,
}

impl<S> Active for Connection<S> {
    type Moment = Instant;

    fn active(&self) -> Instant {
        self.active
    }

    fn is_idle(&self) -> bool {
        !self.queued && self.unsent.is_empty() && self.partial.is_empty() && self.streams.is_empty()
    }
}

impl<S> Connection<S> {
    pub(super) fn new(stream: Stream, client: Option<IpAddr>, now: Instant) -> Self {
        Self {
            stream,
            client,
            active: now,
            queued: false,
            // A query often comes with the connection.
            readable: true,
            ending: false,
            at_end: false,
            partial: Vec::new(),
            unsent: Vec::new(),
            written: 0,
            taken_bytes: 0,
            streams: VecDeque::new(),
            watched: None,
        }
    }

    /// Has that watched which it waits for.
    pub(super) fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = self.stream.interest(!self.unsent.is_empty());
        match self.watched.replace(interest) {
            None => registry.register(&mut self.stream, token, interest),
            Some(watched) if watched != interest => registry.reregister(&mut self.stream, token, interest),
            Some(_) => Ok(()),
        }
    }

    /// Something can be read; perhaps the last.
    pub(super) fn note(&mut self, readable: bool, ending: bool) {
        self.readable |= readable || ending;
        self.ending |= ending;
    }

    /// How it is to end when its time is over.
    pub(super) fn end_in_time(&self) -> End {
        if self.unsent.is_empty() { End::Idle } else { End::Slow }
    }

    /// Goes on as far as it can.
    pub(super) fn turn<A: StreamAnswer<Stream = S>>(&mut self, desk: &mut Desk<A>, now: Instant) -> Turn {
        for _ in 0..ROUNDS {
            match self.round(desk, now) {
                Ok(true) => {}
                Ok(false) => return Turn::Waits,
                Err(end) => return Turn::Ended(end),
            }
        }
        Turn::Again
    }

    /// Writes what is left, reads, answers, writes; says whether there may be more to do.
    fn round<A: StreamAnswer<Stream = S>>(&mut self, desk: &mut Desk<A>, now: Instant) -> Result<bool, End> {
        if !self.write_rest(now)? {
            return Ok(false);
        }
        let kept = self.partial.len();
        let filled = self.read(&mut desk.input)?;
        let (used, is_dns) = self.answer(desk, filled, now);
        self.partial.clear();
        if used < filled {
            self.partial.extend_from_slice(&desk.input[used..filled]);
        } else {
            // An idle connection holds no memory.
            self.partial = Vec::new();
        }
        let has_output = !desk.output.is_empty();
        if has_output {
            self.write(&desk.output, now)?;
        }
        if !is_dns {
            return Err(End::NotDns);
        }
        if has_output {
            return Ok(true);
        }
        if first_message(&self.partial).is_some() {
            return Ok(true);
        }
        if self.at_end {
            return Err(End::Peer);
        }
        Ok(filled > kept || self.readable)
    }

    /// Fills the input with what was kept and with what can be read; returns how many bytes that is. Nothing is
    /// read while a whole query is waiting.
    fn read(&mut self, input: &mut [u8]) -> Result<usize, End> {
        let kept = self.partial.len();
        input[..kept].copy_from_slice(&self.partial);
        if !self.readable || self.at_end || first_message(&self.partial).is_some() {
            return Ok(kept);
        }
        let room = &mut input[kept..];
        match self.stream.read(room) {
            Ok(0) => self.at_end = true,
            Ok(bytes) => {
                // Less than asked for is all there was (epoll(7)), unless the end is behind it.
                self.readable = bytes == room.len() || self.ending;
                return Ok(kept + bytes);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(End::Broken),
        }
        Ok(kept)
    }

    /// Answers whole queries from the input and goes on with what is being streamed, until there is enough to
    /// write; returns how much of the input was used, and whether what comes next may be DNS.
    fn answer<A: StreamAnswer<Stream = S>>(
        &mut self,
        desk: &mut Desk<A>,
        filled: usize,
        now: Instant,
    ) -> (usize, bool) {
        let Desk { answer, counts, input, message, output } = desk;
        output.clear();
        let (mut used, mut is_dns) = (0, true);
        while output.len() < OUTPUT_MOST && self.streams.len() < STREAMS {
            let Some(query) = first_message(&input[used..filled]) else { break };
            if query.len() < HEADER_BYTES {
                is_dns = false;
                break;
            }
            used += LENGTH_BYTES + query.len();
            self.active = now;
            counts.queries.received += 1;
            message[..query.len()].copy_from_slice(query);
            match answer.answer(message, query.len(), self.client) {
                Ok(Said::Reply(bytes)) => {
                    counts.queries.answered += 1;
                    append(output, &message[..bytes]);
                }
                Ok(Said::Stream(stream)) => {
                    counts.transfers += 1;
                    self.streams.push_back(stream);
                }
                Err(cause) => counts.drop(cause),
            }
        }
        while output.len() < OUTPUT_MOST {
            let Some(stream) = self.streams.front_mut() else { break };
            match answer.next(stream, message) {
                Some(bytes) => append(output, &message[..bytes]),
                None => drop(self.streams.pop_front()),
            }
        }
        (used, is_dns)
    }

    /// Writes what earlier turns left; whether all of it could be.
    fn write_rest(&mut self, now: Instant) -> Result<bool, End> {
        if self.unsent.is_empty() {
            return Ok(true);
        }
        let rest = std::mem::take(&mut self.unsent);
        let taken = self.push(&rest[self.written..], now)?;
        self.written += taken;
        let all = self.written == rest.len();
        if !all {
            self.unsent = rest;
        }
        Ok(all)
    }

    /// Writes replies, and keeps what cannot be written now.
    fn write(&mut self, output: &[u8], now: Instant) -> Result<(), End> {
        let taken = self.push(output, now)?;
        if taken < output.len() {
            self.unsent = output[taken..].to_vec();
            self.written = 0;
        }
        Ok(())
    }

    /// Hands bytes to the kernel until it takes no more; how many it took.
    fn push(&mut self, bytes: &[u8], now: Instant) -> Result<usize, End> {
        let mut taken = 0;
        while taken < bytes.len() {
            match self.stream.write(&bytes[taken..]) {
                Ok(more) => taken += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Err(End::Broken),
            }
        }
        self.taken_bytes += taken;
        if taken == bytes.len() || self.taken_bytes >= PROGRESS_BYTES {
            self.active = now;
            self.taken_bytes = 0;
        }
        Ok(taken)
    }

    /// A last try to hand over what is left; then it is closed.
    pub(super) fn close(mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.unsent);
        self.stream.write_all(&rest[self.written.min(rest.len())..])?;
        self.stream.shutdown(std::net::Shutdown::Write)
    }
}

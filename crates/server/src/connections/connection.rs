//! A connection: reads bytes, cuts queries out of them, and joins replies into few writes. It runs in turns. A turn
//! lasts as long as there is something to do without waiting, up to a limit that gives the others their turn.
//!
//! What it keeps between turns is bounded. It keeps queries that are not answered, at most as long as one message, and
//! replies that its stream has not taken, fewer than [`OUTPUT_MOST`] bytes and one message. While there are such
//! replies it reads nothing more, and the socket makes the peer wait. Replies that come later add up to [`LATE_MOST`]
//! bytes and one message: if the peer takes nothing meanwhile, further ones are dropped.
//!
//! In TLS the stream keeps what one read of the socket decrypted (256 KiB), the beginning of a record or of a message
//! of the handshake (128 KiB), and records of 64 KiB of replies. By HTTP it also keeps the queries that such a read
//! completed, bodies under way (1 MiB, see `kqps_http::ServerSession`), and the replies for which the peer has given no
//! room: those of as many requests as it may have under way.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Shutdown};

use kqps_message::header::HEADER_BYTES;
use mio::{Interest, Registry, Token};

use super::counts::End;
use super::frame::{FRAME_BYTES, LENGTH_BYTES, MESSAGE_BYTES, append, first_message};
use super::keeper::KeptConnection;
use super::later::Later;
use super::output::Output;
use super::padding::{has_padding, pad};
use super::slots::Active;
use super::stream::Stream;
use crate::answer::{Answer, Answered, Client, Query};
use crate::counts::{Cause, Counts, Rcodes};
use crate::later::{Origin, Place};

/// No more replies are made in a round that has made this many bytes of them.
const OUTPUT_MOST: usize = 65_536;

/// A reply that comes later is dropped if this many bytes of replies wait already: those that the peer does not take,
/// and those behind an earlier one that is missing.
const LATE_MOST: usize = 1 << 20;

/// Rounds of reading, answering and writing in one turn.
const ROUNDS: usize = 16;

/// The maximum number of concurrent replies of many messages. While the first is sent, queries behind it are
/// answered between its messages (RFC 7766, section 6.2.1.1). A second one waits, and no query passes it.
const STREAMS: usize = 2;

/// State that all connections of a thread use, one at a time.
pub(super) struct Scratch<A> {
    pub(super) answer: A,
    /// Queries, and replies of one message.
    pub(super) counts: Counts,
    /// Queries that got, or began to get, a reply of many messages.
    pub(super) transfers: u64,
    /// The slot of the connection whose turn it is, and the number of connections that had it before.
    pub(super) at: (u32, u32),
    /// Queries whose answers came later or whose connections ended before, and are counted.
    pub(super) settled: u64,
    /// Replies that came later.
    pub(super) rcodes: Rcodes,
    input: Box<[u8]>,
    message: Box<[u8]>,
    output: Vec<u8>,
}

impl<A> Scratch<A> {
    pub(super) fn new(answer: A) -> Self {
        Self {
            answer,
            counts: Counts::default(),
            transfers: 0,
            at: (0, 0),
            settled: 0,
            rcodes: Rcodes::default(),
            input: vec![0; FRAME_BYTES].into(),
            message: vec![0; MESSAGE_BYTES].into(),
            output: Vec::with_capacity(OUTPUT_MOST + FRAME_BYTES),
        }
    }
}

/// The result of a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The connection waits for its peer.
    Waits,
    /// There is more to do.
    Again,
    /// The connection has ended.
    Ended(End),
}

/// The result of a round.
enum Round {
    /// There may be more to do.
    More,
    /// A read brought records or frames, and no byte of a query. There may be more, but the others have their turn first.
    Vain,
    /// The connection waits for its peer.
    Waits,
}

#[allow(clippy::struct_excessive_bools)] // each is a fact of its own, and every combination happens
pub(super) struct Connection<S> {
    stream: Stream,
    /// The client's address; `None` on a Unix socket.
    client: Option<IpAddr>,
    /// When the connection last made progress, in nanoseconds.
    active_ns: u64,
    /// Whether it is in the queue of connections that can go on.
    queued: bool,
    /// Whether there may be something to read.
    readable: bool,
    /// Whether the peer has closed its sending side. Earlier bytes may still be unread.
    ending: bool,
    /// Whether everything was read.
    at_end: bool,
    /// Bytes that were read and not answered.
    partial: Vec<u8>,
    /// Replies that are not written. An idle connection holds no memory for them.
    output: Output<0>,
    streams: VecDeque<S>,
    /// Queries whose answers come later.
    later: Later,
    /// The interest with which the socket is registered; `None` before that.
    watched: Option<Interest>,
}

impl<S> Active for Connection<S> {
    fn active_ns(&self) -> u64 {
        self.active_ns
    }

    fn is_idle(&self) -> bool {
        let is_sent = self.output.is_empty() && !self.stream.has_unsent() && !self.stream.is_busy();
        let is_answered = self.streams.is_empty() && self.later.is_empty();
        !self.queued && is_sent && self.partial.is_empty() && is_answered
    }
}

impl<S> KeptConnection for Connection<S> {
    fn new(stream: Stream, client: Option<IpAddr>, now_ns: u64) -> Self {
        Self {
            later: Later::new(stream.is_http()),
            stream,
            client,
            active_ns: now_ns,
            queued: false,
            // A query often arrives with the connection.
            readable: true,
            ending: false,
            at_end: false,
            partial: Vec::new(),
            output: Output::default(),
            streams: VecDeque::new(),
            watched: None,
        }
    }

    fn client(&self) -> Option<IpAddr> {
        self.client
    }

    fn queued(&mut self) -> &mut bool {
        &mut self.queued
    }

    fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let interest = self.stream.interest(!self.output.is_empty());
        match self.watched.replace(interest) {
            None => registry.register(&mut self.stream, token, interest),
            Some(watched) if watched != interest => registry.reregister(&mut self.stream, token, interest),
            Some(_) => Ok(()),
        }
    }

    fn close(mut self, end: End) {
        // A broken connection has no direction left to end. The kernel ends that of TCP as it closes the socket, if all
        // was read and written.
        let ends_by_itself = end == End::Peer && self.stream.is_tcp() && self.output.is_empty();
        if end != End::Broken && !ends_by_itself {
            // A peer that does not read cannot receive the rest.
            let _ = self.finish();
        }
    }
}

impl<S> Connection<S> {
    /// Notes that there is something to read, perhaps the end.
    pub(super) fn note(&mut self, readable: bool, ending: bool) {
        self.readable |= readable || ending;
        self.ending |= ending;
    }

    /// Goes on as far as it can.
    pub(super) fn turn<A: Answer<Many = S>>(&mut self, scratch: &mut Scratch<A>, now_ns: u64) -> Turn {
        for _ in 0..ROUNDS {
            match self.round(scratch, now_ns) {
                Ok(Round::More) => {}
                Ok(Round::Vain) => return Turn::Again,
                Ok(Round::Waits) => return Turn::Waits,
                Err(end) => return Turn::Ended(end),
            }
        }
        Turn::Again
    }

    /// Writes the rest of its output, then reads, answers and writes.
    fn round<A: Answer<Many = S>>(&mut self, scratch: &mut Scratch<A>, now_ns: u64) -> Result<Round, End> {
        if !self.write_rest(now_ns)? {
            return Ok(Round::Waits);
        }
        let kept = self.partial.len();
        let (filled, is_vain) = self.read(&mut scratch.input)?;
        let (used, is_dns) = self.answer(scratch, filled, now_ns);
        self.partial.clear();
        if used < filled {
            self.partial.extend_from_slice(&scratch.input[used..filled]);
        } else {
            // An idle connection holds no memory.
            self.partial = Vec::new();
        }
        let has_output = !scratch.output.is_empty();
        if has_output && self.output.write(&mut self.stream, &scratch.output)? {
            self.active_ns = now_ns;
        }
        if !is_dns {
            return Err(End::NotDns);
        }
        if has_output {
            return Ok(Round::More);
        }
        if !self.later.has_room() || self.later.bytes() >= OUTPUT_MOST {
            // The next answer that comes lets it go on.
            return Ok(Round::Waits);
        }
        if first_message(&self.partial).is_some() {
            return Ok(Round::More);
        }
        if self.at_end {
            return if self.later.is_empty() { Err(End::Peer) } else { Ok(Round::Waits) };
        }
        Ok(match (is_vain, filled > kept || self.readable) {
            (true, _) => Round::Vain,
            (false, true) => Round::More,
            (false, false) => Round::Waits,
        })
    }

    /// Fills `input` with the kept bytes and with what can be read. Returns the number of bytes, and whether a read brought
    /// none although more may follow. Reads nothing while a whole query is waiting.
    fn read(&mut self, input: &mut [u8]) -> Result<(usize, bool), End> {
        let kept = self.partial.len();
        input[..kept].copy_from_slice(&self.partial);
        if !self.readable || self.at_end || first_message(&self.partial).is_some() {
            return Ok((kept, false));
        }
        let room = &mut input[kept..];
        match self.stream.read(room) {
            Ok(0) => self.at_end = true,
            Ok(bytes) => {
                // A short read means that there was no more (epoll(7)), unless the end follows.
                self.readable = bytes == room.len() || self.ending || self.stream.may_have_more();
                return Ok((kept + bytes, false));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.readable = false,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok((kept, true)),
            Err(error) if error.kind() == ErrorKind::InvalidData => return Err(End::Tls),
            Err(error) if error.kind() == ErrorKind::InvalidInput => return Err(End::Http),
            Err(_) => return Err(End::Broken),
        }
        Ok((kept, false))
    }

    /// Answers whole queries of the input and continues replies of many messages, until there is enough to write.
    /// Returns how many bytes of the input were used, and whether the rest may be DNS.
    fn answer<A: Answer<Many = S>>(
        &mut self,
        scratch: &mut Scratch<A>,
        filled: usize,
        now_ns: u64,
    ) -> (usize, bool) {
        let Scratch { answer, counts, transfers, at: (slot, turn), input, message, output, .. } = scratch;
        output.clear();
        let (mut used, mut is_dns) = (0, true);
        while output.len() + self.later.bytes() < OUTPUT_MOST
            && self.streams.len() < STREAMS
            && self.later.has_room()
        {
            let Some(query) = first_message(&input[used..filled]) else { break };
            if query.len() < HEADER_BYTES {
                is_dns = false;
                break;
            }
            used += LENGTH_BYTES + query.len();
            self.active_ns = now_ns;
            counts.received += 1;
            message[..query.len()].copy_from_slice(query);
            let client = match self.client {
                Some(address) if self.stream.is_http() => Client::Https(address),
                Some(address) => Client::Tcp(address),
                None => Client::Unix,
            };
            let is_padded = self.stream.is_encrypted() && has_padding(query);
            let place = Place { slot: *slot, turn: *turn, number: self.later.number(), is_padded };
            let origin = Origin::Connection(place);
            match answer.answer(Query { buffer: message, bytes: query.len(), client, origin }) {
                Answered::One(bytes) => {
                    counts.answered += 1;
                    let bytes = if is_padded { pad(message, bytes) } else { bytes };
                    self.later.at_once(&message[..bytes], output);
                }
                Answered::Later => {
                    counts.drop(Cause::Later);
                    self.later.wait();
                }
                Answered::Many(stream) => {
                    *transfers += 1;
                    self.streams.push_back(stream);
                }
                Answered::None(cause) => {
                    counts.drop(cause);
                    if self.stream.is_http() {
                        self.later.at_once(&[], output);
                    }
                }
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

    /// Takes an answer that came later, or why there is none. It is written in the connection's next turn.
    pub(super) fn come<A>(
        &mut self,
        place: Place,
        answer: Result<&[u8], Cause>,
        scratch: &mut Scratch<A>,
        now_ns: u64,
    ) {
        let Scratch { counts, rcodes, message, .. } = scratch;
        let Self { later, output, .. } = self;
        let has_room = output.len() + later.bytes() < LATE_MOST;
        let reply = match answer {
            Ok(_) if !has_room => {
                counts.drop(Cause::ClientSlow);
                None
            }
            Ok(reply) => {
                counts.answered += 1;
                rcodes.add_of(reply);
                message[..reply.len()].copy_from_slice(reply);
                let bytes = if place.is_padded { pad(message, reply.len()) } else { reply.len() };
                Some(&message[..bytes])
            }
            Err(cause) => {
                counts.drop(cause);
                None
            }
        };
        later.come(place.number, reply, |reply| {
            output.append(reply);
        });
        self.active_ns = now_ns;
    }

    /// Writes what earlier turns left. Returns whether all of it could be written.
    fn write_rest(&mut self, now_ns: u64) -> Result<bool, End> {
        if self.stream.has_unsent() {
            match self.stream.flush() {
                Ok(()) => self.active_ns = now_ns,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(_) => return Err(End::Broken),
            }
        }
        if !self.output.is_empty() && self.output.push(&mut self.stream)? {
            self.active_ns = now_ns;
        }
        Ok(self.output.is_empty() && !self.stream.has_unsent())
    }

    /// The number of queries whose answers have not come.
    pub(super) fn waiting(&self) -> u64 {
        self.later.waiting()
    }

    /// Why the connection ends if it makes no progress in time.
    pub(super) fn end_in_time(&self) -> End {
        if self.stream.has_untaken() { End::Slow } else { self.output.end_in_time() }
    }

    /// Tries once more to write what is left, then ends the server's direction.
    fn finish(&mut self) -> io::Result<()> {
        self.stream.write_all(self.output.waiting())?;
        self.stream.shutdown(Shutdown::Write)
    }
}

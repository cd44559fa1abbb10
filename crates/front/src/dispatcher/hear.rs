//! Receiving from back ends and from clients' connections, and cutting the bytes into messages. A back end's
//! message goes to the client that asked if it is the reply to the query: link, ID and question must match.

use kqps_kernel::batch::RecvBatch;
use mio::event::Event;

use super::Dispatcher;
use crate::back_end::{BackEnd, Trouble};
use crate::counts::Bad;
use crate::guard::{self, Trust};
use crate::queries::Client;
use crate::reply;
use crate::reply_queue::Receiver;
use crate::short;
use crate::stream::{Gone, first_frame};

/// Rounds of reading from one back end before others have their turn.
const ROUNDS: usize = 8;

impl Dispatcher {
    /// Handles an event of a back end's connection.
    pub(crate) fn note_stream(&mut self, number: usize, link: usize, event: &Event) {
        let Some(Some(back_end)) = self.back_ends.get_mut(number) else { return };
        match back_end.streams[link].note(event, self.now_ns) {
            Ok(false) => {}
            Ok(true) => {
                back_end.counts.connections += 1;
                self.resume(number);
                // A back end that cannot be used before a check is checked at once.
                let has_datagrams = |back_end: &BackEnd| back_end.datagrams.is_some();
                if !self.back_ends[number].as_ref().is_some_and(has_datagrams) {
                    self.check(number);
                }
            }
            Err(_) => back_end.broken.push((short(link), Trouble::Broken)),
        }
        self.heard_from(number);
    }

    /// Notes that something arrived at a back end's socket.
    pub(crate) fn note_datagrams(&mut self, number: usize, socket: usize) {
        let Some(Some(back_end)) = self.back_ends.get_mut(number) else { return };
        if let Some(datagrams) = &mut back_end.datagrams {
            datagrams.sockets[socket].is_readable = true;
        }
        self.heard_from(number);
    }

    pub(crate) fn heard_from(&mut self, number: usize) {
        if !self.talking.contains(&number) {
            self.talking.push(number);
        }
    }

    /// Reads from back ends, and hands replies on.
    pub(crate) fn hear_back_ends(&mut self, input: &mut [u8], replies: &mut RecvBatch) {
        for number in std::mem::take(&mut self.talking) {
            let Some(back_end) = &self.back_ends[number] else { continue };
            let sockets = back_end.datagrams.as_ref().map_or(0, |datagrams| datagrams.sockets.len());
            for link in 0..back_end.streams.len() {
                self.hear_stream(number, link, input);
            }
            for socket in 0..sockets {
                self.hear_datagrams(number, socket, replies);
            }
            if self.back_ends[number].as_ref().is_some_and(BackEnd::has_more) {
                self.talking.push(number);
            }
        }
    }

    /// Reads from a back end's connection, and hands replies on.
    pub(crate) fn hear_stream(&mut self, number: usize, link: usize, input: &mut [u8]) {
        for _ in 0..ROUNDS {
            let Some(back_end) = &mut self.back_ends[number] else { return };
            if !back_end.streams[link].is_readable() {
                return;
            }
            let trouble = match back_end.streams[link].read(input) {
                Ok(filled) => self.cut(number, link, &input[..filled]),
                Err(Gone::Ended) => Some(Trouble::Ended),
                Err(Gone::Broken | Gone::NoRoom) => Some(Trouble::Broken),
            };
            if let Some(trouble) = trouble
                && let Some(back_end) = &mut self.back_ends[number]
            {
                back_end.broken.push((short(link), trouble));
                return;
            }
        }
    }

    /// Hands on all whole replies, and keeps the rest.
    pub(crate) fn cut(&mut self, number: usize, link: usize, mut bytes: &[u8]) -> Option<Trouble> {
        loop {
            match first_frame(bytes) {
                Ok(Some((message, used))) => {
                    self.hear(number, short(link), message);
                    bytes = &bytes[used..];
                }
                Ok(None) => {
                    let back_end = self.back_ends[number].as_mut()?;
                    back_end.streams[link].keep(bytes);
                    return None;
                }
                Err(_) => return Some(Trouble::Garbled),
            }
        }
    }

    /// Reads from one of a back end's sockets, and hands replies on.
    pub(crate) fn hear_datagrams(&mut self, number: usize, socket: usize, replies: &mut RecvBatch) {
        for _ in 0..ROUNDS {
            let Some(back_end) = &mut self.back_ends[number] else { return };
            let link = short(back_end.streams.len() + socket);
            let Some(datagrams) = &mut back_end.datagrams else { return };
            if !datagrams.sockets[socket].is_readable {
                return;
            }
            match datagrams.recv(socket, replies) {
                Ok(count) => {
                    for index in 0..count {
                        let message = replies.message(index);
                        // An empty datagram has no segments, but must be counted.
                        if message.bytes.is_empty() {
                            self.hear(number, link, &[]);
                        }
                        for reply in message.bytes.chunks(message.segment_bytes) {
                            self.hear(number, link, reply);
                        }
                    }
                }
                Err(_) => back_end.broken.push((link, Trouble::Broken)),
            }
        }
    }

    /// Handles a message of a back end: the reply to an outstanding query, or a message to discard.
    #[inline]
    pub(crate) fn hear(&mut self, number: usize, link: u16, message: &[u8]) {
        let Some(back_end) = &mut self.back_ends[number] else { return };
        let counts = &mut back_end.counts;
        let Some(&[high, low]) = message.first_chunk() else { return Bad::Garbled.count_in(counts) };
        let id = u16::from_be_bytes([high, low]);
        let Some(place) = back_end.query(link, id) else {
            return Bad::Unsolicited.count_in(&mut back_end.counts);
        };
        let query = self.queries.get(place);
        if !reply::is_reply_to(&query.bytes, query.asked, message) {
            return Bad::Mismatched.count_in(&mut back_end.counts);
        }
        let by_datagram = usize::from(link) >= back_end.streams.len();
        let is_inner = matches!(query.client, Client::Inner(_));
        let trust = match &mut back_end.cookies {
            cookies if is_inner && by_datagram => guard::judge(query, cookies.as_mut(), message),
            Some(cookies) if is_inner => {
                cookies.confirm(message);
                Trust::Whole
            }
            _ => Trust::Whole,
        };
        if trust == Trust::Forged {
            return Bad::Mismatched.count_in(&mut back_end.counts);
        }
        back_end.free(link, id);
        back_end.heard_ns = self.now_ns;
        if let Some(stream) = back_end.streams.get_mut(usize::from(link)) {
            stream.heard_ns = self.now_ns;
        }
        back_end.counts.answered += 1;
        match trust {
            Trust::Doubted => {
                back_end.counts.doubted += 1;
                return self.ask_whole(place, None);
            }
            Trust::Again => return self.ask_with_cookie(number, place),
            Trust::Whole | Trust::Forged => {}
        }
        if reply::may_be_unfit(message) && self.tries_again(number, place, link, message) {
            return;
        }
        let query = self.queries.get(place);
        match query.client {
            Client::Udp { endpoint, to, from } => {
                let queue = &mut self.reply_queues[usize::from(endpoint)];
                queue.hand_on(Receiver { to, from }, &query.bytes, query.asked, message, &mut self.counts);
                self.rcodes.add_of(message);
            }
            Client::Tcp(caller) => {
                let restore = |reply: &mut [u8]| query.asked.restore(&query.bytes, reply);
                self.clients.reply(caller, message, restore);
            }
            Client::Inner(number) => self.answers.replied(number, message),
            Client::Check => self.hear_check(number, query.sent_ns, message),
        }
        self.queries.take_back(place);
        self.queries.forget(place);
    }

    /// Reads queries from clients' connections.
    pub(crate) fn hear_clients(&mut self, input: &mut [u8]) {
        for _ in 0..self.clients.ready() {
            let Some((caller, filled, mut most)) = self.clients.read(input) else { continue };
            let (mut bytes, mut is_dns) = (&input[..filled], true);
            while most > 0 {
                match first_frame(bytes) {
                    Ok(Some((query, used))) => {
                        self.clients.begin(caller, self.now_ns);
                        self.take(Client::Tcp(caller), query);
                        bytes = &bytes[used..];
                        most -= 1;
                    }
                    Ok(None) => break,
                    Err(_) => {
                        is_dns = false;
                        break;
                    }
                }
            }
            self.clients.keep(caller, bytes, is_dns);
        }
    }
}

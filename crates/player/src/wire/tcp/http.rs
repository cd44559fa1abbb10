//! HTTP/2 between messages and TLS (RFC 8484, RFC 9113). Each message is a request on a stream of its own, with ID 0.
//! The stream says which query a reply answers, and the reply gets the query's ID before the books see it.

use std::cell::RefCell;
use std::rc::Rc;

use kqps_http::{ALPN, ClientSession, Fate, Requests};
use kqps_message::may_be_replayed;
use kqps_tls::Failure;

use super::frame::{LENGTH_BYTES, first_message};
use super::layer::{Arrived, Broken, Ends, Fault, Layer, Rest, Room};
use super::secure::{self, Secure, UNREAD, rest_of};
use crate::connections::{ConnectionCounts, HttpCounts, TlsCounts, count};
use crate::loss::Loss;
use crate::reply::Cause;

/// State that the connections of a thread share.
pub(crate) struct Shared {
    secure: secure::Shared,
    /// The requests to each target.
    requests: Vec<Rc<RefCell<Requests>>>,
    counts: Rc<RefCell<HttpCounts>>,
}

impl Shared {
    pub(super) fn new(secure: secure::Shared, requests: Vec<Requests>) -> Self {
        let requests = requests.into_iter().map(|requests| Rc::new(RefCell::new(requests))).collect();
        Self { secure, requests, counts: Rc::default() }
    }
}

/// TLS with HTTP/2 in it, of one connection.
#[derive(Default)]
pub(crate) struct Http {
    secure: Secure,
    /// `None` until TCP has connected.
    streams: Option<Streams>,
    /// Whether the handshake agreed on HTTP/2.
    is_open: bool,
}

/// The streams of one connection.
struct Streams {
    session: ClientSession,
    requests: Rc<RefCell<Requests>>,
    counts: Rc<RefCell<HttpCounts>>,
    /// Queries that were lost alone, and why.
    lost: Vec<(u16, Loss)>,
    /// Messages that wait for a stream, their bytes with lengths, and until when their waits are counted, nanoseconds.
    waiting: usize,
    waiting_bytes: usize,
    waited_until_ns: u64,
    /// Whether it is counted that the subject goes away.
    is_away_counted: bool,
}

impl Layer for Http {
    type Shared = Shared;

    const HAS_STREAMS: bool = true;

    fn counts() -> Option<TlsCounts> {
        Some(TlsCounts::default())
    }

    fn begin(&mut self, shared: &Shared, ends: Ends, waiting: &[u8]) -> Result<(), Fault> {
        self.secure.begin(&shared.secure, ends, waiting)?;
        self.streams = Some(Streams::new(shared, ends.target)?);
        Ok(())
    }

    #[inline]
    fn is_open(&self) -> bool {
        self.is_open
    }

    #[inline]
    fn takes_early_data(&self) -> bool {
        self.secure.takes_early_data()
    }

    fn count_opened(&self, took_us: u64, counts: Option<&mut TlsCounts>) {
        self.secure.count_opened(took_us, counts);
    }

    #[inline]
    fn has_own_bytes(&self) -> bool {
        let may_ask = |streams: &Streams| streams.waiting > 0 || streams.session.is_going_away();
        self.secure.has_own_bytes() || (self.is_open && self.streams.as_ref().is_some_and(may_ask))
    }

    fn outgoing<'a>(
        &'a mut self,
        messages: &'a mut Vec<u8>,
        now_ns: u64,
        wanted: impl FnMut(u16) -> bool,
    ) -> Result<&'a mut Vec<u8>, Fault> {
        let Self { secure, streams, is_open } = self;
        if let Some(streams) = streams.as_mut().filter(|_| *is_open) {
            let asked = streams.ask(messages, now_ns, wanted, |session| {
                if secure.packing() { Ok(()) } else { seal(secure, session) }
            });
            seal(secure, &streams.session)?;
            asked?;
        } else if !messages.is_empty() && self.takes_early_data() {
            self.ask_early(messages, now_ns, wanted)?;
        }
        Ok(self.secure.outgoing_mut())
    }

    #[inline]
    fn kept(&self) -> &[u8] {
        self.secure.kept()
    }

    fn take(
        &mut self,
        bytes: &mut [u8],
        room: &mut Room,
        each: impl FnMut(Arrived<'_>),
    ) -> Result<Rest, Broken> {
        let before = self.secure.waiting();
        let opened = self.secure.decrypt(bytes, room);
        if !self.is_open && self.secure.is_open() {
            if self.secure.protocol() != Some(ALPN) {
                return Err(Fault::Tls(Failure::Alpn).into());
            }
            self.is_open = true;
        }
        let Some(streams) = self.streams.as_mut().filter(|_| self.is_open) else {
            return rest_of(opened);
        };
        let received = streams.receive(room, each);
        let has_gone_away = streams.has_gone_away();
        // After a failure TLS takes no more bytes, and the failure says why.
        let rest = rest_of(opened)?;
        self.seal().map_err(Fault::Tls)?;
        received?;
        if !self.secure.has_room_for_answers(before) {
            if let Some(streams) = &self.streams {
                count(&mut streams.counts.borrow_mut().failures, &format!("HTTP/2: {UNREAD}"), 1);
            }
            return Err(Fault::Http.into());
        }
        Ok(if has_gone_away { Rest::GoneAway } else { rest })
    }

    fn each_lost(&mut self, mut each: impl FnMut(u16, Loss)) {
        if let Some(streams) = &mut self.streams {
            streams.lost.drain(..).for_each(|(key, loss)| each(key, loss));
        }
    }

    fn tickets(shared: &Shared, target: usize) -> u64 {
        Secure::tickets(&shared.secure, target)
    }

    fn has_settings(&self) -> bool {
        self.streams.as_ref().is_none_or(|streams| streams.session.has_settings())
    }

    fn takes_more(&self) -> bool {
        self.streams.as_ref().is_none_or(|streams| !streams.session.is_going_away())
    }

    fn abandon(&mut self, lost_before_ns: u64) -> bool {
        self.streams.as_mut().is_some_and(|streams| streams.session.abandon_before(lost_before_ns))
    }

    fn has_gone_away(&self) -> bool {
        self.streams.as_ref().is_some_and(Streams::has_gone_away)
    }

    fn ended(&mut self, was_made: bool, now_ns: u64, counts: Option<&mut TlsCounts>) {
        self.secure.ended(was_made, now_ns, counts);
        if let Some(streams) = &mut self.streams {
            // No message waits any more.
            streams.count_waits(&[], (streams.waiting, streams.waiting_bytes), now_ns);
        }
    }

    fn last_bytes(&mut self, has_failed: bool) -> &[u8] {
        if let Some(streams) = self.streams.as_mut().filter(|_| self.is_open && !has_failed) {
            streams.session.close();
            // A connection whose keys are used up closes without GOAWAY.
            let _ = self.seal();
        }
        self.secure.last_bytes(has_failed)
    }

    fn finish(shared: &Shared, counts: &mut ConnectionCounts) {
        Secure::finish(&shared.secure, counts);
        counts.http = Some(shared.counts.take());
    }
}

impl Http {
    /// Asks the first messages in early data, as far as they may be replayed and there is room for them.
    fn ask_early(
        &mut self,
        messages: &mut Vec<u8>,
        now_ns: u64,
        mut wanted: impl FnMut(u16) -> bool,
    ) -> Result<(), Fault> {
        let mut used = 0;
        while let Some(message) = first_message(&messages[used..]).filter(|message| may_be_replayed(message))
        {
            let Some(streams) = self.streams.as_mut().filter(|_| self.secure.takes_early_data()) else {
                break;
            };
            let bytes = LENGTH_BYTES + message.len();
            if !wanted(key_of(message)) {
                used += bytes;
                continue;
            }
            if !streams.ask_one(message, now_ns) {
                break;
            }
            streams.session.advance()?;
            used += bytes;
            self.secure.note_early(1);
            self.seal()?;
        }
        messages.drain(..used);
        Ok(())
    }

    /// Passes what HTTP/2 framed to TLS.
    fn seal(&mut self) -> Result<(), Failure> {
        self.streams.as_ref().map_or(Ok(()), |streams| seal(&mut self.secure, &streams.session))
    }
}

/// Passes what HTTP/2 framed to TLS.
fn seal(secure: &mut Secure, session: &ClientSession) -> Result<(), Failure> {
    if session.has_outgoing() { session.take_outgoing(|bytes| secure.seal(bytes)) } else { Ok(()) }
}

impl Streams {
    fn new(shared: &Shared, target: usize) -> Result<Self, Fault> {
        Ok(Self {
            session: ClientSession::new()?,
            requests: Rc::clone(&shared.requests[target]),
            counts: Rc::clone(&shared.counts),
            lost: Vec::new(),
            waiting: 0,
            waiting_bytes: 0,
            waited_until_ns: 0,
            is_away_counted: false,
        })
    }

    /// Whether the subject goes away, and has answered all that it will.
    fn has_gone_away(&self) -> bool {
        self.session.is_going_away() && self.session.open() == 0
    }

    /// Asks the messages that there are streams for, and counts the wait of the others. Those whose queries are not
    /// `wanted` any more need no stream. Calls `framed` after the frames of each request.
    fn ask(
        &mut self,
        messages: &mut Vec<u8>,
        now_ns: u64,
        mut wanted: impl FnMut(u16) -> bool,
        mut framed: impl FnMut(&ClientSession) -> Result<(), Failure>,
    ) -> Result<(), Fault> {
        // The messages that do not wait any more, and their bytes.
        let (mut gone, mut used, mut has_asked) = (0, 0, false);
        while let Some(message) = first_message(&messages[used..]) {
            if wanted(key_of(message)) {
                if !self.ask_one(message, now_ns) {
                    break;
                }
                // The library may take the next request only after it has framed the one before.
                self.session.advance()?;
                framed(&self.session)?;
                has_asked = true;
            }
            used += LENGTH_BYTES + message.len();
            gone += 1;
        }
        if !has_asked {
            self.session.advance()?;
        }
        messages.drain(..used);
        self.note_away();
        if self.session.is_going_away() {
            self.give_up(messages);
        }
        self.count_waits(messages, (gone, used), now_ns);
        Ok(())
    }

    /// Asks a message, if there is a stream for it. Returns whether it did.
    fn ask_one(&mut self, message: &[u8], now_ns: u64) -> bool {
        self.session.has_room()
            && self.session.ask(key_of(message), message, &mut self.requests.borrow_mut(), now_ns)
    }

    /// No stream will be opened for these messages.
    fn give_up(&mut self, messages: &mut Vec<u8>) {
        let mut at = 0;
        while let Some(message) = first_message(&messages[at..]) {
            self.lost.push((key_of(message), Loss::GoAway));
            at += LENGTH_BYTES + message.len();
        }
        messages.clear();
    }

    /// Counts the messages that began to wait since the last call, and the time of all waits since then. The first
    /// `gone` of those that waited do not wait any more.
    fn count_waits(&mut self, messages: &[u8], (gone, gone_bytes): (usize, usize), now_ns: u64) {
        let waited_ns = now_ns.saturating_sub(self.waited_until_ns) * self.waiting as u64;
        self.waited_until_ns = now_ns;
        let is_idle = self.waiting == 0 && messages.is_empty();
        if is_idle {
            return;
        }
        let mut waiting = self.waiting.saturating_sub(gone);
        let mut at = self.waiting_bytes.saturating_sub(gone_bytes).min(messages.len());
        if messages.is_empty() {
            waiting = 0;
        }
        let before = waiting;
        while let Some(message) = first_message(&messages[at..]) {
            waiting += 1;
            at += LENGTH_BYTES + message.len();
        }
        let mut counts = self.counts.borrow_mut();
        counts.blocked += (waiting - before) as u64;
        counts.blocked_ns += waited_ns;
        (self.waiting, self.waiting_bytes) = (waiting, at);
    }

    /// Counts once that the subject goes away.
    fn note_away(&mut self) {
        if let Some(reason) = self.session.away().filter(|_| !self.is_away_counted) {
            count(&mut self.counts.borrow_mut().goaways, reason, 1);
            self.is_away_counted = true;
        }
    }

    /// Takes the decrypted bytes of a read, and passes on what they settle.
    fn receive(&mut self, room: &mut Room, mut each: impl FnMut(Arrived<'_>)) -> Result<(), Fault> {
        let Self { session, counts, lost, .. } = self;
        let Room { plain, message } = room;
        let received = session.receive(plain, |key, fate| match fate {
            Fate::Response { status, is_dns, body } => each(judged(key, (status, is_dns), body, message)),
            Fate::TooLong => each(Arrived::Wrong { key, cause: Cause::TooLong }),
            Fate::Reset(reason) => {
                count(&mut counts.borrow_mut().resets, &reason, 1);
                lost.push((key, Loss::StreamReset));
            }
            Fate::GoneAway => lost.push((key, Loss::GoAway)),
            Fate::Malformed(what) => {
                count(&mut counts.borrow_mut().failures, &what, 1);
                lost.push((key, Loss::Framing));
            }
        });
        if let Err(failure) = &received {
            count(&mut counts.borrow_mut().failures, &failure.to_string(), 1);
        }
        self.note_away();
        Ok(received?)
    }
}

/// The key of a message: its ID.
fn key_of(message: &[u8]) -> u16 {
    message.first_chunk().map_or(0, |id| u16::from_be_bytes(*id))
}

/// The response as the books take it: the message with the query's ID, or why it is wrong.
fn judged<'a>(key: u16, (status, is_dns): (u16, bool), body: &[u8], message: &'a mut Vec<u8>) -> Arrived<'a> {
    let wrong = |cause| Arrived::Wrong { key, cause };
    if !(200..300).contains(&status) {
        return wrong(Cause::Status(status));
    }
    if !is_dns {
        return wrong(Cause::ContentType);
    }
    match body.split_first_chunk::<2>() {
        None => wrong(Cause::Short),
        Some((&[0, 0], after_id)) => {
            message.clear();
            message.extend_from_slice(&key.to_be_bytes());
            message.extend_from_slice(after_id);
            Arrived::Message(message)
        }
        Some(_) => wrong(Cause::Id),
    }
}

#[cfg(test)]
mod tests;

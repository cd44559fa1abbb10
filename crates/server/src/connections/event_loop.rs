//! The loop of all connections of a process: which runs next, and which is closed since it makes no progress.

use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::Duration;

use kqps_kernel::clock;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};

use super::Limits;
use super::connection::{Connection, Scratch, Turn};
use super::counts::{End, TcpReport, add_counts};
use super::keeper::{Accepting, Keeper};
use crate::answer::Answer;
use crate::counts::Cause;
use crate::later::{Letters, Mailbox, Origin};
use crate::sockets::ListeningSocket;
use crate::worker::StopFlag;

/// Events per call.
const EVENTS: usize = 1024;

/// If the system has no free descriptor, one idle connection makes room, and the loop accepts again after a pause.
const ACCEPTING: Accepting = Accepting { in_turn: 64, spare: 1, goes_on: false };

/// The tokens of the waker and of the mailbox, and the first of the keeper's tokens.
const WAKER: Token = Token(0);
const MAIL: Token = Token(1);
const FIRST: Token = Token(2);

/// The connections, and what they share. A connection is known by its slot.
pub(super) struct ConnectionLoop<A: Answer> {
    poll: Poll,
    keeper: Keeper<Connection<A::Many>>,
    /// How long a connection may make no progress.
    idle_ns: u64,
    scratch: Scratch<A>,
    /// Brings answers that come later, if any do.
    mailbox: Option<Arc<Mailbox>>,
    letters: Letters,
}

impl<A: Answer> ConnectionLoop<A> {
    pub(super) fn new(
        listeners: Vec<ListeningSocket>,
        limits: Limits,
        answer: A,
    ) -> io::Result<(Self, Arc<Waker>)> {
        let poll = Poll::new()?;
        let keeper = Keeper::new(listeners, limits, ACCEPTING, poll.registry(), FIRST)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let mailbox = answer.mailbox();
        if let Some(mailbox) = &mailbox {
            let descriptor = mailbox.as_raw_fd();
            poll.registry().register(&mut SourceFd(&descriptor), MAIL, Interest::READABLE)?;
        }
        let (scratch, letters) = (Scratch::new(answer), Letters::default());
        Ok((Self { poll, keeper, idle_ns: limits.idle_ns(), scratch, mailbox, letters }, waker))
    }

    /// Serves until it is stopped.
    pub(super) fn serve(&mut self, stop: &StopFlag) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let mut now_ns = clock::now_ns();
        while !stop.is_set() {
            match self.poll.poll(&mut events, self.timeout(now_ns)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                Err(_) => events.clear(),
                Ok(()) => {}
            }
            now_ns = clock::now_ns();
            self.note(&events);
            if events.iter().any(|event| event.token() == MAIL) {
                self.deliver(now_ns)?;
            }
            self.keeper.accept(self.poll.registry(), now_ns);
            for _ in 0..self.keeper.ready() {
                if let Some(slot) = self.keeper.next_ready() {
                    self.turn(slot, now_ns);
                }
            }
            self.scratch.answer.end_turn();
            self.look(now_ns);
        }
        Ok(())
    }

    /// Hands answers that came later to their connections, which write them in their next turn.
    fn deliver(&mut self, now_ns: u64) -> io::Result<()> {
        let Self { keeper, scratch, mailbox, letters, .. } = self;
        mailbox.as_ref().map_or(Ok(()), |mailbox| mailbox.take(letters))?;
        for (origin, answer) in letters.iter() {
            let Origin::Connection(place) = origin else { continue };
            let slot = place.slot as usize;
            let is_same = keeper.connections.turn(slot) == place.turn;
            // A query whose connection has ended was counted then.
            let Some(connection) = keeper.connections.get_mut(slot).filter(|_| is_same) else { continue };
            scratch.settled += 1;
            connection.come(place, answer, scratch, now_ns);
            keeper.queue(slot);
        }
        letters.clear();
        Ok(())
    }

    /// How long to wait for events before something is due; `None` for ever.
    fn timeout(&self, now_ns: u64) -> Option<Duration> {
        let oldest = self.keeper.connections.oldest();
        let late_ns = oldest.map(|(active_ns, _)| active_ns.saturating_add(self.idle_ns));
        let next_ns = [self.keeper.due_ns(now_ns), late_ns].into_iter().flatten().min()?;
        let left = Duration::from_nanos(next_ns.saturating_sub(now_ns));
        // Polling has a resolution of 1 ms. Rounded down, it would return too early, again and again.
        Some(if left.is_zero() { left } else { left + Duration::from_millis(1) })
    }

    fn note(&mut self, events: &Events) {
        for event in events {
            let Token(token) = event.token();
            let Some(place) = token.checked_sub(FIRST.0) else { continue };
            let Some((_, connection)) = self.keeper.note(place) else { continue };
            connection.note(event.is_readable(), event.is_read_closed() || event.is_error());
        }
    }

    fn turn(&mut self, slot: usize, now_ns: u64) {
        let number = u32::try_from(slot).expect("a process has fewer descriptors");
        self.scratch.at = (number, self.keeper.connections.turn(slot));
        let Some(connection) = self.keeper.connections.get_mut(slot) else { return };
        match connection.turn(&mut self.scratch, now_ns) {
            Turn::Waits => {
                if self.keeper.watch(slot, self.poll.registry()).is_err() {
                    self.end(slot, End::Broken);
                }
            }
            Turn::Again => self.keeper.queue(slot),
            Turn::Ended(end) => self.end(slot, end),
        }
    }

    /// Ends a connection. Its queries without an answer are counted before the client can see the end.
    fn end(&mut self, slot: usize, end: End) {
        if let Some(connection) = self.keeper.connections.get_mut(slot) {
            let waiting = connection.waiting();
            self.scratch.counts.drop_many(Cause::ClientGone, waiting);
            self.scratch.settled += waiting;
        }
        self.keeper.end(slot, end);
    }

    /// Closes connections without progress.
    fn look(&mut self, now_ns: u64) {
        let Some(since_ns) = now_ns.checked_sub(self.idle_ns) else { return };
        while let Some(slot) = self.keeper.connections.inactive_since(since_ns) {
            let Some(connection) = self.keeper.connections.get_mut(slot) else { return };
            let end = connection.end_in_time();
            self.end(slot, end);
        }
    }

    /// Closes all connections, and returns the counts.
    pub(super) fn close(mut self) -> TcpReport {
        self.keeper.close();
        let Scratch { answer, counts, transfers, settled, rcodes, .. } = &mut self.scratch;
        counts.drop_many(Cause::Stopped, counts.later() - *settled);
        let report = self.keeper.report(counts);
        let mut response_rcodes = answer.response_rcodes();
        add_counts(&mut response_rcodes, rcodes.report());
        TcpReport { transfers: *transfers, response_rcodes, ..report }
    }
}

//! What every loop shares besides the deck: when a thread rests, when it stops, and how it drains.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use kqps_kernel::address::Address;
use kqps_kernel::poll::PollSet;
use kqps_kernel::udp::UdpSocket;

use crate::deck::{Deck, Due};
use crate::plan::Plan;

/// A thread without work looks at its stop flag at least this often.
const NAP_LONGEST_NS: u64 = 5_000_000;

/// Naps of a closed loop that waits for replies to come together, at least and at most.
const NAP_NS: u64 = 5_000;
const NAP_MOST_NS: u64 = 200_000;

/// After so many naps without a reply a closed loop waits for the next one instead.
const NAPS_MOST: u32 = 4;

/// How often the kernel is asked again when it has no room for a packet, and how long is waited before.
const SEND_TRIES: u32 = 20;
const SEND_NAP_NS: u64 = 50_000;

/// A thread's surroundings during a trial.
pub struct Stage<'a> {
    pub(crate) deck: Deck<'a>,
    pub(super) sockets: &'a [UdpSocket],
    pub(super) target: Address,
    pub(super) burst_most: usize,
    /// Sockets that fell back from segmentation to single sends.
    pub(crate) fallbacks: u32,
    drain_ns: u64,
    signals: Signals<'a>,
    readable: PollSet,
    naps: u32,
}

/// How a thread and its crew tell each other where they are.
#[derive(Clone, Copy)]
pub struct Signals<'a> {
    /// Tells that the thread is ready, and waits to be told the common start.
    pub(crate) ready: &'a dyn Fn() -> u64,
    /// Set when the trial is to end early.
    pub(crate) stop: &'a AtomicBool,
    /// Tells that the last query was sent.
    pub(crate) all_sent: &'a dyn Fn(),
}

impl<'a> Stage<'a> {
    pub(crate) fn new(plan: &Plan, sockets: &'a [UdpSocket], deck: Deck<'a>, signals: Signals<'a>) -> Self {
        Self {
            deck,
            sockets,
            target: plan.target.into(),
            burst_most: plan.burst,
            fallbacks: 0,
            drain_ns: plan.drain.as_nanos() as u64,
            signals,
            readable: PollSet::new(sockets),
            naps: 0,
        }
    }

    /// Waits for the common start. Call it when all memory is there: what takes time after it shows as lag.
    pub(super) fn begin(&mut self) {
        let start_ns = (self.signals.ready)();
        self.deck.begin(start_ns);
    }

    /// The time now, and whether there is still something to send. Call it once a turn.
    #[inline]
    pub(super) fn turn(&mut self) -> (u64, bool) {
        let now_ns = self.deck.now_ns();
        if self.signals.stop.load(Relaxed) {
            self.deck.stop(now_ns);
        }
        (now_ns, !self.deck.is_played(now_ns))
    }

    /// Rests until there is likely something to do: until a burst is due, or replies have come together.
    /// `heard` says whether a reply came in this turn.
    pub(super) fn rest(&mut self, now_ns: u64, heard: bool) -> io::Result<()> {
        if let Some(wake_ns) = self.deck.wake_at_ns(self.burst_most) {
            self.deck.sleep_until_ns(wake_ns.min(now_ns + NAP_LONGEST_NS));
            return Ok(());
        }
        self.naps = if heard { 0 } else { self.naps + 1 };
        match self.deck.refill_ns(self.burst_most) {
            // Replies are left to come together: looking at every one costs both sides more than it brings.
            Some(refill_ns) if self.naps < NAPS_MOST => {
                self.deck.sleep_until_ns(now_ns + refill_ns.clamp(NAP_NS, NAP_MOST_NS));
            }
            _ => {
                self.readable.wait(NAP_LONGEST_NS)?;
            }
        }
        Ok(())
    }

    /// Everything was sent: tells the crew, then listens through `hear` until every query is settled or the
    /// drain is over, and settles the rest.
    pub(super) fn drain(
        &mut self,
        mut hear: impl FnMut(&mut Self, u64) -> io::Result<bool>,
    ) -> io::Result<()> {
        let played_ns = self.deck.now_ns();
        self.deck.played(played_ns);
        (self.signals.all_sent)();
        let end_ns = played_ns + self.drain_ns;
        loop {
            let now_ns = self.deck.now_ns();
            hear(self, now_ns)?;
            if now_ns >= end_ns || self.deck.is_settled() {
                break;
            }
            self.readable.wait((end_ns - now_ns).min(NAP_LONGEST_NS))?;
        }
        self.deck.end();
        Ok(())
    }

    /// Sends through `send`, which says how many messages the kernel took of those that are left; asks again
    /// for a while when it has no room. What it refused in the end is booked with its error.
    #[inline]
    pub(super) fn send_all(
        &mut self,
        socket: usize,
        messages: usize,
        mut send: impl FnMut(&UdpSocket, usize) -> io::Result<usize>,
        mut book: impl FnMut(&mut Deck<'a>, usize, Result<(), i32>),
    ) {
        let (mut first, mut tries) = (0, 0);
        while first < messages {
            let errno = match send(&self.sockets[socket], first) {
                Ok(0) if tries < SEND_TRIES => {
                    tries += 1;
                    self.deck.sleep_until_ns(self.deck.now_ns() + SEND_NAP_NS);
                    continue;
                }
                Ok(0) => WOULD_BLOCK,
                Ok(taken) => {
                    self.deck.tally.messages_sent += taken as u64;
                    (first..first + taken).for_each(|message| book(&mut self.deck, message, Ok(())));
                    first += taken;
                    continue;
                }
                Err(error) => error.raw_os_error().unwrap_or(0),
            };
            book(&mut self.deck, first, Err(errno));
            first += 1;
        }
    }
}

/// `EAGAIN`.
const WOULD_BLOCK: i32 = 11;

/// Copies a query into a buffer of its length, with its ID.
#[inline]
pub(super) fn write_query(deck: &Deck<'_>, due: &Due, buffer: &mut [u8]) {
    buffer.copy_from_slice(deck.query(due.query).message);
    buffer[..2].copy_from_slice(&due.id.to_be_bytes());
}

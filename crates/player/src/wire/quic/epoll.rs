//! `epoll`: one wait returns the sockets that are readable, one call reads what has arrived on a socket, and one call
//! sends the packets that a burst needs, in segments (`UDP_GRO`, `UDP_SEGMENT`).

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use super::places::Places;
use crate::books::Due;
use crate::plan::BURST_MOST;
use crate::thread::{NAP_LONGEST_NS, PlayerThread, TICK_NS};

/// An open loop sleeps through a wait that is no longer than this, since replies have the kernel's time of arrival.
const SOON_NS: u64 = 100_000;

type QuicThread<'a> = PlayerThread<'a, Places<'a>>;

pub(super) fn play(thread: &mut QuicThread<'_>) -> io::Result<()> {
    let mut burst = Vec::with_capacity(BURST_MOST);
    let mut next_tick_ns = 0;
    thread.open_kept()?;
    if !thread.begin()? {
        return Ok(());
    }
    let mut received = false;
    loop {
        let (now_ns, more) = thread.turn();
        if !more {
            break;
        }
        let sent = send_due(thread, &mut burst);
        // A single wait a turn: it returns at once if there is something to read.
        let most_ns = if sent && !thread.sends_first() { 0 } else { rest(thread, next_tick_ns, received) };
        received = receive(thread, &mut next_tick_ns, now_ns, most_ns)?;
    }
    thread.drain_with(
        |thread, now_ns| receive(thread, &mut next_tick_ns, now_ns, 0),
        |thread, most_ns| thread.wire.look(&mut thread.state, Some(most_ns.min(TICK_NS))).map(drop),
        |_| (),
    )
}

impl QuicThread<'_> {
    fn open_kept(&mut self) -> io::Result<()> {
        let (stop, broken) = self.stop_signals();
        self.wire.open_kept(&mut self.state, || stop.is_asked() || broken.load(Relaxed))
    }
}

/// Hands the due queries to connections. Returns whether there were any.
#[inline]
fn send_due(thread: &mut QuicThread<'_>, burst: &mut Vec<Due>) -> bool {
    let mut sent = false;
    while let Some((flow, now_ns)) = thread.take_burst(burst) {
        thread.state.books.tally.send_began(now_ns);
        // The time at which a connection has the query: what follows is its latency.
        thread.state.sent(flow, now_ns, burst);
        thread.state.books.tally.messages_sent += 1;
        thread.wire.hand(&mut thread.state, flow, burst, now_ns);
        sent = true;
    }
    sent
}

/// Looks at the sockets, for `most_ns` at most, and settles queries by time at each tick. Every socket that was
/// readable at `now_ns` has then been read.
fn receive(
    thread: &mut QuicThread<'_>,
    next_tick_ns: &mut u64,
    now_ns: u64,
    most_ns: u64,
) -> io::Result<bool> {
    let received = thread.wire.look(&mut thread.state, Some(most_ns))?;
    let is_loading = thread.state.supply.all_sent_ns().is_none();
    thread.wire.expire(&mut thread.state, is_loading);
    if now_ns >= *next_tick_ns {
        let since_ns = (now_ns + TICK_NS).saturating_sub(*next_tick_ns);
        *next_tick_ns = now_ns + TICK_NS;
        thread.state.tick(now_ns, since_ns);
        thread.state.books.expire(now_ns);
        thread.wire.tend(&mut thread.state, now_ns);
    }
    Ok(received)
}

/// How long to wait for something to read, nanoseconds: until a burst is due, or a query or a timer of a connection. If
/// that is soon, sleeps until then instead. `received` is whether something came in the last turn.
fn rest(thread: &mut QuicThread<'_>, next_tick_ns: u64, received: bool) -> u64 {
    // Reading took a while since the turn began, and what follows is a length of time.
    let now_ns = thread.state.now_ns();
    let tick_ns = next_tick_ns.saturating_sub(now_ns);
    let timer_ns = thread.wire.next_timer_ns(&thread.state).unwrap_or(u64::MAX);
    let mut most_ns = NAP_LONGEST_NS.min(timer_ns);
    if thread.state.books.waiting() > 0 {
        most_ns = most_ns.min(tick_ns.max(1));
    }
    if thread.state.is_held_back() {
        return most_ns.min(thread.state.supply.nap_most_ns());
    }
    if thread.state.is_seeking() {
        return 0;
    }
    let soon_ns = match thread.state.supply.leaves_ns(thread.burst_most) {
        Some(leaves) => {
            most_ns = most_ns.min(leaves.end().saturating_sub(now_ns));
            (most_ns <= SOON_NS && thread.wire.unfinished() == 0).then_some(most_ns)
        }
        None => match thread.state.supply.not_before_ns(thread.state.books.waiting()) {
            Some(at_ns) => return most_ns.min(at_ns.saturating_sub(now_ns)),
            None => thread.nap_ns(received),
        },
    };
    let Some(soon_ns) = soon_ns.filter(|soon_ns| *soon_ns > 0) else { return most_ns };
    thread.state.clock.sleep_until_ns(now_ns + soon_ns);
    0
}

//! `epoll`: one wait returns the connections that are ready, one write hands a burst to the kernel, and one read takes
//! all replies that have arrived on a connection.

use std::io;
use std::sync::atomic::Ordering::Relaxed;

use super::places::Places;
use crate::books::Due;
use crate::plan::BURST_MOST;
use crate::thread::{NAP_LONGEST_NS, PlayerThread, TICK_NS};

/// An open loop sleeps through a wait that is no longer than this. If two replies of one connection arrive meanwhile,
/// both have the time of the second.
const SOON_NS: u64 = 100_000;

type TcpThread<'a> = PlayerThread<'a, Places>;

pub(super) fn play(thread: &mut TcpThread<'_>) -> io::Result<()> {
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
        let sent = send_due(thread, &mut burst)?;
        // One wait a turn: it returns at once if there is something to read.
        let most_ns = if sent && !thread.sends_first() { 0 } else { rest(thread, next_tick_ns, received) };
        received = receive(thread, &mut next_tick_ns, now_ns, most_ns)?;
    }
    thread.drain_with(
        |thread, now_ns| receive(thread, &mut next_tick_ns, now_ns, 0),
        |thread, most_ns| thread.wire.look(&mut thread.state, Some(most_ns.min(TICK_NS))).map(drop),
        |_| (),
    )
}

impl TcpThread<'_> {
    fn open_kept(&mut self) -> io::Result<()> {
        let (stop, broken) = self.stop_signals();
        self.wire.open_kept(&mut self.state, || stop.is_asked() || broken.load(Relaxed))
    }
}

/// Hands the due queries to connections. Returns whether there were any.
#[inline]
fn send_due(thread: &mut TcpThread<'_>, burst: &mut Vec<Due>) -> io::Result<bool> {
    let mut sent = false;
    while let Some((flow, now_ns)) = thread.take_burst(burst) {
        thread.state.books.tally.send_began(now_ns);
        // The time at which a connection has the query: what follows is its latency.
        thread.state.sent(flow, now_ns, burst);
        thread.state.books.tally.messages_sent += 1;
        thread.wire.hand(&mut thread.state, flow, burst, now_ns)?;
        sent = true;
    }
    Ok(sent)
}

/// Looks at the connections, for `most_ns` at most, and settles queries by time at each tick. Every connection that was
/// ready at `now_ns` has then been read.
fn receive(
    thread: &mut TcpThread<'_>,
    next_tick_ns: &mut u64,
    now_ns: u64,
    most_ns: u64,
) -> io::Result<bool> {
    let received = thread.wire.look(&mut thread.state, Some(most_ns))?;
    if now_ns >= *next_tick_ns {
        let since_ns = (now_ns + TICK_NS).saturating_sub(*next_tick_ns);
        *next_tick_ns = now_ns + TICK_NS;
        thread.state.tick(since_ns);
        thread.state.books.expire(now_ns);
        let is_loading = thread.state.supply.all_sent_ns().is_none();
        thread.wire.tend(&mut thread.state, now_ns, is_loading)?;
    }
    Ok(received)
}

/// How long to wait for something to read, nanoseconds: until a burst is due, or a query or a connection times out. If
/// that is soon, sleeps until then instead, since replies have the kernel's time of arrival, and a look for each of them
/// costs more. `received` is whether a reply came in the last turn.
fn rest(thread: &mut TcpThread<'_>, next_tick_ns: u64, received: bool) -> u64 {
    // Reading took a while since the turn began, and what follows is a length of time.
    let now_ns = thread.state.now_ns();
    let tick_ns = next_tick_ns.saturating_sub(now_ns);
    let timer_ns = thread.wire.next_timer_ns(now_ns).unwrap_or(u64::MAX).max(TICK_NS);
    let mut most_ns = NAP_LONGEST_NS.min(timer_ns);
    if thread.state.books.waiting() > 0 {
        most_ns = most_ns.min(tick_ns.max(1));
    }
    if thread.state.is_held_back() {
        return most_ns.min(thread.state.supply.nap_most_ns());
    }
    let soon_ns = match thread.state.supply.leaves_ns(thread.burst_most) {
        Some(leaves) => {
            most_ns = most_ns.min(leaves.end().saturating_sub(now_ns));
            (most_ns <= SOON_NS && thread.wire.unfinished() == 0).then_some(most_ns)
        }
        None => thread.nap_ns(received),
    };
    let Some(soon_ns) = soon_ns.filter(|soon_ns| *soon_ns > 0) else { return most_ns };
    thread.state.clock.sleep_until_ns(now_ns + soon_ns);
    0
}

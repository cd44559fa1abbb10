//! `epoll`: one wait returns the sockets that are readable, one call reads what has arrived on a socket, and one call
//! sends the packets that a burst needs, in segments (`UDP_GRO`, `UDP_SEGMENT`).

use std::io;

use super::places::Places;
use crate::plan::BURST_MOST;
use crate::thread::{PlayerThread, TICK_NS};

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
        let sent = thread.send_due(&mut burst)?;
        // A single wait a turn: it returns at once if there is something to read.
        let most_ns = if sent && !thread.sends_first() { 0 } else { thread.rest_ns(next_tick_ns, received) };
        received = receive(thread, &mut next_tick_ns, now_ns, most_ns)?;
    }
    thread.drain_with(
        |thread, now_ns| receive(thread, &mut next_tick_ns, now_ns, 0),
        |thread, most_ns| thread.wire.look(&mut thread.state, Some(most_ns.min(TICK_NS))).map(drop),
        |_| (),
    )
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
    let is_loading = thread.is_loading();
    thread.wire.expire(&mut thread.state, is_loading);
    thread.tick(next_tick_ns, now_ns, now_ns)?;
    Ok(received)
}

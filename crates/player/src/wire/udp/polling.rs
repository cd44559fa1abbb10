//! The UDP sockets that a thread reads, and when. At a tick it reads all sockets with outstanding queries. In between
//! it reads those that sent a moment ago. Each tick also starts a round of looks at the sockets.

use crate::books::Books;
use crate::inflight::Inflight;
use crate::state::ThreadState;
use crate::thread::TICK_NS;

/// Every 64th round also looks at the sockets without outstanding queries. They may hold a duplicate or a datagram from
/// a stranger.
const ROUNDS_PER_WHOLE: u64 = 64;

/// Sockets that an open loop reads before it sends again. With hundreds of sockets and a slow subject, a whole round
/// takes longer than a query may be late.
const LOOKS_MOST: usize = 4;

/// The player also looks between ticks at a socket that sent within `FRESH_NS`. An open loop does so only every
/// `LOOK_NS`, since each look costs CPU time and a later look finds more replies. Replies carry the kernel's time of
/// arrival, so a later look costs no accuracy.
const FRESH_NS: u64 = 2_000_000;
const LOOK_NS: u64 = 250_000;

/// The looks of one thread at its sockets.
#[derive(Debug)]
pub(crate) struct Polling {
    sockets: Box<[Looked]>,
    /// Flows of each socket, one after another.
    each: usize,
    next_tick_ns: u64,
    /// The round of looks under way, and the number of rounds begun.
    round: Option<Round>,
    rounds: u64,
    /// The next look is the last, and covers every socket.
    is_last: bool,
}

/// When a socket was last used, nanoseconds since the start.
#[derive(Clone, Copy, Debug, Default)]
struct Looked {
    sent_ns: u64,
    /// The last time at which the socket was known to hold no reply: it was read, or had no outstanding query.
    looked_ns: u64,
}

/// A round of looks at the sockets, begun at a tick.
#[derive(Debug)]
struct Round {
    next: usize,
    /// The round skips sockets that were looked at after this time.
    since_ns: u64,
    /// Whether the round includes sockets without outstanding queries.
    everywhere: bool,
}

impl Polling {
    pub(crate) fn new(sockets: usize) -> Self {
        Self::with_flows(sockets, 1)
    }

    /// Looks at sockets of which each has this many flows.
    pub(crate) fn with_flows(sockets: usize, each: usize) -> Self {
        Self {
            sockets: vec![Looked::default(); sockets].into_boxed_slice(),
            each,
            next_tick_ns: 0,
            round: None,
            rounds: 0,
            is_last: false,
        }
    }

    /// Records that the first queries of a socket without any outstanding leave at `now_ns`.
    #[inline]
    pub(crate) fn was_idle(&mut self, socket: usize, now_ns: u64) {
        self.sockets[socket].looked_ns = now_ns;
    }

    /// Records that a burst left through a socket at `now_ns`.
    #[inline]
    pub(crate) fn sent(&mut self, socket: usize, now_ns: u64) {
        self.sockets[socket].sent_ns = now_ns;
    }

    /// Calls `look` for each socket that may hold replies now; `look` must read at least what has arrived so far. Those
    /// are the sockets that sent recently and wait for replies. At a tick, they are all sockets with outstanding
    /// queries that were not just looked at. An open loop reads a few sockets, sends what fell due meanwhile, and
    /// continues with the rest.
    #[inline]
    pub(crate) fn each_awaited<'a>(
        &mut self,
        state: &mut ThreadState<'a>,
        now_ns: u64,
        mut look: impl FnMut(&mut ThreadState<'a>, usize),
    ) {
        // If each reply makes room, no look is too soon.
        let is_open = state.supply.is_open() && !state.is_held_back();
        let looked_since_ns = if is_open { now_ns.saturating_sub(LOOK_NS) } else { now_ns };
        let is_sending = state.supply.all_sent_ns().is_none();
        let mut looks_left = if is_open && is_sending { LOOKS_MOST } else { usize::MAX };
        if self.tick(state, now_ns) && (self.round.is_none() || self.is_last) {
            self.rounds += 1;
            let everywhere = self.is_last || self.rounds.is_multiple_of(ROUNDS_PER_WHOLE);
            self.round = Some(Round { next: 0, since_ns: looked_since_ns, everywhere });
        }
        if let Some(mut round) = self.round.take() {
            while round.next < self.sockets.len() {
                if looks_left == 0 {
                    self.round = Some(round);
                    return;
                }
                let socket = round.next;
                round.next += 1;
                let looked_ns = &mut self.sockets[socket].looked_ns;
                let is_awaited =
                    unsettled(&state.books, socket, self.each) > 0 && *looked_ns <= round.since_ns;
                if round.everywhere || is_awaited {
                    *looked_ns = now_ns;
                    looks_left -= 1;
                    look(state, socket);
                }
            }
            // Every socket was read since then.
            state.books.expire(round.since_ns);
            return;
        }
        let (count, next) = (self.sockets.len(), state.books.next_flow().div_ceil(self.each));
        for back in 1..=count {
            let socket = (next + count - back) % count;
            let Looked { sent_ns, looked_ns } = &mut self.sockets[socket];
            if looks_left == 0 || (is_open && now_ns.saturating_sub(*sent_ns) > FRESH_NS) {
                break;
            }
            if waiting(&state.books, socket, self.each) > 0 && *looked_ns <= looked_since_ns {
                *looked_ns = now_ns;
                looks_left -= 1;
                look(state, socket);
            }
        }
    }

    /// Whether a round is unfinished.
    pub(crate) fn is_looking(&self) -> bool {
        self.round.is_some()
    }

    /// Advances to `now_ns`, and returns whether this is a tick. At a tick the caller must read every socket with
    /// outstanding queries, and then expire the queries with the time since which all were read.
    #[inline]
    pub(crate) fn tick(&mut self, state: &mut ThreadState<'_>, now_ns: u64) -> bool {
        if now_ns < self.next_tick_ns && !self.is_last {
            return false;
        }
        let since_ns = (now_ns + TICK_NS).saturating_sub(self.next_tick_ns);
        self.next_tick_ns = now_ns + TICK_NS;
        state.tick(now_ns, since_ns);
        true
    }

    /// Makes the next look the last one, at every socket.
    pub(crate) fn look_for_the_last_time(&mut self) {
        self.is_last = true;
    }
}

/// Unsettled queries of a socket with this many flows.
#[inline]
pub(super) fn unsettled(books: &Books<'_, Inflight>, socket: usize, each: usize) -> u32 {
    (socket * each..(socket + 1) * each).map(|flow| books.unsettled_of(flow)).sum()
}

/// Queries of a socket whose timeout has not passed.
#[inline]
fn waiting(books: &Books<'_, Inflight>, socket: usize, each: usize) -> u32 {
    (socket * each..(socket + 1) * each).map(|flow| books.waiting_of(flow)).sum()
}

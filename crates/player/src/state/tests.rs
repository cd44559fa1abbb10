//! Tests of a thread's state and of its looks at sockets, without sockets, at times that the tests choose: which
//! queries it deals, gives up and books.

use kqps_dataset::{Dataset, Options};

use super::*;
use crate::books::Times;
use crate::live::Live;
use crate::pace::Pace;
use crate::plan::Arrivals;
use crate::schedule::Schedule;
use crate::thread::TICK_NS;
use crate::walk::Walk;
use crate::wire::udp::polling::Polling;

const TIMEOUT_NS: u64 = 1_000_000_000;

/// A dataset of one query, and the counters in which a thread publishes.
pub(crate) struct Fixture {
    dataset: Dataset,
    live: Live,
    _folder: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("queries");
        std::fs::write(&file, "a.test A\n").unwrap();
        let options = Options { cache_dir: Some(folder.path().into()), ..Options::default() };
        Self { dataset: Dataset::open(&file, &options).unwrap(), live: Live::detailed(1), _folder: folder }
    }

    /// The counts that the thread has published.
    pub(crate) fn live(&self) -> &Live {
        &self.live
    }

    /// The state of an open loop: one query every millisecond for 100 s.
    pub(crate) fn state(
        &self,
        sockets: usize,
        capacity: usize,
        lag_allowed_ns: u64,
        arrivals: Arrivals,
    ) -> ThreadState<'_> {
        self.with_window(sockets, capacity, lag_allowed_ns, arrivals, None)
    }

    fn with_window(
        &self,
        sockets: usize,
        capacity: usize,
        lag_allowed_ns: u64,
        arrivals: Arrivals,
        window: Option<u64>,
    ) -> ThreadState<'_> {
        let tables = (0..sockets).map(|_| Inflight::new(capacity, fastrand::u16(..)));
        self.with_tables(tables, lag_allowed_ns, arrivals, window)
    }

    pub(crate) fn with_tables<T: Table>(
        &self,
        tables: impl Iterator<Item = T>,
        lag_allowed_ns: u64,
        arrivals: Arrivals,
        window: Option<u64>,
    ) -> ThreadState<'_, T> {
        let schedule = Schedule::new(1_000.0, 1, 0, arrivals, 0);
        let pace = Pace::Open { schedule, coalesce_ns: 0, leave_ns: None, window };
        let walk = Walk::new(&self.dataset, (1, 0), None, 0);
        let times = Times { timeout_ns: TIMEOUT_NS, settle_ns: 2 * TIMEOUT_NS, tick_ns: TICK_NS };
        ThreadState {
            clock: TrialClock::unstarted(),
            supply: Supply::new(&self.dataset, walk, pace, 100_000_000_000, lag_allowed_ns),
            books: Books::new(&self.dataset, tables, times, self.live.thread(0)),
        }
    }
}

/// A thread's state, and its looks at its sockets.
struct Polled<'a> {
    state: ThreadState<'a>,
    polling: Polling,
}

impl<'a> Polled<'a> {
    fn new(state: ThreadState<'a>) -> Self {
        let polling = Polling::new(state.books.flows());
        Self { state, polling }
    }

    /// Deals a query and records that it was sent.
    fn burst(&mut self, now_ns: u64) -> Option<(usize, Due)> {
        let dealt = burst_of(&mut self.state, now_ns);
        if let Some((socket, _)) = dealt {
            if self.state.books.unsettled_of(socket) == 1 {
                self.polling.was_idle(socket, now_ns);
            }
            self.polling.sent(socket, now_ns);
        }
        dealt
    }

    /// The sockets that the thread looks at.
    fn look(&mut self, now_ns: u64) -> Vec<usize> {
        let mut seen = Vec::new();
        self.polling.each_awaited(&mut self.state, now_ns, |_, socket| seen.push(socket));
        seen
    }

    fn lost(&self) -> u64 {
        self.state.books.tally.accounts.lost
    }
}

/// A correct reply to the query with this ID.
fn reply(state: &ThreadState<'_>, due: &Due) -> Vec<u8> {
    let mut reply = state.supply.query(due.query).message.to_vec();
    reply[..2].copy_from_slice(&due.key.to_be_bytes());
    reply[2] |= 0x80;
    reply
}

#[test]
fn a_query_that_left_after_its_time_is_late_and_not_lost_before_its_reply_comes() {
    let fixture = Fixture::new();
    let mut state = fixture.state(1, 16, u64::MAX, Arrivals::Even);
    let mut burst = Vec::new();
    let socket = state.deal(0, 1, &mut burst);
    // The thread stood still between dealing the query and sending it.
    let sent_ns = 3 * TIMEOUT_NS;
    state.sent(socket, sent_ns, &burst);
    state.books.expire(sent_ns + 1);
    let reply = reply(&state, &burst[0]);
    state.books.arrived(socket, &reply, sent_ns + TIMEOUT_NS / 10);
    let accounts = &state.books.tally.accounts;
    assert_eq!((accounts.late, accounts.lost, accounts.unsolicited), (1, 0, 0), "{accounts:?}");

    let socket = state.deal(sent_ns, 1, &mut burst);
    state.sent(socket, sent_ns, &burst);
    state.books.expire(sent_ns + 2 * TIMEOUT_NS + 1);
    assert_eq!(state.books.tally.accounts.lost, 1, "nothing is waited for longer than that");
}

#[test]
fn a_query_that_may_have_left_after_its_time_is_waited_for_too() {
    for (stood_ns, is_waited_for) in [(3 * TIMEOUT_NS, true), (TIMEOUT_NS, false)] {
        let fixture = Fixture::new();
        let mut state = fixture.state(1, 16, u64::MAX, Arrivals::Even);
        let mut burst = Vec::new();
        // Two queries left long before, and two at the moment at which the thread stood still.
        let began_ns = 2 * TIMEOUT_NS - 1_000_000;
        let mut answered = None;
        for (due_ns, sent_ns) in [(1_000_000, 1_000_000), (began_ns, began_ns)] {
            while state.supply.is_due_before(due_ns.saturating_sub(1_000_001)) {
                state.supply.take(due_ns);
            }
            let socket = state.deal(due_ns, 2, &mut burst);
            assert_eq!(burst.len(), 2);
            state.sent(socket, sent_ns, &burst);
            answered = Some(reply(&state, &burst[0]));
        }
        let now_ns = began_ns + stood_ns;
        state.tick(now_ns, stood_ns);
        let lost = |state: &ThreadState<'_>| state.books.tally.accounts.lost;
        state.books.expire(began_ns + 2 * TIMEOUT_NS + 1);
        assert_eq!(lost(&state), if is_waited_for { 2 } else { 4 }, "those that left long before are lost");
        if !is_waited_for {
            continue;
        }
        state.books.arrived(0, &answered.unwrap(), now_ns + TIMEOUT_NS / 10);
        let accounts = state.books.tally.accounts;
        assert_eq!((accounts.late, accounts.unsolicited), (1, 0), "{accounts:?}");
        state.books.expire(now_ns + 2 * TIMEOUT_NS - 1);
        assert_eq!(lost(&state), 2);
        state.books.expire(now_ns + 2 * TIMEOUT_NS + 1);
        assert_eq!(lost(&state), 3, "nothing is waited for longer than that");
    }
}

#[test]
fn when_a_socket_has_no_id_left_the_next_one_has_its_turn() {
    let fixture = Fixture::new();
    let mut state = fixture.state(2, 4, u64::MAX, Arrivals::Even);
    let mut burst = Vec::new();
    let mut dealt = Vec::new();
    // 12 queries are due, and each socket has 4 IDs. At its second turn the first socket has none left.
    for most in [4, 1, 3] {
        let socket = state.deal(11_000_000, most, &mut burst);
        state.sent(socket, 11_000_000, &burst);
        dealt.push((socket, burst.len()));
    }
    assert_eq!(dealt, [(0, 4), (1, 1), (1, 3)]);
    // All IDs are taken. What is due is given up at once.
    state.deal(11_000_000, 3, &mut burst);
    assert!(burst.is_empty());
    let accounts = state.books.tally.accounts;
    assert_eq!((accounts.intended, accounts.sent, accounts.unsent), (12, 8, 4));
    assert_eq!(state.books.tally.unsent_for_ids, 4);
    state.books.end(u64::MAX);
    assert_eq!(state.books.tally.accounts.lost, 8);
}

fn burst_of(state: &mut ThreadState<'_>, now_ns: u64) -> Option<(usize, Due)> {
    let mut burst = Vec::new();
    let socket = state.deal(now_ns, 1, &mut burst);
    state.sent(socket, now_ns, &burst);
    burst.first().map(|due| (socket, *due))
}

#[test]
fn what_a_stall_left_behind_is_given_up_at_once() {
    let fixture = Fixture::new();
    for arrivals in [Arrivals::Even, Arrivals::Poisson] {
        let mut state = fixture.state(1, 1 << 16, 10_000_000, arrivals);
        let mut burst = Vec::new();
        state.deal(90_000_000_000, 64, &mut burst);
        let accounts = state.books.tally.accounts;
        assert_eq!(accounts.intended, accounts.unsent + burst.len() as u64);
        assert!(burst.iter().all(|due| due.due_ns >= 89_990_000_000));
        let expected = 89_990..=90_001;
        assert!(arrivals == Arrivals::Poisson || expected.contains(&accounts.intended), "{accounts:?}");
        // After its end the schedule intends nothing, however long ago that was.
        state.deal(500_000_000_000, 64, &mut burst);
        assert!(burst.is_empty());
        assert!(arrivals == Arrivals::Poisson || state.books.tally.accounts.intended == 100_000);
        assert!(state.supply.is_played(500_000_000_000));
    }
}

#[test]
fn time_runs_out_for_a_query_only_after_its_socket_was_read() {
    let fixture = Fixture::new();
    let mut polled = Polled::new(fixture.state(1, 16, u64::MAX, Arrivals::Even));
    let (socket, due) = polled.burst(0).unwrap();
    let right = reply(&polled.state, &due);
    // The player stood still for an hour. The reply came after half of the timeout.
    let hour_ns = 3_600_000_000_000;
    let mut looks = 0;
    polled.polling.each_awaited(&mut polled.state, hour_ns, |state, looked_at| {
        assert_eq!(looked_at, socket);
        state.books.arrived(socket, &right, TIMEOUT_NS / 2);
        looks += 1;
    });
    let accounts = polled.state.books.tally.accounts;
    assert_eq!((looks, accounts.correct, accounts.lost), (1, 1, 0));
    assert!(polled.state.books.is_settled());
}

#[test]
fn a_wrong_reply_after_the_timeout_settles_nothing() {
    let fixture = Fixture::new();
    let mut state = fixture.state(1, 16, u64::MAX, Arrivals::Even);
    let (socket, answered) = burst_of(&mut state, 1_000_000).unwrap();
    let (_, lost) = burst_of(&mut state, 1_000_000).unwrap();
    for (due, at_ns) in [(&answered, TIMEOUT_NS + 2_000_000), (&lost, TIMEOUT_NS + 3_000_000)] {
        let mut wrong = reply(&state, due);
        wrong[13] ^= 1;
        state.books.arrived(socket, &wrong, at_ns);
    }
    let right = reply(&state, &answered);
    state.books.arrived(socket, &right, TIMEOUT_NS + 4_000_000);
    state.books.end(u64::MAX);
    let accounts = state.books.tally.accounts;
    assert_eq!((accounts.wrong, accounts.late, accounts.lost, accounts.unsolicited), (0, 1, 1, 2));
    assert_eq!((state.books.tally.wrong_late, state.books.tally.latency.len()), (2, 2));
    accounts.check().unwrap();
}

#[test]
fn between_ticks_a_socket_that_waits_is_looked_at_every_so_often() {
    let fixture = Fixture::new();
    let mut polled = Polled::new(fixture.state(2, 16, u64::MAX, Arrivals::Even));
    assert!(polled.look(5_000_000).is_empty(), "a tick, and nothing is outstanding");
    assert_eq!(polled.burst(5_100_000).unwrap().0, 0);
    assert!(polled.look(5_200_000).is_empty(), "replies are left to come together");
    assert_eq!(polled.look(5_350_000), [0]);
    assert!(polled.look(5_400_000).is_empty());
    assert_eq!(polled.burst(5_450_000).unwrap().0, 1);
    assert_eq!(polled.look(5_600_000), [0]);
    // The socket sent again, which changes nothing.
    assert_eq!(polled.burst(5_650_000).unwrap().0, 0);
    assert_eq!(polled.look(5_700_000), [1]);
    assert_eq!(polled.look(5_850_000), [0]);
}

#[test]
fn the_last_look_is_at_every_socket() {
    let fixture = Fixture::new();
    let mut polled = Polled::new(fixture.state(3, 16, u64::MAX, Arrivals::Even));
    assert!(polled.look(5_000_000).is_empty(), "nothing is outstanding");
    polled.polling.look_for_the_last_time();
    assert_eq!(polled.look(5_000_001), [0, 1, 2]);
}

#[test]
fn a_round_is_made_in_parts_so_that_what_falls_due_meanwhile_leaves() {
    let fixture = Fixture::new();
    let mut polled = Polled::new(fixture.state(20, 16, u64::MAX, Arrivals::Even));
    for socket in 0..20 {
        assert_eq!(polled.burst(25_000_000).unwrap().0, socket);
    }
    let parts: Vec<Vec<usize>> = (0..5).map(|turn| polled.look(26_000_000 + turn)).collect();
    assert_eq!(parts.concat(), (0..20).collect::<Vec<_>>());
    assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [4; 5]);
    assert!(!polled.polling.is_looking());
    // A thread that does not stand still looks at them more often than a timeout.
    for at_ns in [TIMEOUT_NS * 3 / 4, TIMEOUT_NS * 3 / 2] {
        assert_eq!((0..5).map(|turn| polled.look(at_ns + turn).len()).sum::<usize>(), 20);
    }
    // Queries time out only when all sockets were looked at, here a second and a tick later.
    let late_ns = 25_000_000 + 2 * TIMEOUT_NS + TICK_NS;
    for turn in 0..4 {
        assert_eq!((polled.look(late_ns + turn).len(), polled.lost()), (4, 0));
    }
    assert_eq!((polled.look(late_ns + 4).len(), polled.lost()), (4, 20));
}

#[test]
fn when_all_is_sent_a_round_is_made_in_one_go() {
    let fixture = Fixture::new();
    let mut polled = Polled::new(fixture.state(20, 16, u64::MAX, Arrivals::Even));
    for _ in 0..20 {
        polled.burst(25_000_000).unwrap();
    }
    assert_eq!(polled.look(26_000_000).len(), 4);
    polled.state.played(26_000_001);
    assert_eq!(polled.look(26_000_002).len(), 16, "and it is gone on with");
}

/// Deals all queries that may leave now, and records them as sent.
fn deal_all(state: &mut ThreadState<'_>, now_ns: u64) -> Vec<Due> {
    let (mut burst, mut all) = (Vec::new(), Vec::new());
    while state.is_due(now_ns, 32) {
        let socket = state.deal(now_ns, 32, &mut burst);
        state.sent(socket, now_ns, &burst);
        if burst.is_empty() {
            break;
        }
        all.append(&mut burst);
    }
    all
}

#[test]
fn what_falls_due_while_the_window_is_full_is_not_sent() {
    const MS: u64 = 1_000_000;
    let fixture = Fixture::new();
    // A query every millisecond, at most 5 outstanding.
    let mut state = fixture.with_window(1, 64, u64::MAX, Arrivals::Even, Some(5));
    let first = deal_all(&mut state, 3 * MS);
    assert_eq!(first.len(), 4);
    assert!(!state.is_held_back());
    assert_eq!(deal_all(&mut state, 7 * MS).len(), 1, "of the four that are due");
    assert!(state.is_held_back() && !state.is_due(7 * MS, 32), "the others are given up");
    assert_eq!(deal_all(&mut state, 9 * MS).len(), 0);
    let right = reply(&state, &first[0]);
    state.books.arrived(0, &right, 9 * MS);
    assert_eq!(deal_all(&mut state, 9 * MS).len(), 0, "what was due before the reply came is not sent late");
    assert_eq!(deal_all(&mut state, 11 * MS).len(), 1, "of the two that are due");
    let accounts = state.books.tally.accounts;
    assert_eq!((accounts.intended, accounts.sent, accounts.unsent), (12, 6, 6));
    // When the other queries' timeouts have passed, the window is empty again.
    state.books.expire(2 * TIMEOUT_NS);
    assert!(!state.is_held_back());
    state.books.end(u64::MAX);
    let accounts = state.books.tally.accounts;
    accounts.check().unwrap();
    assert_eq!((accounts.correct, accounts.lost), (1, 5));
    assert_eq!(state.books.tally.unsent_for_window, 6);
}

#[test]
fn what_a_player_that_stood_still_comes_to_too_late_is_not_the_windows() {
    const MS: u64 = 1_000_000;
    let fixture = Fixture::new();
    // The lag allowed is 10 ms.
    let mut state = fixture.with_window(1, 64, 10 * MS, Arrivals::Even, Some(5));
    assert_eq!(deal_all(&mut state, 4 * MS).len(), 5);
    assert!(state.is_held_back());
    assert_eq!(deal_all(&mut state, 9 * MS).len(), 0);
    assert_eq!(state.books.tally.unsent_for_window, 5, "those of 5 to 9 ms");
    assert_eq!(deal_all(&mut state, 209 * MS).len(), 0);
    // Eleven of the 200 queries that fell due meanwhile are within the lag allowed.
    assert_eq!((state.books.tally.unsent_for_window, state.books.tally.accounts.unsent), (16, 205));
}

#[test]
fn a_full_window_holds_nothing_back_beyond_the_end_of_the_load() {
    let fixture = Fixture::new();
    let mut state = fixture.with_window(1, 64, u64::MAX, Arrivals::Even, Some(5));
    let end_ns = 100_000_000_000;
    assert_eq!(deal_all(&mut state, end_ns - 1).len(), 5);
    assert!(state.supply.is_played(end_ns - 1));
    let accounts = state.books.tally.accounts;
    assert_eq!((accounts.intended, accounts.sent, accounts.unsent), (100_000, 5, 99_995));
    assert_eq!(state.books.tally.unsent_for_window, 99_995);
}

//! Tests of the deck without sockets, at times that the tests choose: which queries it deals, gives up and
//! books.

use kqps_dataset::{Dataset, Options};

use super::*;
use crate::live::Live;
use crate::plan::Arrivals;
use crate::schedule::Schedule;

const TIMEOUT_NS: u64 = 1_000_000_000;

/// A dataset of one query, and the counters in which a thread publishes.
pub(crate) struct Desk {
    dataset: Dataset,
    live: Live,
    _folder: tempfile::TempDir,
}

impl Desk {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("queries");
        std::fs::write(&file, "a.test A\n").unwrap();
        let options = Options { cache_dir: Some(folder.path().into()), ..Options::default() };
        Self { dataset: Dataset::open(&file, &options).unwrap(), live: Live::new(1), _folder: folder }
    }

    /// A deck with an open loop: one query every millisecond for 100 s.
    pub(crate) fn deck(
        &self,
        sockets: usize,
        capacity: usize,
        lag_allowed_ns: u64,
        arrivals: Arrivals,
    ) -> Deck<'_> {
        self.deck_with_window(sockets, capacity, lag_allowed_ns, arrivals, None)
    }

    fn deck_with_window(
        &self,
        sockets: usize,
        capacity: usize,
        lag_allowed_ns: u64,
        arrivals: Arrivals,
        window: Option<u64>,
    ) -> Deck<'_> {
        let schedule = Schedule::new(1_000.0, 1, 0, arrivals, 0);
        Deck::new(Setting {
            dataset: &self.dataset,
            part: Part::new(&self.dataset, 1, 0, None),
            pace: Pace::Open { schedule, coalesce_ns: 0, leave_ns: None, window },
            stop_at_ns: 100_000_000_000,
            timeout_ns: TIMEOUT_NS,
            settle_ns: 2 * TIMEOUT_NS,
            lag_allowed_ns,
            capacity,
            sockets,
            live: self.live.thread(0),
        })
    }
}

/// A correct reply to the query with this ID.
fn reply(deck: &Deck<'_>, due: &Due) -> Vec<u8> {
    let mut reply = deck.query(due.query).message.to_vec();
    reply[..2].copy_from_slice(&due.id.to_be_bytes());
    reply[2] |= 0x80;
    reply
}

#[test]
fn a_query_that_left_after_its_time_is_late_and_not_lost_before_its_reply_comes() {
    let desk = Desk::new();
    let mut deck = desk.deck(1, 16, u64::MAX, Arrivals::Even);
    let mut burst = Vec::new();
    let socket = deck.deal(0, 1, &mut burst);
    // The thread stood still between dealing the query and sending it.
    let sent_ns = 3 * TIMEOUT_NS;
    deck.sent(socket, sent_ns, &burst);
    deck.expire(sent_ns + 1);
    let reply = reply(&deck, &burst[0]);
    deck.arrived(socket, &reply, sent_ns + TIMEOUT_NS / 10);
    let accounts = &deck.tally.accounts;
    assert_eq!((accounts.late, accounts.lost, accounts.unsolicited), (1, 0, 0), "{accounts:?}");

    let socket = deck.deal(sent_ns, 1, &mut burst);
    deck.sent(socket, sent_ns, &burst);
    deck.expire(sent_ns + 2 * TIMEOUT_NS + 1);
    assert_eq!(deck.tally.accounts.lost, 1, "nothing is waited for longer than that");
}

#[test]
fn a_stamp_of_the_kernel_is_a_time_since_the_start() {
    let desk = Desk::new();
    let deck = desk.deck(1, 16, u64::MAX, Arrivals::Even);
    let stamp = (5_000_000 + deck.realtime_offset_ns) as u64;
    assert_eq!(deck.arrival_ns(Some(stamp), 7_000_000), 5_000_000);
    assert_eq!(deck.arrival_ns(Some(stamp - 5_000_001), 7_000_000), 0, "before it");
    assert_eq!(deck.arrival_ns(None, 7_000_000), 7_000_000, "as it is read");
}

#[test]
fn when_a_socket_has_no_id_left_the_next_one_has_its_turn() {
    let desk = Desk::new();
    let mut deck = desk.deck(2, 4, u64::MAX, Arrivals::Even);
    let mut burst = Vec::new();
    let mut dealt = Vec::new();
    // 12 queries are due, and each socket has 4 IDs. At its second turn the first socket has none left.
    for most in [4, 1, 3] {
        let socket = deck.deal(11_000_000, most, &mut burst);
        deck.sent(socket, 11_000_000, &burst);
        dealt.push((socket, burst.len()));
    }
    assert_eq!(dealt, [(0, 4), (1, 1), (1, 3)]);
    // All IDs are taken. The deck gives up what is due at once.
    deck.deal(11_000_000, 3, &mut burst);
    assert!(burst.is_empty());
    let accounts = deck.tally.accounts;
    assert_eq!((accounts.intended, accounts.sent, accounts.unsent), (12, 8, 4));
    assert_eq!(deck.tally.unsent_for_ids, 4);
    deck.end();
    assert_eq!(deck.tally.accounts.lost, 8);
}

fn burst_of(deck: &mut Deck<'_>, now_ns: u64) -> Option<(usize, Due)> {
    let mut burst = Vec::new();
    let socket = deck.deal(now_ns, 1, &mut burst);
    deck.sent(socket, now_ns, &burst);
    burst.first().map(|due| (socket, *due))
}

#[test]
fn what_a_stall_left_behind_is_given_up_at_once() {
    let desk = Desk::new();
    for arrivals in [Arrivals::Even, Arrivals::Poisson] {
        let mut deck = desk.deck(1, 1 << 16, 10_000_000, arrivals);
        let mut burst = Vec::new();
        deck.deal(90_000_000_000, 64, &mut burst);
        let accounts = deck.tally.accounts;
        assert_eq!(accounts.intended, accounts.unsent + burst.len() as u64);
        assert!(burst.iter().all(|due| due.due_ns >= 89_990_000_000));
        let expected = 89_990..=90_001;
        assert!(arrivals == Arrivals::Poisson || expected.contains(&accounts.intended), "{accounts:?}");
        // After its end the schedule intends nothing, however long ago that was.
        deck.deal(500_000_000_000, 64, &mut burst);
        assert!(burst.is_empty());
        assert!(arrivals == Arrivals::Poisson || deck.tally.accounts.intended == 100_000);
        assert!(deck.is_played(500_000_000_000));
    }
}

#[test]
fn time_runs_out_for_a_query_only_after_its_socket_was_read() {
    let desk = Desk::new();
    let mut deck = desk.deck(1, 16, u64::MAX, Arrivals::Even);
    let (socket, due) = burst_of(&mut deck, 0).unwrap();
    let right = reply(&deck, &due);
    // The player stood still for an hour. The reply came after half of the timeout.
    let hour_ns = 3_600_000_000_000;
    let mut looks = 0;
    deck.for_each_awaited(hour_ns, |deck, looked_at| {
        assert_eq!(looked_at, socket);
        deck.arrived(socket, &right, TIMEOUT_NS / 2);
        looks += 1;
    });
    assert_eq!((looks, deck.tally.accounts.correct, deck.tally.accounts.lost), (1, 1, 0));
    assert!(deck.is_settled());
}

#[test]
fn a_wrong_reply_after_the_timeout_settles_nothing() {
    let desk = Desk::new();
    let mut deck = desk.deck(1, 16, u64::MAX, Arrivals::Even);
    let (socket, answered) = burst_of(&mut deck, 1_000_000).unwrap();
    let (_, lost) = burst_of(&mut deck, 1_000_000).unwrap();
    for (due, at_ns) in [(&answered, TIMEOUT_NS + 2_000_000), (&lost, TIMEOUT_NS + 3_000_000)] {
        let mut wrong = reply(&deck, due);
        wrong[13] ^= 1;
        deck.arrived(socket, &wrong, at_ns);
    }
    let right = reply(&deck, &answered);
    deck.arrived(socket, &right, TIMEOUT_NS + 4_000_000);
    deck.end();
    let accounts = deck.tally.accounts;
    assert_eq!((accounts.wrong, accounts.late, accounts.lost, accounts.unsolicited), (0, 1, 1, 2));
    assert_eq!((deck.tally.wrong_late, deck.tally.latency.len()), (2, 2));
    accounts.check().unwrap();
}

/// The sockets that the deck looks at.
fn look(deck: &mut Deck<'_>, now_ns: u64) -> Vec<usize> {
    let mut seen = Vec::new();
    deck.for_each_awaited(now_ns, |_, socket| seen.push(socket));
    seen
}

#[test]
fn between_ticks_a_socket_that_waits_is_looked_at_every_so_often() {
    let desk = Desk::new();
    let mut deck = desk.deck(2, 16, u64::MAX, Arrivals::Even);
    assert!(look(&mut deck, 5_000_000).is_empty(), "a tick, and nothing is outstanding");
    assert_eq!(burst_of(&mut deck, 5_100_000).unwrap().0, 0);
    assert!(look(&mut deck, 5_200_000).is_empty(), "replies are left to come together");
    assert_eq!(look(&mut deck, 5_350_000), [0]);
    assert!(look(&mut deck, 5_400_000).is_empty());
    assert_eq!(burst_of(&mut deck, 5_450_000).unwrap().0, 1);
    assert_eq!(look(&mut deck, 5_600_000), [0]);
    // The socket sent again, which changes nothing.
    assert_eq!(burst_of(&mut deck, 5_650_000).unwrap().0, 0);
    assert_eq!(look(&mut deck, 5_700_000), [1]);
    assert_eq!(look(&mut deck, 5_850_000), [0]);
}

#[test]
fn the_last_look_is_at_every_socket() {
    let desk = Desk::new();
    let mut deck = desk.deck(3, 16, u64::MAX, Arrivals::Even);
    assert!(look(&mut deck, 5_000_000).is_empty(), "nothing is outstanding");
    deck.look_for_the_last_time();
    assert_eq!(look(&mut deck, 5_000_001), [0, 1, 2]);
}

#[test]
fn a_round_is_made_in_parts_so_that_what_falls_due_meanwhile_leaves() {
    let desk = Desk::new();
    let mut deck = desk.deck(20, 16, u64::MAX, Arrivals::Even);
    for socket in 0..20 {
        assert_eq!(burst_of(&mut deck, 25_000_000).unwrap().0, socket);
    }
    let parts: Vec<Vec<usize>> = (0..5).map(|turn| look(&mut deck, 26_000_000 + turn)).collect();
    assert_eq!(parts.concat(), (0..20).collect::<Vec<_>>());
    assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [4; 5]);
    assert!(!deck.is_looking());
    // Queries time out only when all sockets were looked at, here a second and a tick later.
    let late_ns = 25_000_000 + 2 * TIMEOUT_NS + TICK_NS;
    for turn in 0..4 {
        assert_eq!((look(&mut deck, late_ns + turn).len(), deck.tally.accounts.lost), (4, 0));
    }
    assert_eq!((look(&mut deck, late_ns + 4).len(), deck.tally.accounts.lost), (4, 20));
}

#[test]
fn when_all_is_sent_a_round_is_made_in_one_go() {
    let desk = Desk::new();
    let mut deck = desk.deck(20, 16, u64::MAX, Arrivals::Even);
    for _ in 0..20 {
        burst_of(&mut deck, 25_000_000).unwrap();
    }
    assert_eq!(look(&mut deck, 26_000_000).len(), 4);
    deck.played(26_000_001);
    assert_eq!(look(&mut deck, 26_000_002).len(), 16, "and it is gone on with");
}

/// Deals all queries that may leave now, and records them as sent.
fn deal_all(deck: &mut Deck<'_>, now_ns: u64) -> Vec<Due> {
    let (mut burst, mut all) = (Vec::new(), Vec::new());
    while deck.is_due(now_ns, 32) {
        let socket = deck.deal(now_ns, 32, &mut burst);
        deck.sent(socket, now_ns, &burst);
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
    let desk = Desk::new();
    // A query every millisecond, at most 5 outstanding.
    let mut deck = desk.deck_with_window(1, 64, u64::MAX, Arrivals::Even, Some(5));
    let first = deal_all(&mut deck, 3 * MS);
    assert_eq!(first.len(), 4);
    assert!(!deck.is_held_back());
    assert_eq!(deal_all(&mut deck, 7 * MS).len(), 1, "of the four that are due");
    assert!(deck.is_held_back() && !deck.is_due(7 * MS, 32), "the others are given up");
    assert_eq!(deal_all(&mut deck, 9 * MS).len(), 0);
    let right = reply(&deck, &first[0]);
    deck.arrived(0, &right, 9 * MS);
    assert_eq!(deal_all(&mut deck, 9 * MS).len(), 0, "what was due before the reply came is not sent late");
    assert_eq!(deal_all(&mut deck, 11 * MS).len(), 1, "of the two that are due");
    let accounts = deck.tally.accounts;
    assert_eq!((accounts.intended, accounts.sent, accounts.unsent), (12, 6, 6));
    // When the other queries' timeouts have passed, the window is empty again.
    deck.expire(2 * TIMEOUT_NS);
    assert!(!deck.is_held_back());
    deck.end();
    let accounts = deck.tally.accounts;
    accounts.check().unwrap();
    assert_eq!((accounts.correct, accounts.lost), (1, 5));
    assert_eq!(deck.tally.unsent_for_window, 6);
}

#[test]
fn what_a_player_that_stood_still_comes_to_too_late_is_not_the_windows() {
    const MS: u64 = 1_000_000;
    let desk = Desk::new();
    // The lag allowed is 10 ms.
    let mut deck = desk.deck_with_window(1, 64, 10 * MS, Arrivals::Even, Some(5));
    assert_eq!(deal_all(&mut deck, 4 * MS).len(), 5);
    assert!(deck.is_held_back());
    assert_eq!(deal_all(&mut deck, 9 * MS).len(), 0);
    assert_eq!(deck.tally.unsent_for_window, 5, "those of 5 to 9 ms");
    assert_eq!(deal_all(&mut deck, 209 * MS).len(), 0);
    // Of the 200 that fell due meanwhile, 11 are within the lag allowed.
    assert_eq!((deck.tally.unsent_for_window, deck.tally.accounts.unsent), (16, 205));
}

#[test]
fn a_full_window_holds_nothing_back_beyond_the_end_of_the_load() {
    let desk = Desk::new();
    let mut deck = desk.deck_with_window(1, 64, u64::MAX, Arrivals::Even, Some(5));
    let end_ns = 100_000_000_000;
    assert_eq!(deal_all(&mut deck, end_ns - 1).len(), 5);
    assert!(deck.is_played(end_ns - 1));
    let accounts = deck.tally.accounts;
    assert_eq!((accounts.intended, accounts.sent, accounts.unsent), (100_000, 5, 99_995));
    assert_eq!(deck.tally.unsent_for_window, 99_995);
}

//! Replies that are not a whole answer, or no answer at all, under every I/O model: how the player books each
//! of them.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use kqps_dataset::Format;
use kqps_observation::Trial;
use kqps_player::{Control, Io, LoadPlan, Plan, play};

use crate::offered::offered_io;
use crate::sockets::is_nothing;
use crate::support::{Queries, no_subject};

/// How long a reply may take. A trial ends when all of its queries are settled, so this costs no time if none is lost
/// by it.
const PATIENCE: Duration = Duration::from_secs(3);

/// The time for a reply if lost queries wait for it: longer than other programs keep the subject from a core.
const TIMEOUT: Duration = Duration::from_millis(1500);

const QUERIES: u64 = 60;

/// Plays against a subject that turns each query into a reply with `answer`.
fn played(io: Io, answer: impl Fn(&mut Vec<u8>) + Sync) -> Trial {
    played_within(PATIENCE, io, answer)
}

/// Plays as [`played`] does, with this timeout.
fn played_within(timeout: Duration, io: Io, answer: impl Fn(&mut Vec<u8>) + Sync) -> Trial {
    let text = (0..QUERIES).fold(String::new(), |text, number| text + &format!("n{number}.example.test A\n"));
    let queries = Queries::new(text, Format::Text);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let load = LoadPlan::Closed { outstanding: QUERIES };
    let plan =
        Plan { timeout, drain: timeout, ..crate::support::plan(socket.local_addr().unwrap(), 2, load, io) };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 512];
            while !stop.load(Relaxed) {
                match socket.recv_from(&mut buffer) {
                    Ok((bytes, from)) => {
                        let mut reply = buffer[..bytes].to_vec();
                        reply[2] |= 0x80;
                        answer(&mut reply);
                        socket.send_to(&reply, from).unwrap();
                    }
                    Err(error) if is_nothing(&error) => (),
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let trial = play(&plan, &queries.dataset, &Control::new(1), no_subject);
        stop.store(true, Relaxed);
        trial.unwrap()
    })
}

/// The counts of correct, wrong, lost and unsolicited, and the only cause of wrong replies.
fn booked(trial: &Trial) -> ([u64; 4], Option<&str>) {
    let accounts = &trial.accounts;
    assert!(trial.wrong_causes.len() <= 1, "{:?}", trial.wrong_causes);
    let cause = trial.wrong_causes.keys().next().map(String::as_str);
    ([accounts.correct, accounts.wrong, accounts.lost, accounts.unsolicited], cause)
}

#[test]
fn a_datagram_with_an_id_and_without_a_question_is_a_wrong_reply() {
    for io in offered_io() {
        for bytes in [2, 3, 11, 12, 13] {
            let trial = played(io, |reply| reply.truncate(bytes));
            assert_eq!(booked(&trial), ([0, QUERIES, 0, 0], Some("short")), "{} {bytes}", io.word());
        }
    }
}

#[test]
fn a_datagram_without_an_id_answers_nothing() {
    // All at the same time, since a trial mostly waits.
    std::thread::scope(|scope| {
        for io in offered_io() {
            scope.spawn(move || {
                let trial = played_within(TIMEOUT, io, |reply| reply.truncate(1));
                assert_eq!(booked(&trial), ([0, 0, QUERIES, QUERIES], None), "{}", io.word());
                assert_eq!(trial.lost_expected, [("unknown".to_string(), QUERIES)].into());
            });
        }
    });
}

#[test]
fn a_query_that_comes_back_is_no_reply() {
    for io in offered_io() {
        let trial = played(io, |reply| reply[2] &= 0x7f);
        assert_eq!(booked(&trial), ([0, QUERIES, 0, 0], Some("not-a-response")), "{}", io.word());
    }
}

#[test]
fn a_header_alone_says_that_the_query_was_not_read() {
    for io in offered_io() {
        for (rcode, name) in [(1, "FORMERR"), (4, "NOTIMP")] {
            let trial = played(io, |reply| {
                reply.truncate(12);
                (reply[3], reply[5]) = (rcode, 0);
            });
            assert_eq!(booked(&trial), ([QUERIES, 0, 0, 0], None), "{}", io.word());
            assert_eq!(trial.response_rcodes, [(name.to_string(), QUERIES)].into());
        }
    }
}

#[test]
fn what_follows_a_reply_does_not_matter() {
    for io in offered_io() {
        let trial = played(io, |reply| reply.extend(b"junk"));
        assert_eq!(booked(&trial), ([QUERIES, 0, 0, 0], None), "{}", io.word());
    }
}

#[test]
fn replies_that_were_cut_at_times_are_counted() {
    // Each query is asked once, and the other replies show that an address fits.
    for io in offered_io() {
        let number = std::sync::atomic::AtomicU64::new(0);
        let trial = played(io, |reply| {
            if number.fetch_add(1, Relaxed).is_multiple_of(3) {
                reply[2] |= 2;
            }
        });
        let accounts = &trial.accounts;
        assert_eq!(
            (accounts.correct, accounts.truncated, accounts.slipped),
            (QUERIES, 20, 20),
            "{}",
            io.word()
        );
    }
}

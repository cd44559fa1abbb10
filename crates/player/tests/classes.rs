//! Classes of clients in one trial: each has its own queries, threads and fates.

use std::net::UdpSocket;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use kqps_dataset::Format;
use kqps_player::{Class, Control, Io, LoadPlan, Plan, PlanError, play_classes};

use crate::sockets::is_nothing;
use crate::support::{Queries, no_subject, plan};

/// Longer than other programs keep the server of a test from a core.
const TIMEOUT: Duration = Duration::from_millis(1500);

/// Queries for this many names that begin with a letter.
fn queries(letter: char, count: usize) -> Queries {
    let names = (0..count).map(|number| format!("{letter}{number}.test A")).collect::<Vec<_>>();
    Queries::new(names.join("\n"), Format::Text)
}

#[test]
fn each_class_has_the_fates_that_the_server_gave_it() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let closed = LoadPlan::Closed { outstanding: 2 };
    let usual = plan(socket.local_addr().unwrap(), 2, closed, Io::Plain);
    let good = Plan { threads: 2, timeout: TIMEOUT, drain: TIMEOUT, ..usual.clone() };
    // A short timeout, for the queries that get no reply.
    let short = Duration::from_millis(300);
    let bad = Plan { load: LoadPlan::Closed { outstanding: 1 }, timeout: short, drain: short, ..usual };
    let (of_good, of_bad) = (queries('g', 40), queries('b', 6));
    let (stop, asked) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let control = Control::new(3);
    let played = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 512];
            while !stop.load(Relaxed) {
                let (bytes, from) = match socket.recv_from(&mut buffer) {
                    Ok(received) => received,
                    Err(error) if is_nothing(&error) => continue,
                    Err(error) => panic!("{error}"),
                };
                let letter = char::from(buffer[13]);
                asked.lock().unwrap().push(letter);
                if letter == 'g' {
                    buffer[2] |= 0x80;
                    socket.send_to(&buffer[..bytes], from).unwrap();
                }
            }
        });
        let classes = [(&good, &of_good), (&bad, &of_bad)];
        let classes = classes.map(|(plan, queries)| Class { plan, dataset: &queries.dataset });
        let played = play_classes(&classes, &control, no_subject);
        stop.store(true, Relaxed);
        played.unwrap()
    });
    let [first, second] = &played.classes[..] else { panic!("{} classes", played.classes.len()) };
    assert_eq!((first.accounts.sent, first.accounts.correct), (40, 40), "{:?}", first.lost_causes);
    assert_eq!((second.accounts.sent, second.accounts.lost), (6, 6), "{:?}", second.accounts);
    let asked = asked.into_inner().unwrap();
    assert_eq!(asked.iter().filter(|letter| **letter == 'b').count(), 6);
    let threads = [first, second].map(|trial| trial.players.first.per_thread.len());
    assert_eq!(threads, [2, 1]);
    let unsettled: i64 = played.ledger.unexplained;
    let placed: u64 = played.ledger.places.iter().map(|placed| placed.count).sum();
    assert_eq!(unsettled + placed as i64, 6, "{:?}", played.ledger);
    let counted = control.live.snapshot();
    assert_eq!(counted.sent, 46, "the live counts are those of all classes");
}

#[test]
fn a_class_that_cannot_be_played_says_why_and_none_is() {
    let queries = queries('g', 1);
    let target = "127.0.0.1:9".parse().unwrap();
    let good = plan(target, 1, LoadPlan::Closed { outstanding: 1 }, Io::Plain);
    let wrong = Plan { replay: Some(kqps_player::ReplayPlan::default()), ..good.clone() };
    let classes = [&good, &wrong].map(|plan| Class { plan, dataset: &queries.dataset });
    let error = play_classes(&classes, &Control::new(2), no_subject).unwrap_err();
    assert_eq!(error.to_string(), PlanError::NoCapture.to_string());
}

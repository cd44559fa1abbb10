//! How a load ends: what counts of one that its queries end before their answers come, of one that its time ends, and
//! of replies that come when every query is settled.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use kqps_dataset::Format;
use kqps_observation::Trial;
use kqps_player::{Arrivals, Close, Control, Io, LoadPlan, Plan, Stop, TcpPlan, Wire, play};

use crate::offered::offered_io;
use crate::support::{Queries, no_subject};

const QUERIES: usize = 40;
const DELAY: Duration = Duration::from_millis(300);
const TIMEOUT: Duration = Duration::from_millis(800);

/// Plays 40 queries once at a server that answers `answered` of them when it has them all and [`DELAY`] has passed.
fn played(load: LoadPlan, answered: usize, change: impl FnOnce(&mut Plan)) -> Trial {
    let names: Vec<String> = (0..QUERIES).map(|number| format!("q{number}.test A\n")).collect();
    let queries = Queries::new(names.concat(), Format::Text);
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut plan = Plan {
        timeout: TIMEOUT,
        drain: TIMEOUT,
        ..crate::support::plan(server.local_addr().unwrap(), 1, load, Io::Auto)
    };
    change(&mut plan);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut asked: Vec<(Vec<u8>, SocketAddr)> = Vec::new();
            while asked.len() < QUERIES {
                let mut query = [0; 512];
                let (length, from) = server.recv_from(&mut query).unwrap();
                asked.push((query[..length].to_vec(), from));
            }
            std::thread::sleep(DELAY);
            for (mut reply, to) in asked.into_iter().take(answered) {
                reply[2] |= 0x80;
                server.send_to(&reply, to).unwrap();
            }
        });
        play(&plan, &queries.dataset, &Control::new(plan.threads), no_subject).unwrap()
    })
}

/// Checks a load that its queries ended, and that lasted for `least` at least.
fn check(trial: &Trial, least: Duration) {
    let load = &trial.load;
    assert_eq!(load.correct_in_time, Some(trial.accounts.correct));
    let sending_s = load.sending_s.unwrap();
    assert!(load.duration_s >= least.as_secs_f64() && sending_s < load.duration_s, "{load:?}");
    assert!(load.duration_s <= sending_s + load.drain_s + 0.001, "{load:?}");
    let near = |one: f64, other: f64| (one - other).abs() < 1e-6 * other.max(1.0);
    assert!(near(load.answered_qps * load.duration_s, trial.accounts.correct as f64), "{load:?}");
    let mean = load.outstanding_mean.unwrap();
    // Every query was outstanding for the delay at least.
    assert!(
        mean * load.duration_s >= QUERIES as f64 * DELAY.as_secs_f64() * 0.99 && mean <= QUERIES as f64,
        "{load:?}"
    );
}

#[test]
fn a_closed_loop_that_its_queries_end_lasts_until_the_last_reply() {
    let trial = played(LoadPlan::Closed { outstanding: QUERIES as u64 }, QUERIES, |_| ());
    assert_eq!(trial.accounts.correct, QUERIES as u64);
    check(&trial, DELAY);
    let replies = trial.replies.unwrap();
    assert_eq!(replies.count, QUERIES as u64);
    assert!((replies.last_s.unwrap() - trial.load.duration_s).abs() < 1e-6, "{replies:?} {:?}", trial.load);
    assert!((trial.load.offered_qps - trial.load.answered_qps).abs() < 1e-6, "replies make room for queries");
}

#[test]
fn a_lost_query_ends_a_load_by_its_timeout() {
    let trial = played(LoadPlan::Closed { outstanding: QUERIES as u64 }, QUERIES - 1, |_| ());
    assert_eq!((trial.accounts.correct, trial.accounts.lost), (QUERIES as u64 - 1, 1));
    check(&trial, TIMEOUT);
}

#[test]
fn an_open_loop_that_its_queries_end_lasts_until_the_last_reply() {
    let load = LoadPlan::Open { rate_qps: 1_000.0, arrivals: Arrivals::Even, window: None };
    let trial = played(load, QUERIES, |_| ());
    assert_eq!(trial.accounts.correct, QUERIES as u64);
    check(&trial, DELAY);
    // The schedule does not wait for replies.
    assert!((trial.load.sending_s.unwrap() - 0.04).abs() < 1e-9, "{:?}", trial.load);
    assert!((trial.load.offered_qps - 1_000.0).abs() < 1e-6);
}

#[test]
fn the_mean_of_a_loop_that_its_time_ends_is_within_its_window() {
    let time = Duration::from_millis(100);
    let trial = played(LoadPlan::Closed { outstanding: QUERIES as u64 }, QUERIES, |plan| {
        plan.stop = Stop { after: Some(time), passes: None };
    });
    assert_eq!((trial.accounts.correct, trial.load.correct_in_time), (QUERIES as u64, Some(0)));
    let load = &trial.load;
    assert!((load.duration_s - 0.1).abs() < 1e-9 && load.sending_s == Some(load.duration_s), "{load:?}");
    let mean = load.outstanding_mean.unwrap();
    assert!((1.0..=QUERIES as f64).contains(&mean), "{load:?}");
}

/// A second reply comes when every query is settled. A drain that the user asks for counts it.
#[test]
fn a_duplicate_after_the_last_query_is_settled_counts() {
    for io in offered_io() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let serve = move || {
            let mut query = [0; 512];
            let (length, from) = server.recv_from(&mut query).unwrap();
            query[2] |= 0x80;
            server.send_to(&query[..length], from).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            server.send_to(&query[..length], from).unwrap();
        };
        listened(&crate::support::plan(address, 1, LoadPlan::Closed { outstanding: 1 }, io), serve);
    }
}

#[test]
fn a_duplicate_on_a_connection_counts_as_well() {
    for io in
        [Io::Epoll, Io::Uring].into_iter().filter(|io| *io == Io::Epoll || kqps_player::offers(*io).is_ok())
    {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serve = move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut query = [0; 512];
            let length = stream.read(&mut query).unwrap();
            query[4] |= 0x80;
            stream.write_all(&query[..length]).unwrap();
            std::thread::sleep(Duration::from_millis(100));
            stream.write_all(&query[..length]).unwrap();
            // The player closes the connection.
            while stream.read(&mut query).is_ok_and(|length| length > 0) {}
        };
        let plan = crate::support::plan(address, 1, LoadPlan::Closed { outstanding: 1 }, Io::Auto);
        listened(&Plan { wire: Wire::Tcp(kept(io)), ..plan }, serve);
    }
}

/// Plays one query at what `serve` does on a thread of its own, with an asked drain, in which a duplicate comes.
fn listened(plan: &Plan, serve: impl FnOnce() + Send) {
    let queries = Queries::new("a.test A\n", Format::Text);
    let plan = Plan { listens_on: true, ..plan.clone() };
    let trial = std::thread::scope(|scope| {
        scope.spawn(serve);
        play(&plan, &queries.dataset, &Control::new(1), no_subject).unwrap()
    });
    assert_eq!(
        (trial.accounts.correct, trial.accounts.duplicate),
        (1, 1),
        "{:?}: {:?}",
        plan.wire,
        trial.accounts
    );
    assert!(trial.load.drain_s >= plan.drain.as_secs_f64() * 0.999, "{:?}", trial.load);
    assert!(trial.load.duration_s < trial.load.drain_s, "listening is no load: {:?}", trial.load);
}

fn kept(io: Io) -> TcpPlan {
    TcpPlan {
        io,
        connections: 1,
        queries_per_connection: None,
        outstanding: 1,
        close: Close::Fin,
        connect_timeout: TIMEOUT,
        buffer_bytes: None,
        tls: None,
        device: None,
        local_port: None,
    }
}

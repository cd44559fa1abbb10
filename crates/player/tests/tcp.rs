//! Trials over TCP against servers that misbehave in known numbers: every query and every connection is accounted for.

mod connected;
mod stream;
mod support;

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use connected::{counts, played};
use kqps_dataset::Format;
use kqps_player::{Close, Control, Io, LoadPlan, Plan, Stop, TcpPlan, Wire, play};
use stream::{Server, query, reply};
use support::{Queries, no_subject};

const TIMEOUT: Duration = Duration::from_millis(300);

/// Answers all queries of a connection.
fn answer_all(mut stream: TcpStream) {
    while let Some(message) = query(&mut stream) {
        if stream.write_all(&reply(message)).is_err() {
            return;
        }
    }
}

fn plan(target: SocketAddr, load: LoadPlan, tcp: TcpPlan) -> Plan {
    let plan = support::plan(target, 1, load, Io::Auto);
    Plan { wire: Wire::Tcp(tcp), timeout: TIMEOUT, drain: TIMEOUT, ..plan }
}

fn kept(connections: usize) -> TcpPlan {
    TcpPlan {
        connections,
        queries_per_connection: None,
        outstanding: 1 << 16,
        close: Close::Fin,
        connect_timeout: Duration::from_secs(5),
        tls: None,
    }
}

const WINDOW: LoadPlan = LoadPlan::Closed { outstanding: 16 };

#[test]
fn kept_connections_are_opened_first_and_answer_all() {
    let server = Server::new(|_, stream| answer_all(stream));
    for threads in [1, 3] {
        let plan = Plan { threads, ..plan(server.address, WINDOW, kept(6)) };
        let before = server.accepted.load(Relaxed);
        let (trial, connections) = played(3000, &plan);
        assert_eq!((trial.accounts.correct, trial.accounts.unsolicited), (3000, 0), "{:?}", trial.accounts);
        assert_eq!((connections.attempts, connections.established, connections.before_load), (6, 6, 6));
        assert_eq!((connections.open, connections.handed), (6, 3000));
        assert!(connections.failed.is_empty() && connections.closed.is_empty());
        assert_eq!(server.accepted.load(Relaxed) - before, 6);
        assert_eq!(trial.players.first.io, "epoll");
    }
}

#[test]
fn each_connection_has_as_many_queries_as_it_may() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let of_server = Arc::clone(&seen);
    let server = Server::new(move |_, mut stream| {
        let mut count = 0;
        while let Some(message) = query(&mut stream) {
            count += 1;
            stream.write_all(&reply(message)).unwrap();
        }
        of_server.lock().unwrap().push(count);
    });
    for (queries, close) in [(1, Close::Fin), (7, Close::Fin), (1, Close::Rst)] {
        seen.lock().unwrap().clear();
        let tcp = TcpPlan { queries_per_connection: Some(queries), close, ..kept(8) };
        let (trial, connections) = played(700, &plan(server.address, WINDOW, tcp));
        assert_eq!(trial.accounts.correct, 700, "{:?}", trial.accounts);
        let least = 700 / u64::from(queries);
        assert_eq!((connections.attempts, connections.before_load), (connections.established, 0));
        assert!((least..least + 8).contains(&connections.attempts), "{connections:?}");
        assert_eq!(
            connections.closed.get("player").copied().unwrap_or(0) + connections.open,
            connections.attempts
        );
        // The server sees the end of the last connections a little later.
        let all = || seen.lock().unwrap().iter().sum::<u64>() == 700;
        let began = std::time::Instant::now();
        while !all() {
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", seen.lock().unwrap());
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(seen.lock().unwrap().iter().all(|count| *count <= u64::from(queries)));
    }
}

#[test]
fn replies_may_arrive_in_pieces_of_any_size_and_together() {
    let server = Server::new(|number, mut stream| {
        if number == 0 {
            while let Some(message) = query(&mut stream) {
                for byte in reply(message) {
                    stream.write_all(&[byte]).unwrap();
                }
            }
        } else {
            let mut together = Vec::new();
            while let Some(message) = query(&mut stream) {
                together.extend(reply(message));
                // The window is 16, and half of it is on each connection.
                if together.len() > 100 {
                    stream.write_all(&together).unwrap();
                    together.clear();
                }
            }
        }
    });
    let (trial, _) = played(500, &plan(server.address, WINDOW, kept(2)));
    let accounts = trial.accounts;
    assert_eq!(accounts.correct + accounts.lost + accounts.late, 500, "{accounts:?}");
    assert!(accounts.correct >= 490 && accounts.wrong == 0 && accounts.unsolicited == 0, "{accounts:?}");
}

#[test]
fn what_a_server_leaves_open_when_it_closes_is_lost_by_that() {
    // Each connection answers nine queries and closes with the tenth open.
    let unanswered = Arc::new(AtomicU64::new(0));
    let of_server = Arc::clone(&unanswered);
    let server = Server::new(move |_, mut stream| {
        for number in 0.. {
            let Some(message) = query(&mut stream) else { return };
            if number == 9 {
                of_server.fetch_add(1, Relaxed);
                return;
            }
            stream.write_all(&reply(message)).unwrap();
        }
    });
    let tcp = TcpPlan { outstanding: 1, ..kept(1) };
    let (trial, connections) = played(100, &plan(server.address, LoadPlan::Closed { outstanding: 1 }, tcp));
    assert_eq!((trial.accounts.correct, trial.accounts.lost), (90, 10), "{:?}", trial.accounts);
    assert_eq!(unanswered.load(Relaxed), 10);
    assert_eq!(trial.lost_causes, counts([("closed", 10)]));
    assert_eq!(connections.closed, counts([("closed", 10)]));
    assert_eq!((connections.established, connections.before_load), (10, 1));
}

#[test]
fn a_failing_server_does_not_make_a_closed_loop_faster() {
    let server = Server::new(|_, mut stream| {
        let _ = query(&mut stream);
    });
    let tcp = TcpPlan { queries_per_connection: Some(1), ..kept(64) };
    let mut plan = plan(server.address, LoadPlan::Closed { outstanding: 4 }, tcp);
    plan.stop = Stop { after: Some(Duration::from_secs(1)), passes: None };
    let queries = Queries::of("a.test A\n", Format::Text);
    let trial = play(&plan, &queries.dataset, &Control::new(1), no_subject).unwrap();
    // Each of the four places holds a lost query for the timeout of 300 ms.
    assert!((4..=20).contains(&trial.accounts.sent), "{:?}", trial.accounts);
    assert_eq!(trial.accounts.lost, trial.accounts.sent);
    assert_eq!(trial.lost_causes, counts([("closed", trial.accounts.sent)]));
}

#[test]
fn resets_and_refusals_have_their_causes() {
    let server = Server::new(|_, mut stream| {
        let _ = query(&mut stream);
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    });
    let tcp = TcpPlan { queries_per_connection: Some(1), ..kept(4) };
    let (trial, connections) = played(8, &plan(server.address, WINDOW, tcp.clone()));
    assert_eq!(trial.lost_causes, counts([("reset", 8)]));
    assert_eq!(connections.closed, counts([("reset", 8)]));

    // 127.0.0.2: no test listens there.
    let closed = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
    let (trial, connections) = played(8, &plan(closed, WINDOW, tcp));
    assert_eq!((trial.accounts.sent, trial.accounts.lost), (8, 8));
    assert_eq!(trial.lost_causes, counts([("refused", 8)]));
    assert_eq!((connections.attempts, connections.established), (connections.failed["refused"], 0));
    // Attempts that fail are paused, so that queries wait for them together.
    assert!((1..=8).contains(&connections.attempts), "{connections:?}");
}

#[test]
fn a_server_that_accepts_and_never_reads_times_out() {
    let server = Server::new(|_, stream| {
        std::thread::sleep(Duration::from_secs(20));
        drop(stream);
    });
    let load = LoadPlan::Open { rate_qps: 2_000.0, arrivals: kqps_player::Arrivals::Even, window: None };
    let (trial, connections) = played(400, &plan(server.address, load, kept(2)));
    assert_eq!((trial.accounts.sent + trial.accounts.unsent, trial.accounts.correct), (400, 0));
    assert_eq!(trial.lost_causes, counts([("time", trial.accounts.sent)]));
    assert_eq!((connections.established, connections.open), (2, 2));
}

#[test]
fn an_open_loop_accounts_for_every_query() {
    let server = Server::new(|_, stream| answer_all(stream));
    let load = LoadPlan::Open { rate_qps: 5_000.0, arrivals: kqps_player::Arrivals::Even, window: None };
    let (trial, connections) = played(5000, &plan(server.address, load, kept(4)));
    let accounts = &trial.accounts;
    assert_eq!(accounts.correct + accounts.unsent + accounts.late + accounts.lost, 5000, "{accounts:?}");
    assert!(accounts.correct > 0, "{accounts:?}");
    assert_eq!((connections.handed, connections.open), (accounts.sent, 4));
}

#[test]
fn what_no_connection_takes_is_unsent_by_that() {
    let server = Server::new(|_, mut stream| while query(&mut stream).is_some() {});
    let load = LoadPlan::Open { rate_qps: 1_000.0, arrivals: kqps_player::Arrivals::Even, window: None };
    let tcp = TcpPlan { queries_per_connection: Some(1), ..kept(2) };
    let (trial, _) = played(100, &plan(server.address, load, tcp));
    assert_eq!((trial.accounts.sent, trial.accounts.unsent), (2, 98), "{:?}", trial.accounts);
    assert!(trial.unsent_causes["connections"] > 0, "{:?}", trial.unsent_causes);
}

#[test]
fn a_flood_does_not_keep_a_trial_from_ending() {
    let server = Server::new(|_, mut stream| {
        let flood = reply(vec![0; 12]).repeat(1000);
        while stream.write_all(&flood).is_ok() {}
    });
    let load = LoadPlan::Open { rate_qps: 1_000.0, arrivals: kqps_player::Arrivals::Even, window: None };
    let (trial, connections) = played(50, &plan(server.address, load, kept(2)));
    assert_eq!((trial.accounts.correct, connections.open), (0, 2), "{:?}", trial.accounts);
}

#[test]
fn a_connection_that_is_not_made_in_time_has_failed() {
    // The kernel ignores further clients of a listener whose queue is full.
    let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(1).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let patience = Duration::from_millis(200);
    let waiting: Vec<TcpStream> =
        std::iter::from_fn(|| TcpStream::connect_timeout(&address, patience).ok()).collect();
    let connect_timeout = Duration::from_millis(100);
    let tcp = TcpPlan { queries_per_connection: Some(1), connect_timeout, ..kept(4) };
    let (trial, connections) = played(8, &plan(address, WINDOW, tcp));
    assert_eq!(trial.lost_causes, counts([("connect-timeout", 8)]), "{connections:?}");
    assert_eq!((connections.failed["connect-timeout"], connections.established), (8, 0));
    drop((waiting, listener));
}

//! Trials over TCP against servers that misbehave in known numbers: every query and every connection is accounted for.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kqps_dataset::Format;
use kqps_observation::{Histogram, Trial};
use kqps_player::{Close, Control, Io, LoadPlan, Plan, Stop, TcpPlan, Wire, play};

use crate::connected::{counts, played};
use crate::loops::for_each_io;
use crate::patience::within;
use crate::stream::{Server, query, reply};
use crate::support::{Queries, no_subject};

/// How long a reply may take. A trial ends when all of its queries are settled, so this costs no time if none is lost
/// by it.
const PATIENCE: Duration = Duration::from_secs(3);

/// The time for a reply if lost queries wait for it: longer than other programs keep a thread of the test from a core.
const TIMEOUT: Duration = Duration::from_millis(1500);

/// The time for a reply in trials whose queries are all lost by time.
const HASTE: Duration = Duration::from_millis(300);

/// Answers all queries of a connection.
fn answer_all(mut stream: TcpStream) {
    while let Some(message) = query(&mut stream) {
        if stream.write_all(&reply(message)).is_err() {
            return;
        }
    }
}

fn plan(target: SocketAddr, load: LoadPlan, tcp: TcpPlan) -> Plan {
    let plan = crate::support::plan(target, 1, load, Io::Auto);
    within(PATIENCE, Plan { wire: Wire::Tcp(tcp), ..plan })
}

fn kept(io: Io, connections: usize) -> TcpPlan {
    TcpPlan {
        io,
        connections,
        queries_per_connection: None,
        outstanding: 1 << 16,
        close: Close::Fin,
        connect_timeout: Duration::from_secs(5),
        buffer_bytes: None,
        tls: None,
        device: None,
        local_port: None,
    }
}

const WINDOW: LoadPlan = LoadPlan::Closed { outstanding: 16 };

for_each_io!(
    kept_connections_are_opened_first_and_answer_all,
    each_connection_has_as_many_queries_as_it_may,
    replies_may_arrive_in_pieces_of_any_size_and_together,
    what_a_server_leaves_open_when_it_closes_is_lost_by_that,
    a_failing_server_does_not_make_a_closed_loop_faster,
    resets_and_refusals_have_their_causes,
    a_server_that_accepts_and_never_reads_times_out,
    an_open_loop_accounts_for_every_query,
    what_no_connection_takes_is_unsent_by_that,
    a_flood_does_not_keep_a_trial_from_ending,
    a_connection_that_is_not_made_in_time_has_failed,
    requests_that_are_sent_again_are_counted,
    connections_alone_are_made_and_closed_and_nothing_is_asked,
    each_connection_alone_that_fails_is_one_attempt,
    the_first_query_of_each_connection_stands_apart,
    each_connection_has_a_pair_of_its_own,
);

fn kept_connections_are_opened_first_and_answer_all(io: Io) {
    let server = Server::at("127.0.0.1:0", |_, stream| answer_all(stream));
    for threads in [1, 3] {
        let plan = Plan { threads, ..plan(server.address, WINDOW, kept(io, 6)) };
        let before = server.accepted.load(Relaxed);
        let (trial, connections) = played(3000, &plan);
        assert_eq!((trial.accounts.correct, trial.accounts.unsolicited), (3000, 0), "{:?}", trial.accounts);
        assert_eq!((connections.attempts, connections.established, connections.before_load), (6, 6, 6));
        assert_eq!((connections.open, connections.handed), (6, 3000));
        assert!(connections.failed.is_empty() && connections.closed.is_empty());
        assert_eq!(server.accepted.load(Relaxed) - before, 6);
        assert_eq!(trial.players.first.io, io.word());
    }
}

fn each_connection_has_as_many_queries_as_it_may(io: Io) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let of_server = Arc::clone(&seen);
    let server = Server::at("127.0.0.1:0", move |_, mut stream| {
        let mut count = 0;
        while let Some(message) = query(&mut stream) {
            count += 1;
            stream.write_all(&reply(message)).unwrap();
        }
        of_server.lock().unwrap().push(count);
    });
    for (queries, close) in [(1, Close::Fin), (7, Close::Fin), (1, Close::Rst)] {
        seen.lock().unwrap().clear();
        let tcp = TcpPlan { queries_per_connection: Some(queries), close, ..kept(io, 8) };
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

fn replies_may_arrive_in_pieces_of_any_size_and_together(io: Io) {
    let server = Server::at("127.0.0.1:0", |number, mut stream| {
        if number == 0 {
            while let Some(message) = query(&mut stream) {
                for byte in reply(message) {
                    stream.write_all(&[byte]).unwrap();
                }
            }
        } else {
            let mut together = Vec::new();
            loop {
                // If no query comes, the player waits for the replies that are held.
                stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
                let is_there = stream.peek(&mut [0]).is_ok();
                stream.set_read_timeout(None).unwrap();
                if is_there {
                    let Some(message) = query(&mut stream) else { return };
                    together.extend(reply(message));
                }
                // The window is 16, and half of it is on each connection.
                if !is_there || together.len() > 100 {
                    stream.write_all(&together).unwrap();
                    together.clear();
                }
            }
        }
    });
    let (trial, _) = played(500, &plan(server.address, WINDOW, kept(io, 2)));
    assert_eq!((trial.accounts.correct, trial.accounts.unsolicited), (500, 0), "{:?}", trial.accounts);
}

fn what_a_server_leaves_open_when_it_closes_is_lost_by_that(io: Io) {
    // Each connection answers nine queries and closes with the tenth open.
    let unanswered = Arc::new(AtomicU64::new(0));
    let of_server = Arc::clone(&unanswered);
    let server = Server::at("127.0.0.1:0", move |_, mut stream| {
        for number in 0.. {
            let Some(message) = query(&mut stream) else { return };
            if number == 9 {
                of_server.fetch_add(1, Relaxed);
                return;
            }
            stream.write_all(&reply(message)).unwrap();
        }
    });
    let tcp = TcpPlan { outstanding: 1, ..kept(io, 1) };
    let plan = plan(server.address, LoadPlan::Closed { outstanding: 1 }, tcp);
    let (trial, connections) = played(20, &within(TIMEOUT, plan));
    assert_eq!((trial.accounts.correct, trial.accounts.lost), (18, 2), "{:?}", trial.accounts);
    assert_eq!(unanswered.load(Relaxed), 2);
    assert_eq!(trial.lost_causes, counts([("closed", 2)]));
    assert_eq!(connections.closed, counts([("closed", 2)]));
    assert_eq!((connections.established, connections.before_load), (2, 1));
}

fn a_failing_server_does_not_make_a_closed_loop_faster(io: Io) {
    let server = Server::at("127.0.0.1:0", |_, mut stream| {
        let _ = query(&mut stream);
    });
    let tcp = TcpPlan { queries_per_connection: Some(1), ..kept(io, 64) };
    let mut plan = within(HASTE, plan(server.address, LoadPlan::Closed { outstanding: 4 }, tcp));
    plan.stop = Stop { after: Some(Duration::from_secs(1)), passes: None };
    let queries = Queries::new("a.test A\n", Format::Text);
    let trial = play(&plan, &queries.dataset, &Control::new(1), no_subject).unwrap();
    // Each of the four places holds a lost query for the timeout of 300 ms.
    assert!((4..=20).contains(&trial.accounts.sent), "{:?}", trial.accounts);
    assert_eq!(trial.accounts.lost, trial.accounts.sent);
    assert_eq!(trial.lost_causes, counts([("closed", trial.accounts.sent)]));
}

fn resets_and_refusals_have_their_causes(io: Io) {
    let server = Server::at("127.0.0.1:0", |_, mut stream| {
        let _ = query(&mut stream);
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    });
    let tcp = TcpPlan { queries_per_connection: Some(1), ..kept(io, 4) };
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

fn a_server_that_accepts_and_never_reads_times_out(io: Io) {
    let server = Server::at("127.0.0.1:0", |_, stream| {
        std::thread::sleep(Duration::from_secs(20));
        drop(stream);
    });
    let load = LoadPlan::Open { rate_qps: 2_000.0, arrivals: kqps_player::Arrivals::Even, window: None };
    let (trial, connections) = played(400, &within(HASTE, plan(server.address, load, kept(io, 2))));
    assert_eq!((trial.accounts.sent + trial.accounts.unsent, trial.accounts.correct), (400, 0));
    assert_eq!(trial.lost_causes, counts([("time", trial.accounts.sent)]));
    assert_eq!((connections.established, connections.open), (2, 2));
}

fn an_open_loop_accounts_for_every_query(io: Io) {
    let server = Server::at("127.0.0.1:0", |_, stream| answer_all(stream));
    let load = LoadPlan::Open { rate_qps: 5_000.0, arrivals: kqps_player::Arrivals::Even, window: None };
    let (trial, connections) = played(5000, &within(TIMEOUT, plan(server.address, load, kept(io, 4))));
    let accounts = &trial.accounts;
    assert_eq!(accounts.correct + accounts.unsent + accounts.late + accounts.lost, 5000, "{accounts:?}");
    assert!(accounts.correct > 0, "{accounts:?}");
    assert_eq!((connections.handed, connections.open), (accounts.sent, 4));
}

fn what_no_connection_takes_is_unsent_by_that(io: Io) {
    let server = Server::at("127.0.0.1:0", |_, mut stream| while query(&mut stream).is_some() {});
    let load = LoadPlan::Open { rate_qps: 1_000.0, arrivals: kqps_player::Arrivals::Even, window: None };
    let tcp = TcpPlan { queries_per_connection: Some(1), ..kept(io, 2) };
    // No timeout frees a connection while the load runs.
    let (trial, _) = played(100, &within(TIMEOUT, plan(server.address, load, tcp)));
    assert_eq!((trial.accounts.sent, trial.accounts.unsent), (2, 98), "{:?}", trial.accounts);
    assert!(trial.unsent_causes["connections"] > 0, "{:?}", trial.unsent_causes);
}

fn a_flood_does_not_keep_a_trial_from_ending(io: Io) {
    let server = Server::at("127.0.0.1:0", |_, mut stream| {
        let flood = reply(vec![0; 12]).repeat(1000);
        while stream.write_all(&flood).is_ok() {}
    });
    let load = LoadPlan::Open { rate_qps: 1_000.0, arrivals: kqps_player::Arrivals::Even, window: None };
    let (trial, connections) = played(50, &within(HASTE, plan(server.address, load, kept(io, 2))));
    assert_eq!((trial.accounts.correct, connections.open), (0, 2), "{:?}", trial.accounts);
}

/// A listener with room for this many connections that were not accepted.
fn listener(backlog: i32) -> TcpListener {
    let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(backlog).unwrap();
    listener.into()
}

/// A listener whose queue is full, so that the kernel ignores further clients, and the connections in its queue.
fn full_listener() -> (SocketAddr, TcpListener, Vec<TcpStream>) {
    let listener = listener(1);
    let address = listener.local_addr().unwrap();
    let patience = Duration::from_millis(200);
    let waiting = std::iter::from_fn(|| TcpStream::connect_timeout(&address, patience).ok()).collect();
    (address, listener, waiting)
}

fn a_connection_that_is_not_made_in_time_has_failed(io: Io) {
    let (address, listener, waiting) = full_listener();
    let connect_timeout = Duration::from_millis(100);
    let tcp = TcpPlan { queries_per_connection: Some(1), connect_timeout, ..kept(io, 4) };
    let (trial, connections) = played(8, &plan(address, WINDOW, tcp));
    assert_eq!(trial.lost_causes, counts([("connect-timeout", 8)]), "{connections:?}");
    assert_eq!((connections.failed["connect-timeout"], connections.established), (8, 0));
    assert_eq!(connections.connections_with_retransmitted_syn, 0, "100 ms are too short for that");
    drop((waiting, listener));
}

fn requests_that_are_sent_again_are_counted(io: Io) {
    let (address, listener, waiting) = full_listener();
    let connect_timeout = Duration::from_millis(1500);
    let tcp = TcpPlan { queries_per_connection: Some(1), connect_timeout, ..kept(io, 2) };
    let patience = Duration::from_secs(10);
    let plan = plan(address, WINDOW, tcp);
    let (trial, connections) = played(2, &Plan { timeout: patience, drain: patience, ..plan });
    assert_eq!(trial.lost_causes, counts([("connect-timeout", 2)]), "{connections:?}");
    assert_eq!((connections.attempts, connections.connections_with_retransmitted_syn), (2, 2));
    assert!(connections.retransmitted >= 2, "{connections:?}");
    drop((waiting, listener));
}

/// Waits until the server has seen all of something.
fn wait_until(is_over: impl Fn() -> bool) {
    let began = std::time::Instant::now();
    while !is_over() {
        assert!(began.elapsed() < Duration::from_secs(10), "the server does not see the end");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn connections_alone_are_made_and_closed_and_nothing_is_asked(io: Io) {
    // The kernel makes connections sooner than a thread of the test accepts them.
    let listener = listener(1024);
    let address = listener.local_addr().unwrap();
    let (accepted, bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let of_server = (Arc::clone(&accepted), Arc::clone(&bytes));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let read = stream.read_to_end(&mut Vec::new()).unwrap_or(0);
            of_server.1.fetch_add(read as u64, Relaxed);
            of_server.0.fetch_add(1, Relaxed);
        }
    });
    let open = LoadPlan::Open { rate_qps: 2_000.0, arrivals: kqps_player::Arrivals::Even, window: None };
    for (threads, close, load) in [(1, Close::Fin, WINDOW), (2, Close::Rst, WINDOW), (1, Close::Fin, open)] {
        let before = accepted.load(Relaxed);
        let tcp = TcpPlan { queries_per_connection: Some(0), close, ..kept(io, 512) };
        let plan = plan(address, load, tcp);
        let patience = Duration::from_secs(5);
        let (trial, connections) = played(400, &Plan { threads, timeout: patience, drain: patience, ..plan });
        assert_eq!((trial.accounts.sent, trial.accounts.correct), (400, 400), "{:?}", trial.accounts);
        assert_eq!((connections.attempts, connections.established, connections.handed), (400, 400, 400));
        assert_eq!(connections.closed, counts([("player", 400)]));
        assert!(connections.alone && connections.open == 0 && connections.before_load == 0);
        assert!(trial.response_rcodes.is_empty() && trial.lost_expected.is_empty());
        assert_eq!((trial.request_bytes_mean, trial.response_bytes_mean), (None, None));
        assert_eq!(histogram(&trial, "latency").len(), 400);
        wait_until(|| accepted.load(Relaxed) - before == 400);
    }
    assert_eq!(bytes.load(Relaxed), 0);
}

fn each_connection_alone_that_fails_is_one_attempt(io: Io) {
    // 127.0.0.2: no test listens there.
    let closed = TcpListener::bind("127.0.0.2:0").unwrap().local_addr().unwrap();
    let tcp = TcpPlan { queries_per_connection: Some(0), ..kept(io, 4) };
    let (trial, connections) = played(30, &plan(closed, LoadPlan::Closed { outstanding: 30 }, tcp.clone()));
    assert_eq!((trial.accounts.sent, trial.accounts.lost), (30, 30), "{:?}", trial.accounts);
    assert_eq!(trial.lost_causes, counts([("refused", 30)]));
    assert_eq!(trial.lost_expected, counts([("unknown", 30)]));
    assert_eq!((connections.attempts, connections.failed["refused"]), (30, 30));

    let (address, listener, waiting) = full_listener();
    let tcp = TcpPlan { connect_timeout: Duration::from_millis(100), ..tcp };
    let (trial, connections) = played(8, &plan(address, WINDOW, tcp));
    assert_eq!(trial.lost_causes, counts([("connect-timeout", 8)]), "{connections:?}");
    assert_eq!((connections.attempts, connections.established), (8, 0));
    drop((waiting, listener));
}

#[test]
fn a_query_after_the_servers_end_is_lost_by_the_race() {
    // A reply and the FIN leave in one segment. The next query is written after it has arrived, since one read of the
    // player ends with the reply. A ring finds the FIN at once.
    let server = Server::at("127.0.0.1:0", |_, mut stream| {
        let Some(message) = query(&mut stream) else { return };
        socket2::SockRef::from(&stream).set_tcp_cork(true).unwrap();
        stream.write_all(&reply(message)).unwrap();
    });
    let tcp = TcpPlan { outstanding: 1, ..kept(Io::Epoll, 1) };
    let plan = plan(server.address, LoadPlan::Closed { outstanding: 1 }, tcp);
    let (trial, connections) = played(4, &within(TIMEOUT, plan));
    assert_eq!((trial.accounts.correct, trial.accounts.lost), (2, 2), "{:?}", trial.accounts);
    assert_eq!(trial.lost_causes, counts([("idle-race", 2)]));
    assert_eq!(connections.closed, counts([("idle-race", 2)]));
}

/// A server that stands still answers everything later, over a connection that loses nothing. By then its first queries
/// are lost, and later ones have their IDs.
#[test]
fn a_reply_that_comes_after_its_query_was_lost_answers_no_later_query() {
    // No two queries with the same ID have the same name.
    let names: Vec<String> = (0..70_000).map(|number| format!("q{number}.test A\n")).collect();
    let queries = Queries::new(names.concat(), Format::Text);
    let control = Control::new(1);
    let stop = control.stop.clone();
    let server = Server::at("127.0.0.1:0", move |_, stream| {
        let mut input = std::io::BufReader::new(stream.try_clone().unwrap());
        let (mut ids, mut again, mut held, mut output) = (BTreeSet::new(), 0, Vec::new(), stream);
        while let Some(message) = query(&mut input) {
            again += u32::from(!ids.insert([message[0], message[1]]));
            held.extend(reply(message));
            // The player uses an ID again when its query is lost.
            if again == 1000 {
                stop.ask();
            }
            if again >= 1000 {
                if output.write_all(&held).is_err() {
                    return;
                }
                held.clear();
            }
        }
    });
    let load = LoadPlan::Open { rate_qps: 60_000.0, window: None, arrivals: kqps_player::Arrivals::Even };
    let plan = plan(server.address, load, kept(Io::Auto, 1));
    let until_asked = Stop { after: Some(Duration::from_mins(1)), passes: None };
    let plan = Plan { stop: until_asked, timeout: HASTE, drain: TIMEOUT, ..plan };
    let plan = Plan { lag_allowed: Duration::from_secs(10), ..plan };
    let trial = play(&plan, &queries.dataset, &control, no_subject).unwrap();
    let accounts = &trial.accounts;
    assert!(trial.interrupted && accounts.wrong == 0, "{:?}", trial.wrong_causes);
    assert_eq!(accounts.correct + accounts.late + accounts.unsolicited, accounts.sent, "{accounts:?}");
    let notes = &trial.players.first.notes;
    assert!(notes.iter().any(|note| note.ends_with("lost by time; they count as unsolicited")), "{notes:?}");
}

/// A histogram of a trial, by its name.
fn histogram(trial: &Trial, name: &str) -> Histogram {
    Histogram::decode(&trial.histograms[name]).unwrap()
}

fn the_first_query_of_each_connection_stands_apart(io: Io) {
    let delay = Duration::from_millis(20);
    let server = Server::at("127.0.0.1:0", move |_, stream| {
        std::thread::sleep(delay);
        answer_all(stream);
    });
    let tcp = TcpPlan { queries_per_connection: Some(5), outstanding: 1, ..kept(io, 1) };
    let (trial, connections) = played(20, &plan(server.address, LoadPlan::Closed { outstanding: 1 }, tcp));
    assert_eq!((trial.accounts.correct, connections.established), (20, 4), "{:?}", trial.accounts);
    let (first, written) = (histogram(&trial, "first query"), histogram(&trial, "write to reply"));
    assert_eq!((first.len(), written.len(), histogram(&trial, "latency").len()), (4, 20, 20));
    let delay_us = delay.as_micros() as u64;
    assert!(connections.first_query_us.min >= Some(delay_us), "{connections:?}");
    // No query is written before it is due. A histogram has three digits.
    let written_us = connections.write_to_reply_us.max.unwrap();
    assert!(written_us <= trial.latency_us.max.unwrap() * 1002 / 1000 + 1, "{connections:?}");
}

fn each_connection_has_a_pair_of_its_own(io: Io) {
    let peers = Arc::new(Mutex::new(Vec::new()));
    let of_server = Arc::clone(&peers);
    let server = Server::at("127.0.0.1:0", move |_, stream| {
        of_server.lock().unwrap().push(stream.peer_addr().unwrap());
        answer_all(stream);
    });
    // 127.1.54.1 to 127.1.54.6: no other test sends from them.
    for (local, threads) in [(None, 1), (None, 3), (Some("127.1.54.0/29"), 2)] {
        peers.lock().unwrap().clear();
        let tcp = TcpPlan { queries_per_connection: Some(1), ..kept(io, 8) };
        let local = local.map(|local| local.parse().unwrap());
        let plan = Plan { local, threads, ..plan(server.address, WINDOW, tcp) };
        let (trial, connections) = played(300, &plan);
        assert_eq!((trial.accounts.correct, connections.attempts), (300, 300), "{:?}", trial.accounts);
        let peers = peers.lock().unwrap();
        let pairs: BTreeSet<&SocketAddr> = peers.iter().collect();
        assert_eq!(pairs.len(), 300, "{local:?}");
        let addresses: BTreeSet<_> = peers.iter().map(SocketAddr::ip).collect();
        assert_eq!(addresses.len(), if local.is_some() { 6 } else { 1 });
    }
}

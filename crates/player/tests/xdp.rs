//! UDP past the kernel, over a veth pair: the accounts are known exactly, whatever the subject does and the path loses.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use kqps_dataset::Format;
use kqps_kernel::xdp::{Attached, Filter, Prefix, Protocols, XdpMode, route};
use kqps_observation::{Accounts, Trial};
use kqps_player::{Arrivals, Control, Io, LoadPlan, Plan, PlayError, Stop, UdpPlan, Wire, play};

use crate::past::{FAR, NEAR, Networks};
use crate::sockets::is_nothing;
use crate::support::{Queries, no_subject};

/// Longer than a busy host keeps the subject from its core.
const TIMEOUT: Duration = Duration::from_millis(1500);

const PORT: u16 = 5300;

const PASSES: u64 = 5;

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Answer,
    Drop,
    Double,
    WrongId,
    OtherQuestion,
    OtherPort,
    Empty,
    Late,
}

/// The first label of a query's name and what becomes of it.
const FATES: [(&str, Fate); 8] = [
    ("answer", Fate::Answer),
    ("drop", Fate::Drop),
    ("double", Fate::Double),
    ("wrongid", Fate::WrongId),
    ("question", Fate::OtherQuestion),
    ("port", Fate::OtherPort),
    ("empty", Fate::Empty),
    ("late", Fate::Late),
];

/// The number of queries of each fate in a pass. All numbers differ, so that no two buckets can be confused.
fn copies(index: usize) -> u64 {
    3 + index as u64
}

fn passes_of(fate: Fate) -> u64 {
    copies(FATES.iter().position(|(_, other)| *other == fate).unwrap()) * PASSES
}

/// Calls `serve` with each query and its sender until `stop` is set, and before that `idle` each time.
fn serve(
    socket: &UdpSocket,
    stop: &AtomicBool,
    mut idle: impl FnMut(),
    mut serve: impl FnMut(Vec<u8>, SocketAddr),
) {
    let mut buffer = [0; 512];
    socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    while !stop.load(Relaxed) {
        idle();
        match socket.recv_from(&mut buffer) {
            Ok((bytes, from)) => serve(buffer[..bytes].to_vec(), from),
            Err(error) if is_nothing(&error) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Treats every query as its name says. Late replies leave soon after the timeout.
fn subject(socket: &UdpSocket, stranger: &UdpSocket, stop: &AtomicBool) {
    let later = std::cell::RefCell::new(Vec::<(Instant, Vec<u8>, SocketAddr)>::new());
    let idle = || {
        let now = Instant::now();
        for (_, reply, from) in later.borrow_mut().extract_if(.., |(due, ..)| *due <= now) {
            socket.send_to(&reply, from).unwrap();
        }
    };
    serve(socket, stop, idle, |mut reply, from| {
        let label = String::from_utf8(reply[13..13 + usize::from(reply[12])].to_vec()).unwrap();
        reply[2] |= 0x80;
        match FATES.iter().find(|(name, _)| *name == label).unwrap().1 {
            Fate::Drop => return,
            Fate::Late => {
                later.borrow_mut().push((Instant::now() + TIMEOUT * 11 / 10, reply, from));
                return;
            }
            Fate::OtherPort => {
                // It is not from the target, so the program leaves it to the kernel.
                stranger.send_to(&reply, from).unwrap();
                return;
            }
            Fate::Double | Fate::Empty => {
                let first = if label == "double" { &reply[..] } else { &[] };
                socket.send_to(first, from).unwrap();
            }
            // The player counts IDs upwards, so half of all IDs away none is outstanding.
            Fate::WrongId => reply[0] ^= 0x80,
            Fate::OtherQuestion => reply[14] ^= 0x01,
            Fate::Answer => {}
        }
        socket.send_to(&reply, from).unwrap();
    });
}

fn udp(sockets: usize) -> UdpPlan {
    UdpPlan { io: Io::Xdp, sockets, buffer_bytes: None, local_port: None, device: None }
}

fn plan(load: LoadPlan, udp: UdpPlan) -> Plan {
    Plan {
        wire: Wire::Udp(udp),
        timeout: TIMEOUT,
        // Late replies come long before the drain ends.
        drain: TIMEOUT * 2,
        ..crate::support::plan((FAR, PORT).into(), 1, load, Io::Xdp)
    }
}

/// Plays in the near network against `subject`, which has a socket at the far end and runs until the trial is over.
fn against(
    networks: &Networks,
    plan: &Plan,
    queries: &Queries,
    subject: impl FnOnce(&UdpSocket, &AtomicBool) + Send,
) -> Result<Trial, PlayError> {
    let socket = networks.far(|| UdpSocket::bind((FAR, PORT)));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| subject(&socket, &stop));
        let control = Control::new(plan.threads);
        let trial = networks.near(|| play(plan, &queries.dataset, &control, no_subject));
        stop.store(true, Relaxed);
        trial
    })
}

fn fated() -> Queries {
    let mut text = String::new();
    for (index, (label, _)) in FATES.iter().enumerate() {
        for _ in 0..copies(index) {
            text += label;
            text += ".example A NOERROR\n";
        }
    }
    Queries::new(text, Format::Auto)
}

#[test]
fn every_query_is_accounted_for() {
    let open = LoadPlan::Open { rate_qps: 2_000.0, arrivals: Arrivals::Even, window: None };
    for (load, threads) in [(open, 1), (LoadPlan::Closed { outstanding: 200 }, 1), (open, 2)] {
        // With two queues a reply may come by that of the other thread.
        let Some(networks) = Networks::new(threads as u32) else { return };
        let stop = Stop { after: None, passes: Some(PASSES) };
        let plan = Plan { stop, threads, ..plan(load, udp(3)) };
        let stranger = networks.far(|| UdpSocket::bind((FAR, 0)));
        let trial = against(&networks, &plan, &fated(), |socket, stop| subject(socket, &stranger, stop));
        let trial = trial.unwrap();
        let all: u64 = (0..FATES.len()).map(copies).sum::<u64>() * PASSES;
        let expected = Accounts {
            intended: all,
            sent: all,
            correct: [Fate::Answer, Fate::Double, Fate::Empty].map(passes_of).iter().sum(),
            wrong: passes_of(Fate::OtherQuestion),
            late: passes_of(Fate::Late),
            lost: [Fate::Drop, Fate::WrongId, Fate::OtherPort].map(passes_of).iter().sum(),
            duplicate: passes_of(Fate::Double),
            unsolicited: [Fate::WrongId, Fate::Empty].map(passes_of).iter().sum(),
            ..Accounts::default()
        };
        assert_eq!(trial.accounts, expected, "{:?} by {threads} threads", trial.load.mode);
        let player = &trial.players.first;
        assert_eq!((player.io.as_str(), player.socket_drops), ("xdp", 0), "{:?}", player.notes);
        let passes = format!("at kqps0, by {threads} queue");
        assert!(player.notes.iter().any(|note| note.contains(&passes)), "{:?}", player.notes);
        // A veth pair copies. Its driver has room for times and runs programs.
        assert!(player.notes.iter().any(|note| note.starts_with("frames are copied")), "{:?}", player.notes);
        assert!(!player.notes.iter().any(|note| note.contains("time of arrival")), "{:?}", player.notes);
    }
}

#[test]
fn a_thread_that_ends_early_does_not_hold_up_the_others() {
    let Some(networks) = Networks::new(2) else { return };
    // The flow of one thread is answered, that of the other is not, and has a timeout for each of its queries.
    let stop = Stop { after: None, passes: Some(1) };
    let brief = Duration::from_millis(100);
    let usual = plan(LoadPlan::Closed { outstanding: 2 }, udp(2));
    let plan = Plan { stop, threads: 2, timeout: brief, drain: brief, ..usual };
    let queries = Queries::new("a.test A\n".repeat(40), Format::Text);
    let trial = against(&networks, &plan, &queries, |socket, stop| {
        serve(
            socket,
            stop,
            || (),
            |mut reply, from| {
                if from.port() % 2 == 0 {
                    reply[2] |= 0x80;
                    socket.send_to(&reply, from).unwrap();
                }
            },
        );
    });
    let accounts = trial.unwrap().accounts;
    assert_eq!((accounts.intended, accounts.sent), (40, 40), "{accounts:?}");
    assert_eq!(accounts.correct + accounts.late + accounts.lost, 40, "{accounts:?}");
    assert!(accounts.lost > 0, "{accounts:?}");
}

#[test]
fn what_the_ring_has_no_room_for_is_counted() {
    const COPIES: u64 = 64;
    let Some(networks) = Networks::new(1) else { return };
    // Eight frames receive. The player looks every 5 ms, and all copies of a reply come at once.
    let udp = UdpPlan { buffer_bytes: Some(8 * 2048), ..udp(1) };
    let load = LoadPlan::Open { rate_qps: 20.0, arrivals: Arrivals::Even, window: None };
    let plan = Plan { stop: Stop { after: None, passes: Some(10) }, ..plan(load, udp) };
    let replies = AtomicU64::new(0);
    let trial = against(&networks, &plan, &Queries::new("a.test A\n", Format::Text), |socket, stop| {
        serve(
            socket,
            stop,
            || (),
            |mut reply, from| {
                reply[2] |= 0x80;
                for _ in 0..COPIES {
                    socket.send_to(&reply, from).unwrap();
                    replies.fetch_add(1, Relaxed);
                }
            },
        );
    });
    // The trial itself checks that all frames were read or dropped.
    let trial = trial.unwrap();
    let (accounts, player) = (trial.accounts, &trial.players.first);
    assert_eq!((accounts.sent, accounts.lost + accounts.correct), (10, 10), "{accounts:?}");
    assert!(player.socket_drops > 0, "{accounts:?}");
    let read = accounts.correct + accounts.duplicate + accounts.unsolicited;
    assert!(read + player.socket_drops <= replies.load(Relaxed), "{accounts:?}");
    assert!(player.notes.iter().any(|note| note.contains("frames were dropped")), "{:?}", player.notes);
}

/// Runs lines of shell as root of a network.
fn shell(lines: &str) {
    let output = Command::new("sh").args(["-ec", lines]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn what_the_device_refuses_was_not_sent() {
    let Some(networks) = Networks::new(1) else { return };
    // Without its other end the device drops what it is handed.
    networks.far(|| {
        shell("ip link set kqps0 down");
        Ok(())
    });
    let load = LoadPlan::Open { rate_qps: 1_000.0, arrivals: Arrivals::Even, window: None };
    let plan = Plan { stop: Stop { after: None, passes: Some(40) }, ..plan(load, udp(3)) };
    let queries = Queries::new("a.test A\n", Format::Text);
    let trial = networks.near(|| play(&plan, &queries.dataset, &Control::new(1), no_subject)).unwrap();
    let accounts = trial.accounts;
    assert_eq!((accounts.intended, accounts.sent, accounts.send_failed), (40, 0, 40), "{accounts:?}");
    assert_eq!(trial.send_failed_causes, [("EBUSY".to_string(), 40)].into());
}

/// Reads so many queries, which must come.
fn read_queries(socket: &UdpSocket, count: usize) {
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    (0..count).for_each(|_| assert!(socket.recv_from(&mut [0; 512]).unwrap().0 > 0));
}

#[test]
fn a_device_that_is_down_for_a_moment_ends_no_trial() {
    const OUTAGE: Duration = Duration::from_millis(200);
    let Some(networks) = Networks::new(1) else { return };
    let load = LoadPlan::Open { rate_qps: 1_000.0, arrivals: Arrivals::Even, window: None };
    let plan = Plan { stop: Stop { after: None, passes: Some(1500) }, ..plan(load, udp(3)) };
    let queries = Queries::new("a.test A\n", Format::Text);
    let socket = networks.far(|| UdpSocket::bind((FAR, PORT)));
    let trial = std::thread::scope(|scope| {
        scope.spawn(|| {
            read_queries(&socket, 10);
            networks.near(|| shell("ip link set kqps0 down"));
            std::thread::sleep(OUTAGE);
            networks.near(|| shell("ip link set kqps0 up"));
            read_queries(&socket, 40);
        });
        networks.near(|| play(&plan, &queries.dataset, &Control::new(1), no_subject)).unwrap()
    });
    let (accounts, causes) = (trial.accounts, &trial.send_failed_causes);
    assert_eq!((accounts.intended, accounts.sent + accounts.send_failed), (1500, 1500), "{accounts:?}");
    assert!(accounts.sent >= 50 && causes["ENETDOWN"] > 0, "{accounts:?} {causes:?}");
    // A frame that is on its way when the device goes down is dropped.
    assert!(causes.keys().all(|cause| cause == "ENETDOWN" || cause == "EBUSY"), "{causes:?}");
    let notes = &trial.players.first.notes;
    assert!(notes.iter().any(|note| note.contains("found the device down")), "{notes:?}");
}

#[test]
fn a_device_that_is_down_to_the_end_sent_nothing() {
    let Some(networks) = Networks::new(1) else { return };
    let queries = Queries::new("a.test A\n", Format::Text);
    let socket = networks.far(|| UdpSocket::bind((FAR, PORT)));
    let closed = LoadPlan::Closed { outstanding: 5 };
    let stop = Stop { after: Some(Duration::from_mins(1)), passes: None };
    let plan = Plan { stop, ..plan(closed, udp(3)) };
    let control = Control::new(1);
    let trial = std::thread::scope(|scope| {
        scope.spawn(|| {
            read_queries(&socket, 5);
            networks.near(|| shell("ip link set kqps0 down"));
            let has_failed = || {
                let so_far = control.live.snapshot();
                so_far.bad > so_far.sent
            };
            while !has_failed() {
                std::thread::sleep(Duration::from_millis(10));
            }
            control.stop.ask();
            control.stop.ask();
        });
        networks.near(|| play(&plan, &queries.dataset, &control, no_subject)).unwrap()
    });
    let accounts = trial.accounts;
    assert!(accounts.send_failed > 0 && accounts.lost == accounts.sent, "{accounts:?}");
    assert!(trial.send_failed_causes["ENETDOWN"] > 0, "{:?}", trial.send_failed_causes);
}

#[test]
fn a_device_that_is_removed_ends_the_trial_with_that_reason() {
    let Some(networks) = Networks::new(1) else { return };
    let queries = Queries::new("a.test A\n", Format::Text);
    let socket = networks.far(|| UdpSocket::bind((FAR, PORT)));
    let load = LoadPlan::Open { rate_qps: 1_000.0, arrivals: Arrivals::Even, window: None };
    let stop = Stop { after: Some(Duration::from_mins(1)), passes: None };
    let plan = Plan { stop, ..plan(load, udp(3)) };
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            read_queries(&socket, 10);
            networks.near(|| shell("ip link del kqps0"));
        });
        let played = networks.near(|| play(&plan, &queries.dataset, &Control::new(1), no_subject));
        played.map(drop).unwrap_err().to_string()
    });
    assert!(error.contains("xdp loop failed: the device is gone"), "{error}");
}

#[test]
fn sources_are_those_of_a_prefix() {
    let Some(networks) = Networks::new(1) else { return };
    networks.near(|| shell("ip addr add 198.18.0.9/24 dev kqps0; ip addr add 198.18.0.10/24 dev kqps0"));
    let load = LoadPlan::Closed { outstanding: 20 };
    let stop = Stop { after: None, passes: Some(200) };
    let local = Some("198.18.0.8/30".parse().unwrap());
    let plan = Plan { stop, local, ..plan(load, udp(8)) };
    let seen = std::sync::Mutex::new(BTreeSet::new());
    let trial = against(&networks, &plan, &Queries::new("a.test A\n", Format::Text), |socket, stop| {
        serve(
            socket,
            stop,
            || (),
            |mut reply, from| {
                seen.lock().unwrap().insert(from);
                reply[2] |= 0x80;
                socket.send_to(&reply, from).unwrap();
            },
        );
    });
    assert_eq!(trial.unwrap().accounts.correct, 200);
    let seen = seen.into_inner().unwrap();
    let addresses: BTreeSet<String> = seen.iter().map(|from| from.ip().to_string()).collect();
    assert_eq!(addresses, ["198.18.0.10".to_string(), "198.18.0.9".to_string()].into());
    // Four ports of each address.
    assert_eq!(seen.len(), 8);
}

#[test]
fn what_cannot_be_played_says_why() {
    let Some(networks) = Networks::new(1) else { return };
    let queries = Queries::new("a.test A\n", Format::Text);
    let usual = || plan(LoadPlan::Closed { outstanding: 4 }, udp(4));
    let error = |plan: Plan| {
        let control = Control::new(plan.threads);
        let played = networks.near(|| play(&plan, &queries.dataset, &control, no_subject));
        played.map(drop).unwrap_err().to_string()
    };
    let at = |target: &str| Plan { targets: vec![target.parse().unwrap()], ..usual() };
    let said = error(at("127.0.0.1:53"));
    assert!(said.contains("--io xdp") && said.contains("veth"), "{said}");
    let said = error(at("203.0.113.1:53"));
    assert!(said.contains("203.0.113.1"), "no route: {said}");
    let said = error(Plan { threads: 2, ..usual() });
    assert!(said.contains("2 threads") && said.contains("kqps0 has 1"), "{said}");
    let said = error(Plan { local: Some("198.18.0.77".parse().unwrap()), ..usual() });
    assert!(said.contains("no address 198.18.0.77"), "{said}");
    let said = error(Plan { local: Some("::1".parse().unwrap()), ..usual() });
    assert!(said.contains("different families"), "{said}");
    let named =
        |device: &str| Plan { wire: Wire::Udp(UdpPlan { device: Some(device.into()), ..udp(4) }), ..usual() };
    let said = error(named("lo"));
    assert!(said.contains("--device lo") && said.contains("kqps0"), "{said}");
    networks.near(|| shell("ip link add other0 type veth peer name other1"));
    let said = error(named("other0"));
    assert!(said.contains("--device other0") && said.contains("by kqps0"), "{said}");
    let named = named("kqps0");
    let trial = networks.near(|| play(&named, &queries.dataset, &Control::new(1), no_subject)).unwrap();
    assert_eq!(trial.accounts.lost, 1);
}

/// Whether a device of the near network takes a program, since it has none.
fn is_free(networks: &Networks) -> bool {
    networks.near(|| {
        let filter = Filter {
            device: route::to(FAR.into()).unwrap().device,
            own: vec![Prefix::of_one(NEAR.into())],
            ports: 1..=1,
            peers: Vec::new(),
            protocols: Protocols::Udp,
            vlan: None,
            untagged: false,
        };
        Attached::attach(&filter, XdpMode::Auto).is_ok()
    })
}

#[test]
fn an_early_end_leaves_no_program() {
    let Some(networks) = Networks::new(1) else { return };
    assert!(is_free(&networks));
    let load = LoadPlan::Open { rate_qps: 1_000.0, arrivals: Arrivals::Even, window: None };
    let stop = Stop { after: Some(Duration::from_hours(1)), passes: None };
    let plan = Plan { stop, ..plan(load, udp(2)) };
    let socket = networks.far(|| UdpSocket::bind((FAR, PORT)));
    let queries = Queries::new("a.test A\n", Format::Text);
    let control = Control::new(1);
    let trial = std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..10 {
                socket.recv_from(&mut [0; 512]).unwrap();
            }
            assert!(!is_free(&networks), "a trial has it");
            control.stop.ask();
            control.stop.ask();
        });
        networks.near(|| play(&plan, &queries.dataset, &control, no_subject)).unwrap()
    });
    assert!(trial.interrupted && trial.accounts.lost == trial.accounts.sent, "{:?}", trial.accounts);
    assert!(is_free(&networks));
}

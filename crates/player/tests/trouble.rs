//! Sends that the kernel refuses, and threads that cannot start. Every query is still accounted for, and no thread
//! waits forever.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use kqps_dataset::Format;
use kqps_observation::Trial;
use kqps_player::{Control, Io, LoadPlan, Plan, PlayError, Stop, UdpPlan, Wire, play};

use crate::network::in_own_network;
use crate::offered::offered_io;
use crate::sockets::is_nothing;
use crate::support::{Queries, no_subject};

/// How long a reply may take. A trial ends when all of its queries are settled, so this costs no time if none is lost
/// by it.
const PATIENCE: Duration = Duration::from_secs(3);

/// The time for a reply in a trial whose queries are all lost by time.
const HASTE: Duration = Duration::from_millis(300);

fn plan(target: SocketAddr, io: Io) -> Plan {
    let load = LoadPlan::Closed { outstanding: 64 };
    crate::patience::within(PATIENCE, crate::support::plan(target, 2, load, io))
}

/// `count` messages with these lengths, in turn: a query for the root, followed by zeros.
fn queries_of(count: usize, lengths: &[usize]) -> Queries {
    let mut bytes = Vec::new();
    for length in lengths.iter().cycle().take(count) {
        let mut message = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\0\0\x01\0\x01".to_vec();
        message.resize(*length, 0);
        bytes.extend_from_slice(&(*length as u16).to_be_bytes());
        bytes.extend_from_slice(&message);
    }
    Queries::new(bytes, Format::Binary)
}

/// Plays against a subject that answers every query.
fn answered(queries: &Queries, io: Io) -> Trial {
    answered_as(queries, io, 0, |_, _| ())
}

/// Plays against a subject that calls `before` and then answers every query. Each reply is padded with zeros to at
/// least `bytes_least` bytes.
fn answered_as(
    queries: &Queries,
    io: Io,
    bytes_least: usize,
    before: impl Fn(&UdpSocket, SocketAddr) + Sync,
) -> Trial {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
    let plan = plan(socket.local_addr().unwrap(), io);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = vec![0; 65_536];
            while !stop.load(Relaxed) {
                match socket.recv_from(&mut buffer) {
                    Ok((bytes, from)) => {
                        before(&socket, from);
                        buffer[2] |= 0x80;
                        buffer[bytes..].fill(0);
                        socket.send_to(&buffer[..bytes.max(bytes_least)], from).unwrap();
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

#[test]
fn a_query_that_the_kernel_refuses_is_booked_with_the_reason() {
    // A datagram over IPv4 holds 65,507 bytes. Every third query is longer.
    let queries = queries_of(90, &[40, 65_520, 50]);
    for io in offered_io() {
        let trial = answered(&queries, io);
        let accounts = trial.accounts;
        assert_eq!((accounts.intended, accounts.sent, accounts.send_failed), (90, 60, 30), "{}", io.word());
        assert_eq!(accounts.correct, 60, "{}", io.word());
        assert_eq!(trial.send_failed_causes, [("EMSGSIZE".to_string(), 30)].into());
        assert_eq!(trial.players.first.segment_fallbacks, 0, "{}", io.word());
    }
}

#[test]
fn a_long_reply_is_read_whole() {
    // Loopback takes packets of 64 KiB. A datagram over IPv4 holds 65,507 bytes.
    for bytes in [20_000, 65_507] {
        for io in offered_io() {
            let trial = answered_as(&queries_of(50, &[40]), io, bytes, |_, _| ());
            assert_eq!(trial.accounts.correct, 50, "{} {bytes}: {:?}", io.word(), trial.wrong_causes);
            assert_eq!(trial.response_bytes_mean, Some(bytes as f64), "{}", io.word());
        }
    }
}

#[test]
fn what_may_not_leave_in_one_send_leaves_one_by_one() {
    in_own_network("ip link set lo mtu 1280", || {
        // Longer than a frame: the kernel fragments a datagram, but not a segment.
        let queries = queries_of(500, &[1400]);
        let trial = answered(&queries, Io::Gso);
        assert_eq!((trial.accounts.sent, trial.accounts.correct), (500, 500));
        assert_eq!(trial.players.first.segment_fallbacks, 2, "both sockets");
        assert!(
            trial.players.first.notes.iter().any(|note| note.contains("fell back")),
            "{:?}",
            trial.players.first.notes
        );
    });
}

#[test]
fn what_a_filter_drops_is_refused_and_no_reason_to_send_one_by_one() {
    // Drop every fourth packet with a query, whose QR bit is 0. A message that is not the first of its call is tried
    // again.
    let setup = "ip link set lo up; nft 'add table ip drops; \
                 add chain ip drops out { type filter hook output priority 0; }; \
                 add rule ip drops out meta l4proto udp @th,80,1 0 numgen inc mod 4 0 drop'";
    for io in offered_io() {
        in_own_network(setup, || {
            let trial = answered(&queries_of(2000, &[40]), io);
            let accounts = trial.accounts;
            assert_eq!((accounts.intended, accounts.correct), (2000, accounts.sent), "{}", io.word());
            assert!(accounts.send_failed > 0, "{}: {accounts:?}", io.word());
            assert_eq!(trial.send_failed_causes, [("EPERM".to_string(), accounts.send_failed)].into());
            assert_eq!(trial.players.first.segment_fallbacks, 0, "{}", io.word());
        });
    }
}

#[test]
fn a_datagram_without_a_byte_is_unsolicited() {
    for io in offered_io() {
        let queries = queries_of(90, &[40]);
        let trial = answered_as(&queries, io, 0, |socket, from| {
            socket.send_to(&[], from).unwrap();
        });
        assert_eq!((trial.accounts.correct, trial.accounts.unsolicited), (90, 90), "{}", io.word());
    }
}

#[test]
fn a_full_send_buffer_is_tried_again_and_then_booked() {
    // Packets for a neighbour that does not answer wait in the kernel, and fill the buffers that they came from.
    let setup = "ip link add v0 type veth peer name v1; ip addr add 192.0.2.1/24 dev v0; \
                 ip link set v0 up; ip link set v1 up";
    for io in offered_io() {
        in_own_network(setup, || {
            let queries = queries_of(512, &[40]);
            let load = LoadPlan::Closed { outstanding: 512 };
            let wire = UdpPlan { io, sockets: 1, buffer_bytes: Some(1), local_port: None, device: None };
            let wire = Wire::Udp(wire);
            let plan = plan("192.0.2.2:53".parse().unwrap(), io);
            let plan = Plan { load, wire, timeout: HASTE, drain: HASTE, ..plan };
            let trial = play(&plan, &queries.dataset, &Control::new(1), no_subject).unwrap();
            let accounts = trial.accounts;
            assert_eq!((accounts.intended, accounts.unsent), (512, 0), "{}", io.word());
            assert!(accounts.sent > 0 && accounts.lost == accounts.sent, "{}: {accounts:?}", io.word());
            assert!(accounts.send_failed > 0, "{}: {accounts:?}", io.word());
            assert_eq!(trial.send_failed_causes, [("EAGAIN".to_string(), accounts.send_failed)].into());
        });
    }
}

#[test]
fn a_thread_that_fails_before_the_start_calls_the_trial_off() {
    let queries = queries_of(1, &[40]);
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut plan = plan(silent.local_addr().unwrap(), Io::Auto);
    // An hour; the trial ends at once, since there is no core 4000.
    plan.stop = Stop { after: Some(Duration::from_hours(1)), passes: None };
    (plan.threads, plan.cpus) = (2, vec![0, 4000]);
    let error = play(&plan, &queries.dataset, &Control::new(2), no_subject).unwrap_err();
    assert!(matches!(error, PlayError::Pin { cpu: 4000, .. }), "{error}");
    silent.set_nonblocking(true).unwrap();
    assert!(silent.recv_from(&mut [0; 64]).is_err(), "nothing was sent");
}

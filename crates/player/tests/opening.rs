//! How connections of TCP are made: opening has an end, and attempts that fail have their causes.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use kqps_player::{Close, Io, LoadPlan, Plan, TcpPlan, Wire};

use crate::connected::{counts, played};
use crate::loops::for_each_io;

const TIMEOUT: Duration = Duration::from_millis(300);

for_each_io!(
    opening_ends_at_a_target_that_takes_few_connections_and_drops_the_rest,
    an_address_of_another_host_is_the_cause,
);

fn plan(target: SocketAddr, tcp: TcpPlan) -> Plan {
    let plan = crate::support::plan(target, 1, LoadPlan::Closed { outstanding: 4 }, Io::Auto);
    Plan { wire: Wire::Tcp(tcp), timeout: TIMEOUT, drain: TIMEOUT, ..plan }
}

fn kept(io: Io, connections: usize) -> TcpPlan {
    TcpPlan {
        io,
        connections,
        queries_per_connection: None,
        outstanding: 1 << 16,
        close: Close::Fin,
        connect_timeout: Duration::from_millis(20),
        buffer_bytes: None,
        tls: None,
        device: None,
        local_port: None,
    }
}

fn opening_ends_at_a_target_that_takes_few_connections_and_drops_the_rest(io: Io) {
    // The kernel makes as many connections as the queue takes, and ignores all other clients.
    let listener = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    listener.listen(1).unwrap();
    let address = listener.local_addr().unwrap().as_socket().unwrap();
    let (trial, connections) = played(4, &plan(address, kept(io, 1500)));
    assert!((1..=100).contains(&connections.before_load), "{connections:?}");
    // At most 512 attempts that fail for want of time, those under way then, and a few of the load.
    assert!(connections.attempts < 1000, "{connections:?}");
    assert_eq!((trial.accounts.sent, trial.accounts.lost), (4, 4), "{:?}", trial.accounts);
    let words = format!("{} kept connections were not open", 1500 - connections.before_load);
    let notes = &trial.players.first.notes;
    assert!(notes.iter().any(|note| note.starts_with(&words)), "{notes:?}");
}

fn an_address_of_another_host_is_the_cause(io: Io) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // An address for documents (RFC 5737).
    let local = Some("192.0.2.1".parse().unwrap());
    for queries_per_connection in [None, Some(1)] {
        let tcp = TcpPlan { queries_per_connection, ..kept(io, 2) };
        let (trial, connections) = played(4, &Plan { local, ..plan(address, tcp) });
        assert_eq!(trial.lost_causes, counts([("address", 4)]), "{connections:?}");
        assert_eq!(connections.failed, counts([("address", connections.attempts)]));
        let notes = &trial.players.first.notes;
        assert!(notes.iter().any(|note| note.contains("(-a)")), "{notes:?}");
    }
}

//! Past the kernel over IPv6 and through a VLAN: queries by UDP and TCP reach an ordinary subject at the other end of a
//! veth pair, and its replies come back.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use kqps_dataset::Format;
use kqps_kernel::xdp::route;
use kqps_observation::{Accounts, ConnectionFacts};
use kqps_player::{Arrivals, Close, Control, Io, LoadPlan, Plan, TcpPlan, Wire, play};
use kqps_skips::{Capability, skip};

use crate::connected::{counts, played};
use crate::past::Networks;
use crate::stream::{Server, query, reply};
use crate::support::{Queries, no_subject};

const PORT: u16 = 5300;

const COUNT: usize = 300;

/// The subject's address in the VLAN.
const IN_VLAN: Ipv4Addr = Ipv4Addr::new(198, 18, 7, 2);

/// Longer than a busy host keeps the subject from its core.
const TIMEOUT: Duration = Duration::from_secs(2);

const CLOSED: LoadPlan = LoadPlan::Closed { outstanding: 16 };
const OPEN: LoadPlan = LoadPlan::Open { rate_qps: 2_000.0, arrivals: Arrivals::Even, window: None };

/// Runs lines of shell in the network of the calling thread. Returns what went wrong.
fn shell(lines: &str) -> Result<(), String> {
    let output = Command::new("sh").args(["-ec", lines]).output().map_err(|error| error.to_string())?;
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(said()) }
}

/// Runs lines of shell at both ends, in which `{end}` is 1 for the player's and 2 for the subject's.
fn at_both(networks: &Networks, lines: &str) -> Result<(), String> {
    let of = |end: &str| lines.replace("{end}", end);
    networks.near(|| shell(&of("1")))?;
    networks.far(|| Ok(shell(&of("2"))))
}

/// Two networks that have a VLAN of this protocol as well; `None` if the kernel has none, which is reported.
fn with_vlan(protocol: &str) -> Option<Networks> {
    let networks = Networks::new(1)?;
    let vlan = format!(
        "ip link add link kqps0 name kqps0.7 type vlan protocol {protocol} id 7\n\
         ip addr add 198.18.7.{{end}}/24 dev kqps0.7\nip link set kqps0.7 up"
    );
    match at_both(&networks, &vlan) {
        Ok(()) => Some(networks),
        Err(reason) => {
            skip(Capability::Vlans, format!("a VLAN over a veth pair: {reason}"));
            None
        }
    }
}

/// Plays at a subject at this address of the far end, by UDP and TCP, and checks that every query is answered.
fn plays_at(networks: &Networks, address: IpAddr) {
    let lines: Vec<String> = (0..COUNT).map(|number| format!("q{number}.test A\n")).collect();
    let queries = Queries::new(lines.concat(), Format::Text);
    let socket = networks.far(|| UdpSocket::bind((address, PORT)));
    socket.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
    let stop = AtomicBool::new(false);
    let trials = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 512];
            while !stop.load(Relaxed) {
                let Ok((bytes, from)) = socket.recv_from(&mut buffer) else { continue };
                buffer[2] |= 0x80;
                socket.send_to(&buffer[..bytes], from).unwrap();
            }
        });
        let trials = [OPEN, CLOSED].map(|load| {
            let plan = crate::support::plan((address, PORT).into(), 5, load, Io::Xdp);
            let plan = Plan { timeout: TIMEOUT, drain: TIMEOUT, ..plan };
            networks.near(|| play(&plan, &queries.dataset, &Control::new(1), no_subject))
        });
        stop.store(true, Relaxed);
        trials
    });
    for trial in trials {
        let trial = trial.unwrap();
        let accounts = trial.accounts;
        assert_eq!((accounts.sent, accounts.correct), (COUNT as u64, COUNT as u64), "{accounts:?}");
        assert_eq!((accounts.unsolicited, trial.players.first.io.as_str()), (0, "xdp"));
    }
    let server = networks.far(move || {
        Ok(Server::at((address, 0), |_, mut stream| {
            while let Some(message) = query(&mut stream) {
                if stream.write_all(&reply(message)).is_err() {
                    return;
                }
            }
        }))
    });
    for queries_per_connection in [None, Some(1)] {
        let (trial, connections) = over_tcp(networks, server.address, queries_per_connection);
        assert_eq!(trial.correct, COUNT as u64, "{trial:?} {connections:?}");
        assert_eq!(connections.failed, counts([]), "{connections:?}");
    }
    assert_eq!(server.accepted.load(Relaxed), 3 + COUNT as u64);
}

fn over_tcp(
    networks: &Networks,
    target: SocketAddr,
    queries_per_connection: Option<u32>,
) -> (Accounts, ConnectionFacts) {
    let tcp = TcpPlan {
        io: Io::Xdp,
        connections: 3,
        queries_per_connection,
        outstanding: 1 << 16,
        close: Close::Fin,
        connect_timeout: Duration::from_secs(5),
        buffer_bytes: None,
        tls: None,
        device: None,
        local_port: None,
    };
    let plan = crate::support::plan(target, 1, CLOSED, Io::Auto);
    let plan = Plan { wire: Wire::Tcp(tcp), timeout: TIMEOUT, drain: TIMEOUT, ..plan };
    let (trial, connections) = networks.near(|| played(COUNT, &plan));
    assert_eq!(trial.players.first.io, "xdp");
    (trial.accounts, connections)
}

#[test]
fn over_ipv6_every_query_is_answered() {
    if !Path::new("/proc/sys/net/ipv6").exists() {
        skip(Capability::Ipv6, "past the kernel: this host has no IPv6");
        return;
    }
    let Some(networks) = Networks::new(1) else { return };
    let addresses = "echo 0 > /proc/sys/net/ipv6/conf/kqps0/disable_ipv6\n\
                     ip addr add 2001:db8::{end}/64 dev kqps0 nodad";
    at_both(&networks, addresses).unwrap();
    plays_at(&networks, "2001:db8::2".parse().unwrap());
}

#[test]
fn through_a_vlan_every_query_is_answered() {
    let Some(networks) = with_vlan("802.1Q") else { return };
    let way = networks.near(|| route::to(IN_VLAN.into())).unwrap();
    let below = networks.near(|| route::to(crate::past::FAR.into())).unwrap();
    assert_eq!((way.vlan, way.device), (Some(7), below.device));
    plays_at(&networks, IN_VLAN.into());
    // The untagged network beside it is not disturbed.
    plays_at(&networks, crate::past::FAR.into());
}

#[test]
fn tags_that_are_not_written_are_refused() {
    let refused = |networks: &Networks, target: Ipv4Addr| {
        let queries = Queries::new("a.test A\n", Format::Text);
        let plan = crate::support::plan((target, PORT).into(), 1, CLOSED, Io::Xdp);
        let played = networks.near(|| play(&plan, &queries.dataset, &Control::new(1), no_subject));
        played.map(drop).unwrap_err().to_string()
    };
    if let Some(networks) = with_vlan("802.1ad") {
        let said = refused(&networks, IN_VLAN);
        assert!(said.contains("198.18.7.2") && said.contains("802.1ad"), "{said}");
    }
    let Some(networks) = with_vlan("802.1Q") else { return };
    let within = "ip link add link kqps0.7 name inner type vlan id 8\n\
                  ip addr add 198.18.8.{end}/24 dev inner\nip link set inner up";
    at_both(&networks, within).unwrap();
    let said = refused(&networks, Ipv4Addr::new(198, 18, 8, 2));
    assert!(said.contains("198.18.8.2") && said.contains("a VLAN within a VLAN"), "{said}");
}

//! The plan of a command line of dnsperf. It is that of the same flags of `kqps load`, with dnsperf's defaults.

use std::fs;
use std::net::{IpAddr, Ipv6Addr, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::anyhow;
use clap::Parser as _;
use kqps_host::SubjectWatched;
use kqps_http::Method;
use kqps_observation::trial::Transport;
use kqps_player::plan::SOCKETS_MOST;
use kqps_player::{HttpPlan, LoadPlan, PerQueryPlan, Plan, Stop, TcpPlan, TlsPlan, Wire};
use kqps_verdict::warning::Surroundings;

use super::command::{Command, Fault};
use crate::load::{PlayerArgs, surroundings};

/// Bytes of a socket's receive buffer that the kernel gives by default.
const RECEIVE_DEFAULT: &str = "/proc/sys/net/core/rmem_default";

/// The largest buffer that kqps asks for, KiB: 1 GiB. Linux has none that is larger than 2 GiB with its bookkeeping.
const BUFFER_KIB_MOST: u64 = 1 << 20;

/// A plan, and what is known around it.
pub(super) struct Planned {
    pub(super) plan: Plan,
    pub(super) subject: SubjectWatched,
    pub(super) args: PlayerArgs,
}

impl Planned {
    pub(super) fn surroundings(&self) -> Surroundings {
        surroundings(&self.args, &self.plan, &self.subject)
    }
}

/// The player's flags, as `kqps load` reads them.
#[derive(clap::Parser)]
struct Words {
    #[command(flatten)]
    player: PlayerArgs,
}

/// The plan of a command line.
pub(super) fn planned(command: &Command) -> anyhow::Result<Planned> {
    check_addresses(command)?;
    if command.clients > SOCKETS_MOST as u64 {
        return Err(anyhow!("-c {}: kqps acts as {SOCKETS_MOST} clients at most", command.clients));
    }
    let server = server_of(command)?;
    let args =
        Words::try_parse_from(words(command, server)).map_err(|error| anyhow!(error.to_string()))?.player;
    let invalid = |_| Fault::usage(format!("invalid server address {}", command.server));
    args.names_transport().map_err(invalid)?;
    let outstanding = command.outstanding_used();
    let load = match command.rate_qps {
        Some(rate_qps) => LoadPlan::Limited { outstanding, rate_qps: rate_qps as f64 },
        None => LoadPlan::Closed { outstanding },
    };
    let once = command.limit.is_none().then_some(1);
    let stop = Stop { after: command.limit, passes: command.runs.or(once) };
    // With a timeout of 0 no reply is in time. dnsperf takes timeouts that are too short for kqps's own flag.
    let timeout = command.timeout.max(Duration::from_nanos(1));
    let (mut plan, subject) = args.plan(|_| load, stop, |_| timeout, None)?;
    plan.per_query = PerQueryPlan { prefix: command.prefix.clone(), tsig: command.tsig.clone() };
    if let Wire::Tcp(TcpPlan { tls: Some(TlsPlan { http: Some(http), .. }), .. }) = &mut plan.wire {
        *http = http_plan(command)?;
    }
    Ok(Planned { plan, subject, args })
}

/// The most queries that leave together.
const BURST_MOST: u64 = 32;

/// The first address of the server that is of the family. `kqps load` would take the first of IPv4.
fn server_of(command: &Command) -> Result<IpAddr, Fault> {
    let is_of_family = |address: &IpAddr| match command.family {
        "inet" => address.is_ipv4(),
        "inet6" => address.is_ipv6(),
        _ => true,
    };
    let found = (&*command.server, 0).to_socket_addrs().ok().into_iter().flatten();
    let first = found.map(|address| address.ip()).find(is_of_family);
    first.ok_or_else(|| Fault::usage(format!("invalid server address {}", command.server)))
}

/// The command line in the flags of `kqps load`.
fn words(command: &Command, server: IpAddr) -> Vec<String> {
    let is_udp = command.mode == Transport::Udp;
    // Every thread needs a place in the window.
    let threads = command.threads_used().min(command.outstanding);
    // dnsperf changes its socket with every query. Here a burst has one, and the window holds bursts of all clients.
    let burst = (command.outstanding / 8 / command.clients).clamp(1, BURST_MOST);
    let mut words = vec!["dnsperf".to_owned(), "-s".to_owned(), server.to_string()];
    let mut add = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
    // A command line of dnsperf has no flag that allows targets on other hosts.
    for all in ["0.0.0.0/0", "::/0"] {
        add("--allow-target", all.into());
    }
    add("-f", command.family.into());
    add("-m", command.mode.word().into());
    add("-c", command.clients.to_string());
    add("-T", threads.to_string());
    add("--burst", burst.to_string());
    if let Some(port) = command.port {
        add("-p", port.to_string());
    }
    if let Some(address) = &command.local_address {
        add("-a", address.clone());
    }
    add("-x", command.local_port.to_string());
    let buffer = command.buffer_kib.map(|kib| format!("{}KiB", kib.min(BUFFER_KIB_MOST)));
    if let Some(size) = buffer.or_else(|| is_udp.then(usual_buffer)?) {
        add("-b", size);
    }
    if let Some(queries) = command.queries_per_connection.filter(|_| !is_udp) {
        add("--queries-per-connection", queries.min(1_000_000_000).to_string());
    }
    if command.mode.is_encrypted() {
        if let Some(name) = &command.tls_sni {
            add("--server-name", name.clone());
        }
        words.push("--insecure".into());
    }
    words
}

/// The system's default size of buffers. The kernel doubles what is asked for (socket(7)).
fn usual_buffer() -> Option<String> {
    let bytes: u64 = fs::read_to_string(RECEIVE_DEFAULT).ok()?.trim().parse().ok()?;
    Some(format!("{}B", bytes / 2))
}

/// Refuses addresses that dnsperf does not take, such as one with a port or a prefix.
fn check_addresses(command: &Command) -> Result<(), Fault> {
    let server = &*command.server;
    let is_v6 = server.parse::<Ipv6Addr>().is_ok();
    if server.is_empty() || (server.contains([':', '/', '[', ']']) && !is_v6) {
        return Err(Fault::usage(format!("invalid server address {server}")));
    }
    match &command.local_address {
        Some(address) if address.parse::<IpAddr>().is_err() => {
            Err(Fault::usage(format!("invalid local address {address}")))
        }
        _ => Ok(()),
    }
}

/// The URL of `-O doh-uri`, whose host need not be that of the server.
fn http_plan(command: &Command) -> anyhow::Result<HttpPlan> {
    let rest = command.doh_uri.strip_prefix("https://").unwrap_or(&command.doh_uri);
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if authority.is_empty() {
        return Err(anyhow!("-O doh-uri={}: expected a host after https://", command.doh_uri));
    }
    Ok(HttpPlan {
        method: if command.doh_by_post { Method::Post } else { Method::Get },
        authorities: vec![authority.to_owned()],
        paths: vec![if path.is_empty() { "/".into() } else { path.to_owned() }],
    })
}

#[cfg(test)]
mod tests {
    use kqps_player::UdpPlan;

    use super::*;

    fn planned_of(change: impl FnOnce(&mut Command)) -> Plan {
        let mut command = Command { port: Some(5300), ..Command::new() };
        change(&mut command);
        planned(&command).unwrap().plan
    }

    #[test]
    fn the_plan_has_the_defaults_of_dnsperf() {
        let plan = planned_of(|_| ());
        assert_eq!(plan.load, LoadPlan::Closed { outstanding: 100 });
        assert_eq!((plan.threads, plan.flows(), plan.timeout), (1, 1, Duration::from_secs(5)));
        assert_eq!(plan.stop, Stop { after: None, passes: Some(1) });
        let Wire::Udp(UdpPlan { buffer_bytes, local_port, .. }) = plan.wire else { panic!("over UDP") };
        assert!(buffer_bytes.is_some_and(|bytes| bytes < 1 << 20) && local_port.is_none());
    }

    #[test]
    fn a_timeout_may_be_shorter_than_that_of_kqps_load() {
        let of = |timeout| planned_of(|command| command.timeout = timeout).timeout;
        let short = Duration::from_nanos(5);
        assert_eq!((of(short), of(Duration::ZERO)), (short, Duration::from_nanos(1)));
    }

    #[test]
    fn threads_are_no_more_than_clients_places_and_rate_allow() {
        let threads = |clients, outstanding, rate_qps| {
            planned_of(|command| {
                command.threads = 8;
                (command.clients, command.outstanding, command.rate_qps) = (clients, outstanding, rate_qps);
            })
            .threads
        };
        assert_eq!(threads(20, 100, None), 8);
        assert_eq!((threads(3, 100, None), threads(20, 2, None), threads(20, 100, Some(1))), (3, 2, 1));
    }

    #[test]
    fn connections_have_buffers_if_asked_for() {
        let of = |mode, kib| {
            let plan = planned_of(|command| (command.mode, command.buffer_kib) = (mode, kib));
            let Wire::Tcp(tcp) = plan.wire else { panic!("{:?}", plan.wire) };
            tcp.buffer_bytes
        };
        for mode in [Transport::Tcp, Transport::Tls, Transport::Https] {
            assert_eq!((of(mode, None), of(mode, Some(64))), (None, Some(64 << 10)), "{mode:?}");
            assert_eq!(of(mode, Some(u64::from(u32::MAX))), Some(1 << 30), "{mode:?}");
        }
    }

    #[test]
    fn the_url_of_https_is_not_that_of_the_server() {
        let plan = planned_of(|command| {
            command.mode = Transport::Https;
            command.doh_uri = "https://dns.test:8443/q".into();
        });
        let tls = match plan.wire {
            Wire::Tcp(tcp) => tcp.tls.unwrap(),
            other => panic!("{other:?}"),
        };
        let http = tls.http.unwrap();
        assert_eq!((&*http.authorities[0], &*http.paths[0]), ("dns.test:8443", "/q"));
        assert_eq!(http.method, Method::Get);
    }

    #[test]
    fn addresses_are_addresses_alone() {
        for server in ["", "127.0.0.1:53", "[::1]", "udp://127.0.0.1", "a/b"] {
            let command = Command { server: server.into(), ..Command::new() };
            assert!(check_addresses(&command).is_err(), "{server}");
        }
        for local in ["foo", "127.0.0.0/8"] {
            let command = Command { local_address: Some(local.into()), ..Command::new() };
            assert!(check_addresses(&command).is_err(), "{local}");
        }
        assert_eq!(check_addresses(&Command { server: "::1".into(), ..Command::new() }), Ok(()));
    }

    #[test]
    fn the_server_is_the_first_address_of_the_family() {
        let of =
            |server: &str, family| server_of(&Command { server: server.into(), family, ..Command::new() });
        let first = ("localhost", 0).to_socket_addrs().unwrap().next().unwrap().ip();
        assert_eq!(of("localhost", "any"), Ok(first));
        assert!(of("localhost", "inet").unwrap().is_ipv4());
        assert_eq!(of("::1", "inet6"), Ok(Ipv6Addr::LOCALHOST.into()));
        for (server, family) in [("127.0.0.1", "inet6"), ("::1", "inet")] {
            assert_eq!(of(server, family), Err(Fault::usage(format!("invalid server address {server}"))));
        }
    }
}

//! The note of connections that found no free port: how many source addresses have enough of them for this load.

use kqps_observation::trial::LoadFacts;

use crate::connections::ConnectionCounts;
use crate::loss::Loss;
use crate::plan::{Close, Io, Plan, TcpPlan, Wire};
use crate::sources::several_reaching;

/// How long a port is in `TIME_WAIT` (`TCP_TIMEWAIT_LEN` of Linux), seconds.
const TIME_WAIT_S: f64 = 60.0;

/// Ports that are held at a time, and their holders.
struct Held {
    /// How many of each source address are held, if there is one address.
    ports: f64,
    /// By what, in words.
    by: String,
    /// Other advice than more addresses.
    or: &'static str,
}

/// A note if connections failed for want of a port: how many source addresses have enough for this load.
pub(super) fn no_port_left(counts: &ConnectionCounts, load: &LoadFacts, plan: &Plan) -> Option<String> {
    let failed = counts.failed[Loss::Ports.number()];
    if failed == 0 {
        return None;
    }
    let what = match failed {
        1 => "1 connection failed because no port was free".to_owned(),
        many => format!("{many} connections failed because no port was free"),
    };
    let held = match &plan.wire {
        wire if wire.connection_use().is_none() => return None,
        Wire::Tcp(TcpPlan { local_port: Some(first), .. }) => {
            return Some(format!(
                "{what}: other programs have ports from {first} on (-x), or other connections to the same target; \
                 begin at another port, or leave -x out"
            ));
        }
        Wire::Tcp(tcp) if tcp.queries_per_connection.is_none() && plan.replay.is_none() => {
            // Connections to several targets can share a port.
            Held::kept(plan.flows().div_ceil(plan.targets.len().max(1)), plan.targets.len())
        }
        Wire::Tcp(tcp) => Held::closed(tcp, plan.flows(), counts.attempts, load),
        // Each has a socket that is bound for the whole trial, whatever its target.
        _ => Held::kept(plan.flows(), 1),
    };
    let ports = counts.ports.max(1);
    let (needed, has) =
        ((held.ports / ports as f64).ceil().max(1.0), plan.local.map_or(1, |one| one.count()));
    let (by, or, addresses) = (held.by, held.or, several_reaching(&plan.targets));
    let needs = format!("{by} need {needed:.0} source addresses of {ports} ports each");
    Some(if needed > has as f64 {
        format!("{what}: {needs}; send from as many at least ({addresses}){or}")
    } else {
        format!("{what}: {needs}, and other programs have some of these; send from more ({addresses}){or}")
    })
}

impl Held {
    /// As many connections to each target, which are open for the whole trial.
    fn kept(connections: usize, targets: usize) -> Self {
        let to_each = if targets > 1 { " to each target" } else { "" };
        Self { ports: connections as f64, by: format!("{connections} connections at once{to_each}"), or: "" }
    }

    /// Connections that are closed and opened again. Those that are open hold a port each, and with FIN also those that
    /// were closed in the time of `TIME_WAIT`. Past the kernel nothing is kept in that state.
    fn closed(tcp: &TcpPlan, open: usize, attempts: u64, load: &LoadFacts) -> Self {
        let sending_s = load.sending_s();
        let rate = if sending_s > 0.0 { attempts as f64 / sending_s } else { 0.0 };
        let (held_s, how, or) = if tcp.close == Close::Fin && tcp.io != Io::Xdp {
            let how = ", and each port for 60 s after it was closed (TIME_WAIT)";
            (TIME_WAIT_S, how, ", or close with --close rst")
        } else {
            (0.0, "", "")
        };
        Self {
            ports: open as f64 + rate * held_s,
            by: format!("{rate:.0} connections a second with {open} open at once{how}"),
            or,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::{plan, quic_plan, tcp_plan};

    fn said(target: &str, wire: Wire, ports: u64, local: Option<&str>) -> String {
        let load = LoadFacts { duration_s: 10.0, ..LoadFacts::default() };
        let mut counts = ConnectionCounts { attempts: 30_000, ports, ..ConnectionCounts::default() };
        counts.failed[Loss::Ports.number()] = 7;
        let local = local.map(|local| local.parse().unwrap());
        no_port_left(&counts, &load, &Plan { wire, local, ..plan(target.parse().unwrap()) }).unwrap()
    }

    fn each(close: Close) -> Wire {
        Wire::Tcp(TcpPlan { close, queries_per_connection: Some(1), ..tcp_plan(2000) })
    }

    #[test]
    fn without_a_port_the_note_says_how_many_addresses_are_enough() {
        // 2,000 open ones, and 180,000 in TIME_WAIT.
        let note = said("127.0.0.1:53", each(Close::Fin), 1000, None);
        assert!(
            note.contains("7 connections failed") && note.contains("need 182 source addresses"),
            "{note}"
        );
        assert!(note.ends_with("(-a 127.1.0.0/16), or close with --close rst"), "{note}");
        let reset = said("192.0.2.1:53", each(Close::Rst), 1000, None);
        assert!(reset.contains("need 2 source addresses of 1000 ports each; send from as many"), "{reset}");
        assert!(reset.ends_with("(-a ADDR/PREFIX, once this host has such addresses)"), "{reset}");
        let none = ConnectionCounts::default();
        let wire = Wire::Tcp(tcp_plan(1));
        let plan = Plan { wire, ..plan("[::1]:53".parse().unwrap()) };
        assert_eq!(no_port_left(&none, &LoadFacts::default(), &plan), None);
    }

    #[test]
    fn kept_connections_need_a_port_each_whatever_their_rate() {
        for wire in [Wire::Tcp(tcp_plan(2500)), Wire::Quic(quic_plan(2500, "dns.test"))] {
            let note = said("[::1]:853", wire.clone(), 1000, None);
            let needs = "2500 connections at once need 3 source addresses of 1000 ports each";
            assert!(note.contains(needs) && !note.contains("127.1.0.0"), "{note}");
            let enough = said("127.0.0.1:853", wire, 1000, Some("127.1.0.0/24"));
            assert!(enough.contains("and other programs have some of these; send from more"), "{enough}");
        }
        let named = Wire::Tcp(TcpPlan { local_port: Some(4000), ..tcp_plan(8) });
        assert!(said("127.0.0.1:53", named, 8, None).contains("begin at another port, or leave -x out"));
    }
}

//! The facts of connections, and of HTTP and QUIC on them.

use std::collections::BTreeSet;

use kqps_observation::trial::LoadFacts;
use kqps_observation::{ConnectionFacts, EarlyFacts, HttpFacts, QuicFacts};

use super::causes::by_name;
use super::tls::tls_facts;
use crate::connections::{ConnectionCounts, Ending, HttpCounts, QuicCounts};
use crate::loss::Loss;
use crate::plan::{Close, HttpPlan, Io, Plan, QuicPlan, Wire};
use crate::team::Team;

pub(super) fn connection_facts(counts: &ConnectionCounts, plan: &Plan) -> ConnectionFacts {
    ConnectionFacts {
        alone: plan.has_connections_alone(),
        attempts: counts.attempts,
        established: counts.established,
        before_load: counts.before_load,
        failed: by_name(Loss::NAMES.into_iter().map(String::from).zip(counts.failed)),
        unfinished: counts.unfinished,
        closed: by_name(Ending::NAMES.into_iter().map(String::from).zip(counts.closed)),
        open: counts.open,
        handed: counts.handed,
        connect_us: counts.connect.quantiles(),
        first_query_us: counts.first_query.quantiles(),
        write_to_reply_us: counts.write_to_reply.quantiles(),
        retransmitted: counts.retransmitted,
        delayed_acks: counts.delayed_acks,
        connections_with_retransmitted_syn: counts.lost_syns,
        ports_in_use: counts.ports_in_use,
        tls: counts.tls.as_ref().zip(plan.tls()).map(|(counts, plan)| tls_facts(counts, plan)),
        http: counts
            .http
            .as_ref()
            .zip(plan.tls().and_then(|tls| tls.http.as_ref()))
            .map(|(counts, plan)| http_facts(counts, plan)),
        quic: counts.quic.as_ref().zip(quic_plan(plan)).map(|(counts, plan)| quic_facts(counts, plan)),
    }
}

/// The kept connections of a team that could not be made before the load, if others could.
pub(super) fn left_closed(counts: &ConnectionCounts, team: &Team) -> u64 {
    let are_kept = match &team.plan.wire {
        Wire::Udp(_) | Wire::Captured(_) => false,
        // Those that follow a capture begin with their first query.
        Wire::Tcp(tcp) => tcp.uses_of_connection().is_none() && !team.follows(),
        Wire::Quic(quic) => quic.uses_of_connection().is_none(),
    };
    let has_some = are_kept && counts.before_load > 0;
    if has_some { (team.sockets() as u64).saturating_sub(counts.before_load) } else { 0 }
}

/// How long a port is in `TIME_WAIT` (`TCP_TIMEWAIT_LEN` of Linux), seconds.
const TIME_WAIT_S: f64 = 60.0;

/// A note if connections failed for want of a port: how many source addresses have enough for this load. Connections
/// that are open hold a port each, and with FIN also those that were closed in the time of `TIME_WAIT`.
pub(super) fn no_port_left(counts: &ConnectionCounts, load: &LoadFacts, plan: &Plan) -> Option<String> {
    let failed = counts.failed[Loss::Ports.number()];
    let Wire::Tcp(tcp) = &plan.wire else { return None };
    let what = format!("{failed} connections failed because no port was free");
    let note = if counts.ports == 0 {
        format!("{what}; send from more addresses (-a 127.1.0.0/16)")
    } else {
        let rate = if load.duration_s > 0.0 { counts.attempts as f64 / load.duration_s } else { 0.0 };
        let (held_s, how, or) = match tcp.close {
            Close::Fin => {
                let how = ", and each port for 60 s after it was closed (TIME_WAIT)";
                (TIME_WAIT_S, how, ", or close with --close rst")
            }
            Close::Rst => (0.0, "", ""),
        };
        // Past the kernel nothing is kept in TIME_WAIT.
        let (held_s, how, or) = if tcp.io == Io::Xdp { (0.0, "", "") } else { (held_s, how, or) };
        let ports = counts.ports;
        let addresses = ((plan.flows() as f64 + rate * held_s) / ports as f64).ceil().max(1.0);
        format!(
            "{what}: {rate:.0} connections a second with {} open at once{how} need {addresses:.0} source addresses of \
             {ports} ports each; send from as many at least (-a 127.1.0.0/16){or}",
            plan.flows()
        )
    };
    (failed > 0).then_some(note)
}

fn http_facts(counts: &HttpCounts, plan: &HttpPlan) -> HttpFacts {
    let paths: BTreeSet<&String> = plan.paths.iter().collect();
    HttpFacts {
        method: plan.method.name().into(),
        paths: paths.into_iter().cloned().collect(),
        blocked: counts.blocked,
        blocked_s: counts.blocked_ns as f64 / 1e9,
        goaways: counts.goaways.clone(),
        resets: counts.resets.clone(),
        failures: counts.failures.clone(),
    }
}

fn quic_facts(counts: &QuicCounts, plan: &QuicPlan) -> QuicFacts {
    QuicFacts {
        congestion: plan.congestion.word().into(),
        blocked_queries: counts.blocked_queries,
        blocked_us: counts.blocked_ns / 1000,
        retries: counts.client.retries,
        tokens_received: counts.client.tokens_received,
        early_in_old_records: EarlyFacts::default(),
        datagrams_sent: counts.client.datagrams_sent,
        datagrams_received: counts.client.datagrams_received,
        packets_sent: counts.client.packets_sent,
        packets_lost: counts.client.packets_lost,
        failures: counts.failures.clone(),
    }
}

fn quic_plan(plan: &Plan) -> Option<&QuicPlan> {
    plan.wire.each().into_iter().find_map(|wire| match wire {
        Wire::Quic(quic) => Some(quic),
        Wire::Udp(_) | Wire::Tcp(_) | Wire::Captured(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::TcpPlan;
    use crate::plan::tests::{plan, tcp_plan};

    #[test]
    fn without_a_port_the_note_says_how_many_addresses_are_enough() {
        let load = LoadFacts { duration_s: 10.0, ..LoadFacts::default() };
        let said = |close, ports| {
            let mut counts = ConnectionCounts { attempts: 30_000, ports, ..ConnectionCounts::default() };
            counts.failed[Loss::Ports.number()] = 7;
            let wire = Wire::Tcp(TcpPlan { close, ..tcp_plan(2000) });
            no_port_left(&counts, &load, &Plan { wire, ..plan("127.0.0.1:53".parse().unwrap()) }).unwrap()
        };
        // 2,000 open ones, and 180,000 in TIME_WAIT.
        let note = said(Close::Fin, 1000);
        assert!(
            note.contains("7 connections failed") && note.contains("need 182 source addresses"),
            "{note}"
        );
        assert!(said(Close::Rst, 1000).contains("need 2 source addresses of 1000 ports each"));
        assert!(!said(Close::Fin, 0).contains("need"), "the kernel chose");
        let none = ConnectionCounts::default();
        let wire = Wire::Tcp(tcp_plan(1));
        assert_eq!(no_port_left(&none, &load, &Plan { wire, ..plan("[::1]:53".parse().unwrap()) }), None);
    }
}

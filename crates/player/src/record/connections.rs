//! The facts of connections, and of HTTP and QUIC on them.

use std::collections::BTreeSet;

use kqps_observation::{ConnectionFacts, EarlyFacts, HttpFacts, QuicFacts};

use super::causes::by_name;
use super::tls::tls_facts;
use crate::connections::{ConnectionCounts, Ending, HttpCounts, QuicCounts};
use crate::loss::Loss;
use crate::plan::{HttpPlan, Plan, QuicPlan, Wire};
use crate::team::Team;

pub(super) fn connection_facts(counts: &ConnectionCounts, plan: &Plan) -> ConnectionFacts {
    ConnectionFacts {
        alone: plan.has_connections_alone(),
        attempts: counts.attempts,
        established: counts.established,
        before_load: counts.before_load,
        failed: by_name(Loss::NAMES.iter().copied().map(String::from).zip(counts.failed)),
        unfinished: counts.unfinished,
        closed: by_name(Ending::NAMES.iter().copied().map(String::from).zip(counts.closed)),
        open: counts.open,
        handed: counts.handed,
        connect_us: counts.connect.quantiles(),
        first_query_us: counts.first_query.quantiles(),
        write_to_reply_us: counts.write_to_reply.quantiles(),
        retransmitted: counts.retransmitted,
        delayed_acks: counts.delayed_acks,
        connections_with_retransmitted_syn: counts.lost_syns,
        ports_in_use: counts.ports_in_use,
        tls: counts.tls.as_ref().zip(plan.tls()).map(|(tls, plan)| tls_facts(tls, plan, counts.are_of_tcp())),
        http: counts.http.as_ref().zip(plan.wire.http()).map(|(counts, plan)| http_facts(counts, plan)),
        quic: counts.quic.as_ref().zip(quic_plan(plan)).map(|(counts, plan)| quic_facts(counts, plan)),
    }
}

/// The kept connections of a team that could not be made before the load, if others could.
pub(super) fn left_closed(counts: &ConnectionCounts, team: &Team) -> u64 {
    // Connections that follow a capture begin with their first query.
    let are_kept = team.plan.wire.connection_use().is_some_and(|of| of.are_kept()) && !team.follows();
    let has_some = are_kept && counts.before_load > 0;
    if has_some { (team.sockets() as u64).saturating_sub(counts.before_load) } else { 0 }
}

fn http_facts(counts: &HttpCounts, plan: &HttpPlan) -> HttpFacts {
    let paths: BTreeSet<&String> = plan.paths.iter().collect();
    HttpFacts {
        method: plan.method.word().into(),
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
        send_waits: counts.send_waits,
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

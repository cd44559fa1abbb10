//! The facts of TLS on connections, and notes on what it could not do as asked.

use kqps_observation::{SessionFacts, TlsFacts};
use kqps_tls::{Failure, Kind, Session, Trust};

use crate::connections::{ConnectionCounts, TlsCounts};
use crate::loss::Loss;
use crate::plan::{Plan, TcpPlan, TlsPlan, Wire};
use crate::tally::Tally;

/// The alert `handshake_failure` (RFC 8446, section 6.2), by which servers also refuse what is offered.
const HANDSHAKE_FAILURE: u8 = 40;

/// How the note begins that no early data was sent, though it was asked for.
pub const NO_EARLY_DATA: &str = "no early data was sent (--early-data)";

/// The note that queries which shared records got no reply.
pub const PACKED_AND_LOST: &str = "queries without a reply shared TLS records with others (--tls-packing). Some servers, \
                                   such as NSD 4.6.1 and dnsdist 1.7.3, answer the first query of a record and leave the \
                                   others until more arrives; play without --tls-packing to see whether this one does";

pub(super) fn tls_facts(counts: &TlsCounts, plan: &TlsPlan, has_records: bool) -> TlsFacts {
    let by_kind = || Kind::NAMES.into_iter().zip(&counts.handshakes).filter(|(_, times)| !times.is_empty());
    let mut sessions: Vec<SessionFacts> =
        counts.sessions.iter().map(|(session, count)| session_facts(session, *count)).collect();
    sessions.sort_by_key(|session| std::cmp::Reverse(session.connections));
    TlsFacts {
        trust: match plan.client.trust {
            Trust::System => "system",
            Trust::Ca(_) => "ca",
            Trust::Anyone => "anyone",
        }
        .into(),
        resume: plan.client.resume,
        packing: has_records.then_some(plan.packing),
        handshakes: by_kind().map(|(kind, times)| (kind.into(), times.len())).collect(),
        handshake_us: by_kind().map(|(kind, times)| (kind.into(), times.quantiles())).collect(),
        sessions,
        tickets_received: counts.tickets.received,
        tickets_offered: counts.tickets.offered,
        early: plan.client.early_data.then_some(counts.early),
        failures: counts.failures.clone(),
    }
}

fn session_facts(session: &Session, connections: u64) -> SessionFacts {
    SessionFacts {
        version: session.version.into(),
        suite: session.suite.to_string(),
        group: session.group.map(|group| group.to_string()),
        certificate: session.certificate.map(Into::into),
        connections,
    }
}

/// A note if early data was asked for and no connection offered any: why.
pub(super) fn no_early_data(counts: &ConnectionCounts, plan: &Plan) -> Option<String> {
    let tls = counts.tls.as_ref()?;
    let is_wanted = plan.tls()?.client.early_data;
    if !is_wanted || counts.established == 0 || tls.early.offered > 0 {
        return None;
    }
    let mut uses = plan.wire.each().into_iter().filter_map(Wire::connection_use);
    let are_kept = uses.any(|of| of.tls.is_some() && of.are_kept());
    let why = if tls.tickets.received == 0 {
        "the server sent no tickets"
    } else if plan.has_connections_alone() {
        "connections alone have no queries"
    } else if are_kept && counts.before_load == counts.established {
        "kept connections are opened before there are queries; give each fewer queries (--queries-per-connection)"
    } else if tls.tickets.offered == 0 {
        "no connection had a ticket of an earlier one"
    } else if tls.sessions.iter().all(|(session, _)| session.version == "TLSv1.2") {
        "the server agreed on TLS 1.2, which has no early data"
    } else {
        "the server's tickets do not allow it, or no query may be replayed"
    };
    Some(format!("{NO_EARLY_DATA}: {why}"))
}

/// A note if queries got no reply and those that left together shared records of TLS: servers may be why.
pub(super) fn packed_and_lost(tally: &Tally, plan: &Plan) -> Option<String> {
    let packs = |wire: &&Wire| match wire {
        Wire::Tcp(TcpPlan { tls: Some(tls), .. }) => tls.packing && tls.http.is_none(),
        _ => false,
    };
    let is_noted = tally.lost_by[Loss::Time.number()] > 0 && plan.wire.each().iter().any(packs);
    is_noted.then(|| PACKED_AND_LOST.to_owned())
}

/// A note if handshakes failed and the certificate's type may be why.
pub(super) fn no_certificate(counts: &ConnectionCounts, plan: &Plan) -> Option<String> {
    let key = plan.tls()?.client.certificate?.word();
    let refused = Failure::of_alert(HANDSHAKE_FAILURE).to_string();
    let failed = counts.tls.as_ref()?.failures.get(&refused)?;
    let failed = match failed {
        1 => "1 handshake".to_owned(),
        many => format!("{many} handshakes"),
    };
    Some(format!(
        "{failed} ended with an alert, perhaps since the server has no {key} certificate, and the player \
         accepts no other (--tls-certificate)"
    ))
}

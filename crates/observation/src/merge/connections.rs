//! The connections of all players.

use std::collections::{BTreeMap, BTreeSet};

use crate::{ConnectionFacts, EarlyFacts, HttpFacts, Quantiles, QuicFacts, SessionFacts, TlsFacts};

use super::Part;
use super::counts::{self, Counts};
use super::histograms::Histograms;

/// The connections of all players; `None` if the transport has none. Their times are those of the added histograms.
pub(super) fn facts(parts: &[Part], histograms: &Histograms) -> Option<ConnectionFacts> {
    let all: Vec<&ConnectionFacts> =
        parts.iter().filter_map(|part| part.trial.connections.as_ref()).collect();
    let first = all.first()?;
    let sum = |of: fn(&ConnectionFacts) -> u64| counts::sum(all.iter().map(|facts| of(facts)));
    let by_cause = |of: fn(&ConnectionFacts) -> &Counts| counts::by_cause(all.iter().map(|facts| of(facts)));
    Some(ConnectionFacts {
        alone: first.alone,
        attempts: sum(|facts| facts.attempts),
        established: sum(|facts| facts.established),
        before_load: sum(|facts| facts.before_load),
        failed: by_cause(|facts| &facts.failed),
        unfinished: sum(|facts| facts.unfinished),
        closed: by_cause(|facts| &facts.closed),
        open: sum(|facts| facts.open),
        handed: sum(|facts| facts.handed),
        connect_us: histograms.quantiles("connect"),
        first_query_us: histograms.quantiles("first query"),
        write_to_reply_us: histograms.quantiles("write to reply"),
        retransmitted: sum(|facts| facts.retransmitted),
        delayed_acks: sum(|facts| facts.delayed_acks),
        connections_with_retransmitted_syn: sum(|facts| facts.connections_with_retransmitted_syn),
        ports_in_use: sum(|facts| facts.ports_in_use),
        tls: tls(&all, histograms),
        http: http(&all),
        quic: quic(&all),
    })
}

fn tls(all: &[&ConnectionFacts], histograms: &Histograms) -> Option<TlsFacts> {
    let all: Vec<&TlsFacts> = all.iter().filter_map(|facts| facts.tls.as_ref()).collect();
    let first = all.first()?;
    let kinds: BTreeSet<&String> = all.iter().flat_map(|facts| facts.handshake_us.keys()).collect();
    let times = |kind: &&String| -> (String, Quantiles) {
        ((*kind).clone(), histograms.quantiles(&format!("handshake {kind}")))
    };
    Some(TlsFacts {
        trust: first.trust.clone(),
        resume: first.resume,
        packing: first.packing,
        handshakes: counts::by_cause(all.iter().map(|facts| &facts.handshakes)),
        handshake_us: kinds.iter().map(times).collect(),
        sessions: sessions(&all),
        tickets_received: counts::sum(all.iter().map(|facts| facts.tickets_received)),
        tickets_offered: counts::sum(all.iter().map(|facts| facts.tickets_offered)),
        early: early(&all),
        failures: counts::by_cause(all.iter().map(|facts| &facts.failures)),
    })
}

fn early(all: &[&TlsFacts]) -> Option<EarlyFacts> {
    let all: Vec<EarlyFacts> = all.iter().filter_map(|facts| facts.early).collect();
    let sum = |of: fn(&EarlyFacts) -> u64| counts::sum(all.iter().map(of));
    let early = EarlyFacts {
        offered: sum(|early| early.offered),
        accepted: sum(|early| early.accepted),
        rejected: sum(|early| early.rejected),
        undecided: sum(|early| early.undecided),
        queries: sum(|early| early.queries),
        queries_again: sum(|early| early.queries_again),
    };
    (!all.is_empty()).then_some(early)
}

/// Sessions that the handshakes of all players agreed on, the most frequent first.
fn sessions(all: &[&TlsFacts]) -> Vec<SessionFacts> {
    type Agreed<'a> = (&'a str, &'a str, Option<&'a str>, Option<&'a str>);
    let mut sums: BTreeMap<Agreed<'_>, u64> = BTreeMap::new();
    for session in all.iter().flat_map(|facts| &facts.sessions) {
        let agreed =
            (&*session.version, &*session.suite, session.group.as_deref(), session.certificate.as_deref());
        let sum = sums.entry(agreed).or_default();
        *sum = sum.saturating_add(session.connections);
    }
    let session = |((version, suite, group, certificate), connections): (Agreed<'_>, u64)| SessionFacts {
        version: version.to_owned(),
        suite: suite.to_owned(),
        group: group.map(str::to_owned),
        certificate: certificate.map(str::to_owned),
        connections,
    };
    let mut sessions: Vec<SessionFacts> = sums.into_iter().map(session).collect();
    sessions.sort_by_key(|session| std::cmp::Reverse(session.connections));
    sessions
}

fn http(all: &[&ConnectionFacts]) -> Option<HttpFacts> {
    let all: Vec<&HttpFacts> = all.iter().filter_map(|facts| facts.http.as_ref()).collect();
    let first = all.first()?;
    let mut paths: Vec<String> = Vec::new();
    for path in all.iter().flat_map(|facts| &facts.paths) {
        if !paths.contains(path) {
            paths.push(path.clone());
        }
    }
    Some(HttpFacts {
        method: first.method.clone(),
        paths,
        blocked: counts::sum(all.iter().map(|facts| facts.blocked)),
        blocked_s: all.iter().map(|facts| facts.blocked_s).sum(),
        goaways: counts::by_cause(all.iter().map(|facts| &facts.goaways)),
        resets: counts::by_cause(all.iter().map(|facts| &facts.resets)),
        failures: counts::by_cause(all.iter().map(|facts| &facts.failures)),
    })
}

fn quic(all: &[&ConnectionFacts]) -> Option<QuicFacts> {
    let all: Vec<&QuicFacts> = all.iter().filter_map(|facts| facts.quic.as_ref()).collect();
    let first = all.first()?;
    let sum = |of: fn(&QuicFacts) -> u64| counts::sum(all.iter().map(|facts| of(facts)));
    Some(QuicFacts {
        congestion: first.congestion.clone(),
        blocked_queries: sum(|facts| facts.blocked_queries),
        blocked_us: sum(|facts| facts.blocked_us),
        retries: sum(|facts| facts.retries),
        tokens_received: sum(|facts| facts.tokens_received),
        early_in_old_records: EarlyFacts::default(),
        datagrams_sent: sum(|facts| facts.datagrams_sent),
        datagrams_received: sum(|facts| facts.datagrams_received),
        send_waits: sum(|facts| facts.send_waits),
        packets_sent: sum(|facts| facts.packets_sent),
        packets_lost: sum(|facts| facts.packets_lost),
        failures: counts::by_cause(all.iter().map(|facts| &facts.failures)),
    })
}

//! `kqps serve cache`, run as a user would: real sockets, before servers that the test plays itself.

mod aliases;
mod clients;
mod connections;
mod cookies;
mod failures;
mod forged;
mod hits;
mod outgoing;
mod replies;
mod slow;
mod upstream;
mod usage;

use kqps_kernel::process::Signal;
use kqps_server::Report;
use kqps_server::report::{BackEndReport, CacheReport};

use crate::auth::dns::{Reply, query, query_edns};
use crate::serve::running::Running;

/// A cache that asks these servers, each in the form of `--forward` or `--stub`.
fn cache(servers: &[&str], arguments: &[&str]) -> Running {
    let named = servers.iter().flat_map(|&server| {
        let flag = if server.contains('=') { "--stub" } else { "--forward" };
        [flag, server]
    });
    let all: Vec<&str> = ["--listen", "127.0.0.1:0"].into_iter().chain(named).collect();
    Running::start_as("cache", &[&all, arguments].concat())
}

/// A query that wants the server to find the answer.
fn asks(id: u16, name: &str, rtype: u16) -> Vec<u8> {
    let mut query = query(id, name, rtype);
    query[2] = 1;
    query
}

/// A query as by [`asks`], with EDNS and this payload size.
fn asks_edns(id: u16, name: &str, rtype: u16, payload_bytes: u16) -> Vec<u8> {
    let mut query = query_edns(id, name, rtype, payload_bytes);
    query[2] = 1;
    query
}

/// The TTL of the first answer, whose owner is a pointer.
fn ttl_s(reply: &Reply) -> u32 {
    let at = upstream::question_end(&reply.0) + 6;
    u32::from_be_bytes(reply.0[at..at + 4].try_into().unwrap())
}

/// Stops a cache, checks its sums, and returns its counts.
fn stop(server: Running) -> (Report, CacheReport) {
    let report = server.stop(Signal::Terminate);
    assert_eq!(report.received, report.answered + report.dropped.values().sum::<u64>(), "{report:?}");
    assert_eq!(report.response_rcodes.values().sum::<u64>(), report.answered, "{report:?}");
    for tcp in report.tcp.iter().chain(report.quic.as_ref().map(|quic| &quic.counts)) {
        assert_eq!(tcp.received, tcp.answered + tcp.dropped.values().sum::<u64>(), "{report:?}");
        assert_eq!(tcp.connections, tcp.ended.values().sum::<u64>(), "{report:?}");
    }
    for worker in &report.workers {
        let settled = worker.answered + worker.dropped.values().sum::<u64>() + worker.later;
        assert_eq!(worker.received, settled, "{report:?}");
    }
    for back_end in report.back_ends.values() {
        let BackEndReport { sent, answered, timed_out, cut_off, displaced, unsettled, .. } = back_end;
        assert_eq!(*sent, answered + timed_out + cut_off + displaced + unsettled, "{report:?}");
    }
    let cache = report.cache.expect("a cache counts");
    let tcp = report.tcp.as_ref().map_or(0, |tcp| tcp.received);
    let CacheReport { hits, stale, failures, misses, refused, .. } = cache;
    assert_eq!(hits + stale + failures + misses + refused, report.received + tcp, "{report:?}");
    (report, cache)
}

//! Our server over UDP, TCP, TLS, HTTPS and QUIC: the same questions get the same answers, but for what UDP has no room
//! for.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use domain::base::Rtype;
use kqps_ask::Server;
use kqps_http::Method;
use kqps_lab::subject::Zone;
use kqps_tls::{ClientSettings, Trust};
use serde::Deserialize;

use super::super::Bench;
use super::ask;
use super::generate::Generator;
use super::part::ReplyPart;
use super::query::{Query, Transport};
use super::reply::Reply;
use crate::child::Running;

/// Questions that are asked at once. Their IDs must differ.
const BATCH: usize = 8192;

/// Queries that are sent on a connection before the first reply is read.
const PIPELINE: usize = 12;

/// How long to wait for a connection, and for a reply.
const PATIENCE: Duration = Duration::from_secs(5);

const SMALL: usize = 1_000;
const WHOLE: usize = 50_000;

/// Types whose answers depend on the transport: transfers are for connections, and of all records of a name UDP gets a
/// few (RFC 8482).
const OTHERWISE: [Rtype; 3] = [Rtype::AXFR, Rtype::IXFR, Rtype::ANY];

/// TC in the second word of the header.
const TC: u16 = 0x0200;

/// The option that is an error over QUIC (RFC 9250, section 5.5.2), in a query's words.
const KEEPALIVE: &str = "+keepalive";

/// The replies to some queries, or nothing for those that were not asked.
type Replies = Vec<Option<Vec<u8>>>;

/// The line that the server prints when it can answer.
#[derive(Deserialize)]
struct Ready {
    addresses: Vec<SocketAddr>,
    tls: Vec<SocketAddr>,
    https: Vec<SocketAddr>,
    quic: Vec<SocketAddr>,
}

impl Ready {
    /// The replies over each transport but UDP, by its name.
    fn by_others(&self, batch: &[Query]) -> Result<Vec<(&'static str, Replies)>> {
        // The certificate may be any.
        let settings = ClientSettings::new(Trust::Anyone, false);
        let servers = [
            ("tcp", Server::over_tcp(first(&self.addresses)?)),
            ("tls", Server::over_tls(first(&self.tls)?, &settings)?),
            ("https by post", Server::over_https(first(&self.https)?, &settings, (Method::Post, 200..201))?),
            ("https by get", Server::over_https(first(&self.https)?, &settings, (Method::Get, 200..201))?),
            ("quic", Server::over_quic(first(&self.quic)?, &settings)?),
        ];
        let by = |(transport, server): (&'static str, Server)| -> Result<_> {
            let replies = replies(&server, batch, |query| is_for(transport, query));
            Ok((transport, replies.with_context(|| format!("over {transport}"))?))
        };
        servers.into_iter().map(by).collect()
    }
}

/// The first of some addresses.
fn first(addresses: &[SocketAddr]) -> Result<SocketAddr> {
    addresses.first().copied().context("the server does not listen for each transport")
}

/// The replies on one connection to queries whose IDs differ, of those for which `is_asked`.
fn replies(server: &Server, batch: &[Query], is_asked: impl Fn(&Query) -> bool) -> Result<Replies> {
    let mut connection = server.connect(PATIENCE)?;
    let mut replies = vec![None; batch.len()];
    let asked: Vec<(usize, &Query)> = batch.iter().enumerate().filter(|(_, query)| is_asked(query)).collect();
    for some in asked.chunks(PIPELINE) {
        let queries: Vec<&[u8]> = some.iter().map(|(_, query)| &*query.bytes).collect();
        connection.send(&queries)?;
        for _ in some {
            let reply = connection.receive(PATIENCE);
            let reply = reply.with_context(|| format!("{PIPELINE} queries from {}", some[0].1.words))?;
            let place = some.iter().find(|(_, query)| reply.starts_with(&query.bytes[..2]));
            replies[place.context("a reply answers no query")?.0] = Some(reply);
        }
    }
    Ok(replies)
}

fn is_for(transport: &str, query: &Query) -> bool {
    transport != "quic" || !query.words.contains(KEEPALIVE)
}

/// Asks the same generated questions over each transport, and compares the replies with those over UDP.
pub(super) fn prove(bench: &Bench, zones: &[Zone], generator: &Generator) -> Result<()> {
    let (_server, ready) = start(bench, zones)?;
    let count = bench.choose(SMALL, WHOLE);
    let questions = (0..).map(|index| generator.query(index)).filter(is_usual).take(count);
    let questions: Vec<Query> = (0..).zip(questions).map(|(number, query)| numbered(query, number)).collect();
    let mut truncated = 0;
    for batch in questions.chunks(BATCH) {
        let by_udp = ask::ask(first(&ready.addresses)?, batch)?;
        let by_others = ready.by_others(batch)?;
        for (index, query) in batch.iter().enumerate() {
            let udp = Reply::read(by_udp[index].as_deref());
            ensure!(udp.message().is_some(), "no reply by udp to {}", query.words);
            truncated += usize::from(is_truncated(&udp));
            for (transport, replies) in by_others.iter().filter(|(transport, _)| is_for(transport, query)) {
                let other = Reply::read(replies[index].as_deref());
                if let Some(part) = difference(&udp, &other) {
                    bail!(
                        "{} differs over {transport} for {}:\n{udp:?}\n{other:?}",
                        part.name(),
                        query.words
                    );
                }
            }
        }
    }
    println!(
        "{count} answers are the same over udp, tcp, tls, https and quic; {truncated} were truncated over udp"
    );
    Ok(())
}

/// Starts our server with these zones, for all transports.
fn start(bench: &Bench, zones: &[Zone]) -> Result<(Running, Ready)> {
    let list = bench.folder.path().join("transports.list");
    let lines: Vec<String> =
        zones.iter().map(|zone| format!("{} {}\n", zone.origin, zone.file.display())).collect();
    std::fs::write(&list, lines.concat()).with_context(|| format!("cannot write {}", list.display()))?;
    let mut command = Command::new(&bench.kqps.program);
    command.args(["serve", "auth", "--json", "--for", "1h", "--listen", "127.0.0.1:0"]);
    for scheme in ["tls", "https", "quic"] {
        command.arg("--listen").arg(format!("{scheme}://127.0.0.1:0"));
    }
    command.arg("--zones").arg(&list);
    let mut server = Running::start(&mut command)?;
    let ready = server.json_line()?;
    Ok((server, ready))
}

/// Whether a question has no odd bytes, and its answer depends on no transport.
fn is_usual(query: &Query) -> bool {
    !query.words.ends_with(')') && !OTHERWISE.contains(&query.question.rtype())
}

/// A query with this number among those that are asked, which gives its ID; over UDP at first.
fn numbered(mut query: Query, number: u64) -> Query {
    query.transport = Transport::Udp;
    query.index = number;
    query.bytes[..2].copy_from_slice(&Query::id(number).to_be_bytes());
    query
}

fn is_truncated(reply: &Reply) -> bool {
    reply.message().is_some_and(|message| message.bits & TC != 0)
}

/// The first part in which a reply by a connection differs from that over UDP, although UDP has room for it. Additional
/// records may be missing over UDP. Of the options, padding and the time of a connection depend on the transport.
fn difference(udp: &Reply, other: &Reply) -> Option<ReplyPart> {
    let needs_room = [ReplyPart::Tc, ReplyPart::Answer, ReplyPart::Authority, ReplyPart::Additional];
    let is_free =
        |part: ReplyPart| part == ReplyPart::Options || (is_truncated(udp) && needs_room.contains(&part));
    let is_same = |part: ReplyPart| match (part, udp.message(), other.message()) {
        (ReplyPart::Additional, Some(udp), Some(other)) => {
            udp.additional.records.iter().all(|record| other.additional.records.contains(record))
        }
        _ => part.is_equal(udp, other),
    };
    let differs = |part: &ReplyPart| !is_free(*part) && !is_same(*part);
    if is_truncated(other) {
        return Some(ReplyPart::Tc);
    }
    ReplyPart::ALL.into_iter().find(differs)
}

#[cfg(test)]
mod tests {
    use super::super::reply::{Normal, Record};
    use super::*;

    /// A reply with these bits, and records of these types in answer and additional section.
    fn reply(bits: u16, answer: &[u16], additional: &[u16]) -> Reply {
        let record = |rtype: &u16| Record { owner: vec![0], rtype: *rtype, class: 1, data: vec![], ttl: 1 };
        let mut normal = Normal { bits, ..Normal::default() };
        normal.answer.records = answer.iter().map(record).collect();
        normal.additional.records = additional.iter().map(record).collect();
        Reply::Message(Box::new(normal))
    }

    #[test]
    fn only_what_has_no_room_in_udp_may_differ() {
        assert_eq!(difference(&reply(0, &[1], &[1]), &reply(0, &[1], &[1, 28])), None);
        assert_eq!(difference(&reply(TC, &[], &[]), &reply(0, &[1], &[])), None);
        assert_eq!(difference(&reply(0, &[1], &[]), &reply(0, &[1, 2], &[])), Some(ReplyPart::Answer));
        assert_eq!(difference(&reply(0, &[1], &[28]), &reply(0, &[1], &[])), Some(ReplyPart::Additional));
        assert_eq!(difference(&reply(TC, &[], &[]), &reply(TC, &[], &[])), Some(ReplyPart::Tc));
        assert_eq!(difference(&reply(0, &[], &[]), &Reply::Silence), Some(ReplyPart::Reply));
    }
}

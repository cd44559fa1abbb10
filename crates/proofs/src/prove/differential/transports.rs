//! Our server over UDP, TCP and TLS: the same questions get the same answers, but for what UDP has no room for.

use std::net::SocketAddr;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use domain::base::Rtype;
use kqps_lab::subject::Zone;
use serde::Deserialize;

use super::super::Bench;
use super::ask;
use super::generate::Generator;
use super::part::ReplyPart;
use super::query::{Query, Transport};
use super::reply::Reply;
use super::secure::Asker;
use crate::child::Running;

/// Questions that are asked at once. Their IDs must differ.
const BATCH: usize = 8192;

const SMALL: usize = 1_000;
const WHOLE: usize = 50_000;

/// Types whose answers depend on the transport: transfers are for connections, and of all records of a name UDP gets a
/// few (RFC 8482).
const OTHERWISE: [Rtype; 3] = [Rtype::AXFR, Rtype::IXFR, Rtype::ANY];

/// TC in the second word of the header.
const TC: u16 = 0x0200;

/// The line that the server prints when it can answer.
#[derive(Deserialize)]
struct Ready {
    addresses: Vec<SocketAddr>,
    tls: Vec<SocketAddr>,
}

/// Asks the same generated questions over each transport, and compares the replies with those over UDP.
pub(super) fn prove(bench: &Bench, zones: &[Zone], generator: &Generator) -> Result<()> {
    let (_server, ready) = start(bench, zones)?;
    let (plain, tls) =
        ready.addresses.first().zip(ready.tls.first()).context("the server listens nowhere")?;
    let count = bench.choose(SMALL, WHOLE);
    let questions = (0..).map(|index| generator.query(index)).filter(is_usual).take(count);
    let questions: Vec<Query> = (0..).zip(questions).map(|(number, query)| numbered(query, number)).collect();
    let mut truncated = 0;
    for batch in questions.chunks(BATCH) {
        let by_udp = ask::ask(*plain, &over(Transport::Udp, batch))?;
        let by_tcp = ask::ask(*plain, &over(Transport::Tcp, batch))?;
        let by_tls = Asker::new(*tls)?.ask(batch)?;
        for (index, query) in batch.iter().enumerate() {
            let udp = Reply::read(by_udp[index].as_deref());
            ensure!(udp.message().is_some(), "no reply by udp to {}", query.words);
            truncated += usize::from(is_truncated(&udp));
            for (transport, reply) in [("tcp", by_tcp[index].as_deref()), ("tls", Some(&*by_tls[index]))] {
                let other = Reply::read(reply);
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
    println!("{count} answers are the same over udp, tcp and tls; {truncated} were truncated over udp");
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
    command.args(["--listen", "tls://127.0.0.1:0", "--zones"]).arg(&list);
    let mut server = Running::start(&mut command)?;
    let ready = server.json_line()?;
    Ok((server, ready))
}

/// Whether a question has no odd bytes, and its answer depends on no transport.
fn is_usual(query: &Query) -> bool {
    !query.words.ends_with(')') && !OTHERWISE.contains(&query.question.rtype())
}

/// A query with this number among those that are asked, which gives its ID.
fn numbered(mut query: Query, number: u64) -> Query {
    query.index = number;
    query.bytes[..2].copy_from_slice(&Query::id(number).to_be_bytes());
    query
}

fn over(transport: Transport, queries: &[Query]) -> Vec<Query> {
    queries.iter().map(|query| Query { transport, ..query.clone() }).collect()
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

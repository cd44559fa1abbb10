//! Our authoritative server beside NSD, Knot DNS and BIND. All serve the same zones, unsigned and signed with
//! NSEC, NSEC3 and NSEC3 with opt-out, and get the same generated queries. If the three peers agree on a part
//! of a reply, ours must be the same. If they differ, ours must equal that of one of them. The proof prints
//! their differences, and the parts that RFCs leave open.
//!
//! Before that, our server alone gets the same questions over UDP, TCP, TLS, HTTPS and QUIC, and must answer alike.

mod ask;
mod compare;
mod fixtures;
mod free;
mod generate;
mod odd;
mod part;
mod query;
mod reply;
mod servers;
mod tally;
mod transports;

use anyhow::{Context as _, Result, ensure};

use super::Bench;
use compare::Replies;
use generate::Generator;
use query::Query;
use reply::Reply;
use servers::Server;
use tally::Tally;

/// Queries that are generated and asked at once. Their IDs must differ.
const BATCH: u64 = 8192;

const SMALL: u64 = 2000;
const WHOLE: u64 = 120_000;

/// Starts the servers, asks them, and compares their replies.
pub(super) fn prove(bench: &Bench) -> Result<()> {
    let zones = fixtures::write(bench.folder.path())?;
    let generator = Generator::new(bench.seed)?;
    if bench.index.is_none() {
        transports::prove(bench, &zones, &generator).context("over other transports")?;
    }
    let mut servers = servers::start(bench, &zones)?;
    if let Some(index) = bench.index {
        return show(&mut servers, &generator.query(index));
    }
    let mut tally = Tally::new(servers.iter().map(|server| server.title.clone()).collect(), bench.seed);
    let count = bench.choose(SMALL, WHOLE);
    for first in (0..count).step_by(BATCH as usize) {
        let queries: Vec<Query> =
            (first..count.min(first + BATCH)).map(|index| generator.query(index)).collect();
        let mut replies = ask_all(&mut servers, &queries)?;
        for query in queries.iter().rev() {
            let all = replies.iter_mut().map(|one| one.pop().flatten());
            tally.add(query, &sorted(&servers, all.map(|reply| Reply::read(reply.as_deref())).collect()));
        }
    }
    println!("{}", tally.report());
    ensure!(tally.is_right(), "our replies differ from those of all peers; see above");
    Ok(())
}

/// Separates our reply from those of the peers.
fn sorted(servers: &[Server], mut replies: Vec<Reply>) -> Replies {
    let is_ours = servers.last().is_some_and(|server| server.is_ours);
    let ours = if is_ours { replies.pop() } else { None };
    Replies { ours, peers: replies }
}

/// Asks all servers at the same time.
fn ask_all(servers: &mut [Server], queries: &[Query]) -> Result<Vec<Vec<Option<Vec<u8>>>>> {
    let replies = std::thread::scope(|scope| {
        let asking: Vec<_> = servers
            .iter()
            .map(|server| {
                let address = server.address();
                scope.spawn(move || ask::ask(address, queries))
            })
            .collect();
        asking.into_iter().map(|thread| thread.join().expect("asking does not panic")).collect::<Vec<_>>()
    });
    for server in servers.iter_mut() {
        server.check(queries)?;
    }
    let titled = replies.into_iter().zip(servers);
    titled.map(|(replies, server)| replies.with_context(|| server.title.clone())).collect()
}

/// Asks one query alone and prints the replies.
fn show(servers: &mut [Server], query: &Query) -> Result<()> {
    println!("{}\n{:02x?}", query.words, query.bytes);
    let replies = ask_all(servers, std::slice::from_ref(query))?;
    for (server, reply) in servers.iter().zip(replies) {
        println!("\n; {}", server.title);
        match reply.into_iter().next().flatten() {
            None => println!("; silence"),
            Some(bytes) => match domain::base::Message::from_octets(bytes) {
                Ok(message) => println!("{}", message.display_dig_style()),
                Err(_) => println!("; less than a header"),
            },
        }
    }
    Ok(())
}

//! A resolver by the book, over sockets: iterative, without a cache, one query at a time. It knows the first server of the root
//! alone, finds every name of the clients, and asks as many queries for each as the tree foretells. The servers count as many.

use std::fs::File;
use std::io::BufWriter;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kqps_ask::Server;
use kqps_capture::write::Writer;
use kqps_internet::Internet;
use kqps_kernel::process::Signal;
use kqps_message::header::{AA, RD};
use kqps_message::name::{NameText, is_at_or_below};
use kqps_message::rtype::RtypeName;
use kqps_message::{Header, edns, rcode, rtype};
use serde::Deserialize;

use super::super::Bench;
use super::answers::{self, Rec};
use super::{ON_LOOPBACK, start_on_loopback};

const SMALL: (u32, &str) = (1_000, "small");
const WHOLE: (u32, &str) = (100_000, "medium");

const PATIENCE: Duration = Duration::from_secs(10);
pub(super) const END_WITHIN: Duration = Duration::from_secs(10);

/// The most restarts for one name: no chain of aliases is longer.
const RESTARTS_MOST: usize = 20;

#[derive(Deserialize)]
struct Report {
    received: u64,
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let (count, size) = bench.choose(SMALL, WHOLE);
    let internet = answers::internet(size, &ON_LOOPBACK)?;
    let (mut running, listening) = start_on_loopback(bench, size)?;
    let mut book = Book::new(&internet, listening.port())?;
    let mut foretold = 0;
    for number in 0..count {
        let (qname, qtype) = internet.question(number.into());
        let Some(expected) = internet.expected(&qname, qtype) else { continue };
        let said = || format!("question {number}, {} {}", NameText(&qname), RtypeName(qtype));
        let before = book.upstream;
        let (rcode, mut records) = book.resolve(&qname, qtype).with_context(said)?;
        records.sort_unstable();
        let wanted = (expected.rcode, answers::records_of(&expected));
        ensure!((rcode, &records) == (wanted.0, &wanted.1), "{}: {wanted:?}, not {records:?}", said());
        let asked = book.upstream - before;
        ensure!(asked == expected.upstream, "{}: {asked} queries, not {}", said(), expected.upstream);
        foretold += expected.upstream;
    }
    running.signal(Signal::Terminate)?;
    let report: Report = running.json_line()?;
    running.wait(END_WITHIN)?;
    eprintln!(
        "{count} names found by {foretold} queries, as foretold; the servers count {}",
        report.received
    );
    ensure!(report.received == foretold, "the servers received {} queries, not {foretold}", report.received);
    Ok(())
}

/// The first IPv4 address in the hints.
fn first_root(hints: &str) -> Option<Ipv4Addr> {
    hints.lines().find(|line| line.contains(" IN A "))?.rsplit(' ').next()?.parse().ok()
}

/// The resolver.
pub(super) struct Book {
    port: u16,
    root: Ipv4Addr,
    /// Queries that it asked.
    pub(super) upstream: u64,
    /// The ID of the last one.
    id: u32,
    /// A capture of its queries and their replies, as if servers listened on port 53.
    pub(super) recording: Option<Writer<BufWriter<File>>>,
}

/// The resolver's own end in a capture, the begin of the capture, the time between two queries, and that until a reply,
/// nanoseconds.
const CLIENT: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 40_000);
const BEGIN_NS: u64 = 1_800_000_000_000_000_000;
const EVERY_NS: u64 = 20_000_000;
const REPLY_AFTER_NS: u64 = 500_000;

/// A reply, read.
struct Reply {
    rcode: u16,
    is_authoritative: bool,
    sections: [Vec<Rec>; 3],
}

impl Book {
    /// A resolver of an Internet whose servers listen on this port of loopback.
    pub(super) fn new(internet: &Internet, port: u16) -> Result<Self> {
        let root = first_root(&internet.root_hints()).context("the hints have an address")?;
        Ok(Self { port, root, upstream: 0, id: 0, recording: None })
    }

    /// The rcode and the records of the answer.
    pub(super) fn resolve(&mut self, qname: &[u8], qtype: u16) -> Result<(u16, Vec<Rec>)> {
        let mut records = Vec::new();
        let mut name = qname.to_ascii_lowercase();
        for _ in 0..RESTARTS_MOST {
            let (reply, zone) = self.descend(&name, qtype)?;
            let [answer, authority, _] = reply.sections;
            let mut left: Vec<Rec> =
                answer.into_iter().filter(|(owner, ..)| is_at_or_below(owner, &zone)).collect();
            loop {
                let (here, others): (Vec<Rec>, Vec<Rec>) =
                    left.into_iter().partition(|(owner, ..)| *owner == name);
                left = others;
                let is_alias = |(_, rtype, _): &&Rec| *rtype == rtype::CNAME && qtype != rtype::CNAME;
                let Some(alias) = here.iter().find(is_alias).cloned() else {
                    records.extend(here);
                    ensure!(left.is_empty(), "{left:?} do not belong to the answer");
                    return Ok((reply.rcode, records));
                };
                name.clone_from(&alias.2);
                records.push(alias);
                // A server that also has the zone of the alias may deny its end, but is trusted for its own zone alone.
                let is_denied = reply.rcode == rcode::NXDOMAIN || !authority.is_empty();
                let is_answered = left.iter().any(|(owner, ..)| *owner == name)
                    || (is_denied && is_at_or_below(&name, &zone));
                if !is_answered {
                    break;
                }
            }
        }
        anyhow::bail!("the chain of aliases does not end")
    }

    /// Asks from the root on until a server answers. Returns its reply, and its zone.
    fn descend(&mut self, name: &[u8], qtype: u16) -> Result<(Reply, Vec<u8>)> {
        let (mut server, mut zone) = (self.root, b"\0".to_vec());
        loop {
            let reply = self.ask(server, name, qtype)?;
            if reply.is_authoritative {
                return Ok((reply, zone));
            }
            let [_, authority, additional] = reply.sections;
            let is_server = |(_, rtype, _): &&Rec| *rtype == rtype::NS;
            let (below, _, first) =
                authority.iter().find(is_server).context("neither an answer nor a referral")?;
            let leads_on = is_at_or_below(name, below) && is_at_or_below(below, &zone) && *below != zone;
            ensure!(leads_on, "a referral from {} to {}", NameText(&zone), NameText(below));
            let is_glue = |(owner, rtype, _): &&Rec| *rtype == rtype::A && owner == first;
            let address = match additional.iter().find(is_glue) {
                Some((.., address)) => address.clone(),
                None => self.resolve(first, rtype::A)?.1.pop().context("the server has no address")?.2,
            };
            let octets: [u8; 4] = address.try_into().ok().context("an address has four octets")?;
            (server, zone) = (octets.into(), below.clone());
        }
    }

    fn ask(&mut self, server: Ipv4Addr, name: &[u8], qtype: u16) -> Result<Reply> {
        self.upstream += 1;
        self.id = self.id.wrapping_add(1);
        let mut query = answers::asked(self.id, name, qtype, false);
        // A resolver wants no recursion of name servers.
        query[2] &= !RD;
        let at = SocketAddr::new(IpAddr::V4(server), self.port);
        let reply = Server::over_udp(at).connect(PATIENCE)?.ask(&query, PATIENCE)?;
        self.record(server, &query, &reply)?;
        let header = Header::from_bytes(&reply).filter(|header| !header.is_truncated());
        let header = header.context("a reply is truncated")?;
        let sections = answers::sections(&reply).context("a reply is malformed")?;
        Ok(Reply { rcode: edns::rcode(header, &reply), is_authoritative: reply[2] & AA != 0, sections })
    }

    /// Records a query with its reply, if all are recorded.
    fn record(&mut self, server: Ipv4Addr, query: &[u8], reply: &[u8]) -> Result<()> {
        let Some(recording) = &mut self.recording else { return Ok(()) };
        let (at_ns, server) = (BEGIN_NS + self.upstream * EVERY_NS, (server, 53).into());
        recording.udp(at_ns, CLIENT.into(), server, query)?;
        recording.udp(at_ns + REPLY_AFTER_NS, server, CLIENT.into(), reply)?;
        Ok(())
    }
}

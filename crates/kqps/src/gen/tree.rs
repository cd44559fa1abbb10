//! A tree for `kqps serve internet` from a capture of what a resolver asked: a folder with master files, and a list of servers.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use kqps_capture::{CaptureError, Event, Kind, Message, Reader};
use kqps_files::whole::whole_folder;
use kqps_internet::{RebuiltTree, SightingCounts, Sightings};
use kqps_message::header;
use kqps_testbed::words::counted;

use crate::captured::CapturedArgs;
use crate::exit::bad_input;
use crate::serve::internet::tree_folder::{SERVERS, ServerLine, ZONES};

/// The most queries whose replies are waited for. When there are more, the oldest are forgotten.
const WAITING_MOST: usize = 100_000;

/// The file of the folder with the printed report.
const REPORT: &str = "report.txt";

/// A query, by which its reply is known: the resolver's end, the server, and the ID.
type Exchange = (SocketAddr, SocketAddr, u16);

/// Writes the tree of a capture to a folder, which appears whole or not at all.
pub(super) fn write(capture: &Path, captured: &CapturedArgs, folder: &Path) -> anyhow::Result<ExitCode> {
    let sightings = read(capture, captured)?;
    let counts = sightings.counts();
    if counts.used == 0 {
        return Err(bad_input(none_used(capture, &counts)));
    }
    let tree = sightings.tree();
    let report = report(capture, &counts, &tree);
    let unwritable = || format!("writing {}", folder.display());
    whole_folder(folder, |folder, _| write_folder(folder, &tree, &report)).with_context(unwritable)?;
    eprint!("{}: {report}", folder.display());
    Ok(ExitCode::SUCCESS)
}

/// The replies of all servers in a capture.
fn read(capture: &Path, captured: &CapturedArgs) -> anyhow::Result<Sightings> {
    let name = capture.display();
    let file = File::open(capture).map_err(|error| bad_input(format!("{name}: {error}")))?;
    let wrong = |error: CaptureError| bad_input(format!("{name}: {error}"));
    let settings = kqps_capture::Settings { is_upstream: true, ..captured.settings() };
    let mut reader = Reader::new(file, &settings).map_err(wrong)?;
    let (mut sightings, mut asked) = (Sightings::default(), Asked::default());
    while let Some(event) = reader.next().map_err(wrong)? {
        let Event::Message(message) = event else { continue };
        match message.kind {
            Kind::Query => asked.add(&message),
            Kind::Response => {
                sightings.take(message.server.ip(), message.bytes, asked.delay_ns(&message));
            }
        }
    }
    Ok(sightings)
}

/// Queries without a reply so far, with their times.
#[derive(Default)]
struct Asked {
    now: HashMap<Exchange, u64>,
    /// The oldest of them.
    before: HashMap<Exchange, u64>,
}

impl Asked {
    fn add(&mut self, query: &Message<'_>) {
        if self.now.len() >= WAITING_MOST {
            self.before = std::mem::take(&mut self.now);
        }
        // If a query is repeated the first one counts, since nothing says to which a reply belongs.
        self.now.entry(exchange(query)).or_insert(query.at_ns);
    }

    /// The time from the query of a reply to the reply, nanoseconds.
    fn delay_ns(&mut self, reply: &Message<'_>) -> Option<u64> {
        let exchange = exchange(reply);
        let asked_ns = self.now.remove(&exchange).or_else(|| self.before.remove(&exchange))?;
        reply.at_ns.checked_sub(asked_ns)
    }
}

fn exchange(message: &Message<'_>) -> Exchange {
    (message.client, message.server, header::id(message.bytes).unwrap_or_default())
}

fn write_folder(folder: &Path, tree: &RebuiltTree, report: &str) -> io::Result<()> {
    fs::create_dir(folder.join(ZONES))?;
    let file_of = |number: usize| format!("{ZONES}/{number}.zone");
    for (number, zone) in tree.zones.iter().enumerate() {
        fs::write(folder.join(file_of(number)), &zone.text)?;
    }
    let mut list = io::BufWriter::new(File::create(folder.join(SERVERS))?);
    for server in &tree.servers {
        let delay = Duration::from_nanos(server.delay_ns);
        let files = server.zones.iter().map(|number| file_of(*number).into()).collect();
        writeln!(list, "{}", ServerLine { address: server.address, delay, files })?;
    }
    list.flush()?;
    fs::write(folder.join(REPORT), report)
}

/// Why no reply of a capture is of use.
fn none_used(capture: &Path, counts: &SightingCounts) -> String {
    let name = capture.display();
    let SightingCounts { recursive, truncated, failed, without_authority, malformed, .. } = *counts;
    if recursive > 0 {
        return format!(
            "-d {name}: it has no upstream traffic: {recursive} replies are to queries with RD, as clients and forwarders send \
             them. Capture what the resolver asks of name servers, such as `tcpdump -i eth0 -w upstream.pcap 'port 53 and host \
             RESOLVER'`, or dnstap with RESOLVER_RESPONSE"
        );
    }
    if truncated + failed + without_authority + malformed == 0 {
        return format!("-d {name}: it has no replies of name servers");
    }
    format!(
        "-d {name}: none of its replies shows a zone: {truncated} truncated, {failed} failed, {without_authority} without \
         authority, {malformed} malformed"
    )
}

/// The contents of the tree, what was left out, and what is filled in.
fn report(capture: &Path, counts: &SightingCounts, tree: &RebuiltTree) -> String {
    let mut text = format!(
        "{} at {}, from {} of {}\n",
        counted(tree.zones.len() as u64, "zone"),
        counted(tree.servers.len() as u64, "server"),
        counted(counts.used, "reply"),
        capture.display()
    );
    let mut part = |title: &str, rows: &[(u64, &str)]| {
        let rows: Vec<String> = rows
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, words)| format!("  {count:>9}  {words}\n"))
            .collect();
        if !rows.is_empty() {
            text.extend(["\n", title, ":\n\n", &rows.concat()]);
        }
    };
    part(
        "Left out",
        &[
            (counts.recursive, "replies to queries with RD, of a resolver or a forwarder's server"),
            (counts.truncated, "truncated replies"),
            (counts.failed, "replies with an rcode other than NOERROR and NXDOMAIN"),
            (counts.without_authority, "replies without authority and without a referral"),
            (counts.malformed, "replies that cannot be read"),
            (counts.dnssec, "records of DNSSEC, whose signatures would have expired: no zone is signed"),
            (counts.changed, "sets of records that a later reply showed otherwise; the first one is served"),
            (tree.contradictions, "names with an alias and other records"),
        ],
    );
    part(
        "Filled in by rule",
        &[
            (tree.invented_zones, "zones without a referral, one label below the nearest known zone"),
            (tree.made_up_names, "zones whose servers have made-up names"),
            (tree.made_up_addresses, "zones whose servers' names have the addresses of those that answered"),
            (tree.made_up_soas, "zones with a made-up SOA record"),
            (tree.bare_names, "names that exist without any record that was seen"),
            (tree.servers_without_delay, "servers with the median delay, since theirs was not seen"),
        ],
    );
    part("Missing", &[(tree.zones_without_server, "zones without a server: no address of theirs was seen")]);
    text
}

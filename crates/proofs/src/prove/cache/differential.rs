//! A cache beside Unbound and PowerDNS Recursor before the same server: questions with repetition, TTLs that end, names
//! and types that do not exist, failures, aliases, long answers, DO and CD. Where both agree, so does the cache.

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use fastrand::Rng;
use kqps_ask::Server;
use kqps_faults::scripted::Asked;
use kqps_kernel::port;
use kqps_message::{Header, rtype};
use kqps_programs::shell;
use kqps_skips::{Capability, skip};

use super::super::Bench;
use super::message::{ASKED, RecordText, Reply, add, add_soa, address, asked, empty, id, query, said};
use super::server::Cache;
use super::upstream::Upstream;
use crate::child::{Running, pinned};
use crate::wait::until;

const SMALL_QUESTIONS: u32 = 600;
const WHOLE_QUESTIONS: u32 = 100_000;

/// Names of each kind, so that most questions come again.
const NAMES: u32 = 50;

/// Kinds of names in questions.
const KINDS: [&str; 6] = ["address", "alias", "gone", "empty", "broken", "long"];

/// How long a server may take to start, and to answer.
const STARTS_WITHIN: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(100);

const ZONE: &[u8] = b"\x04diff\x04test\0";

/// Facts of a reply that must be the same.
#[derive(Debug, PartialEq, Eq)]
struct Facts {
    rcode: u8,
    is_truncated: bool,
    /// Owner, type and data of each answer, in order; none of a truncated reply.
    answers: Vec<RecordText>,
}

/// A negative reply with the SOA record of the zone.
fn negative(query: &[u8], rcode: u8) -> Vec<u8> {
    let mut reply = empty(query, rcode);
    add_soa(&mut reply, ZONE, 20, 20);
    reply
}

/// The reply of the server behind all resolvers. The first letters of a name say what it is.
fn say(one: &Asked<'_>) -> Vec<u8> {
    let query = one.query;
    let name = asked(query);
    let number = u8::try_from(name.len()).expect("a name has 255 bytes at most");
    let ttl_s = if number.is_multiple_of(2) { 2 } else { 60 };
    match name.get(1..3) {
        Some(b"ad") => address(query, ttl_s, [192, 0, 2, number]),
        Some(b"al") => {
            let mut reply = empty(query, 0);
            let target = [b"\x03end", ZONE].concat();
            add(&mut reply, 0, &ASKED, rtype::CNAME, ttl_s, &target);
            add(&mut reply, 0, &target, rtype::A, 60, &[192, 0, 2, 1]);
            reply
        }
        Some(b"em") => negative(query, 0),
        Some(b"br") => empty(query, 2),
        Some(b"lo") if one.socket.is_some() => {
            let mut cut = empty(query, 0);
            cut[2] |= 0x02;
            cut
        }
        Some(b"lo") => {
            let mut reply = empty(query, 0);
            (0..100).for_each(|last| add(&mut reply, 0, &ASKED, rtype::A, 60, &[192, 0, 2, last]));
            reply
        }
        _ => negative(query, 3),
    }
}

/// Reads a reply. An error if it is malformed.
fn facts(reply: &[u8]) -> Result<Facts> {
    let is_truncated = Header::from_bytes(reply).context("no header")?.is_truncated();
    let Reply { rcode, answers } = said(reply)?;
    let answers = if is_truncated { Vec::new() } else { answers.into_keys().collect() };
    Ok(Facts { rcode, is_truncated, answers })
}

/// The reply of a server to a query.
fn ask(server: SocketAddr, query: &[u8]) -> Result<Facts> {
    facts(&Server::over_udp(server).ask(query, PATIENCE)?).context("a malformed reply")
}

/// Starts another resolver at a free port, with what its configuration says, and waits until it answers.
fn other(
    bench: &Bench,
    program: &str,
    arguments: &[&str],
    file: &str,
    text: impl Fn(u16) -> String,
) -> Result<(Running, SocketAddr)> {
    let address = port::free([127, 0, 0, 1].into(), 1).context("finding a free port")?;
    let path = bench.folder.path().join(file);
    std::fs::write(&path, text(address.port()))?;
    let mut command: Command = pinned(&bench.kqps.subject_cpu.to_string(), program);
    let folder = bench.folder.path().display().to_string();
    command.args(arguments.iter().map(|argument| argument.replace("{folder}", &folder)));
    let running = Running::start(&mut command)?;
    let answers = || Ok(ask(address, &query(1, "address-1.diff.test")).ok());
    until((STARTS_WITHIN, LOOK), answers, || format!("{program} does not answer"))?;
    Ok((running, address))
}

pub(super) fn prove(bench: &Bench) -> Result<()> {
    if let Some(program) = ["unbound", "pdns_recursor"].into_iter().find(|name| shell::find(name).is_none()) {
        skip(Capability::Programs, format!("a cache beside other resolvers: `{program}` is missing"));
        return Ok(());
    }
    let server = Upstream::start(|one| vec![say(one)])?;
    let behind = server.address.port();
    let folder = bench.folder.path().display().to_string();
    let arguments = ["-d", "-c", "{folder}/unbound.conf"];
    let (_unbound, unbound) = other(bench, "unbound", &arguments, "unbound.conf", |port| {
        format!(
            "server:\n  directory: \"{folder}\"\n  chroot: \"\"\n  username: \"\"\n  pidfile: \"\"\n  \
             use-syslog: no\n  interface: 127.0.0.1@{port}\n  do-not-query-localhost: no\n  \
             module-config: \"iterator\"\n  local-zone: \"test.\" nodefault\nremote-control:\n  \
             control-enable: no\nforward-zone:\n  name: \".\"\n  \
             forward-addr: 127.0.0.1@{behind}\n"
        )
    })?;
    let arguments = ["--config-dir={folder}"];
    let (_recursor, recursor) = other(bench, "pdns_recursor", &arguments, "recursor.conf", |port| {
        format!(
            "local-address=127.0.0.1\nlocal-port={port}\nforward-zones-recurse=.=127.0.0.1:{behind}\ndnssec=off\n\
             hint-file=no\nsecurity-poll-suffix=\nsocket-dir=.\nwrite-pid=no\ndaemon=no\ndisable-syslog=yes\n\
             quiet=yes\nsetuid=\nsetgid=\n"
        )
    })?;
    let cache = Cache::start(bench, &[server.address.to_string()], &[])?;
    let mut rng = Rng::with_seed(bench.seed);
    let (questions, mut agreed) = (bench.choose(SMALL_QUESTIONS, WHOLE_QUESTIONS), 0_u32);
    for number in 0..questions {
        let kind = KINDS[rng.usize(..KINDS.len())];
        let name = format!("{kind}-{}.diff.test", "x".repeat(rng.usize(1..=NAMES as usize)));
        let mut asked = query(id(number.into()), &name);
        if rng.bool() {
            // CD.
            asked[3] |= 0x10;
        }
        if rng.bool() {
            // EDNS with 1232 bytes, with DO or without.
            asked[11] = 1;
            asked.extend([0, 0, 41, 4, 0xd0, 0, 0, if rng.bool() { 0x80 } else { 0 }, 0, 0, 0]);
        }
        let [one, other, ours] = [unbound, recursor, cache.address].map(|server| ask(server, &asked));
        let (one, other) = (one.context("Unbound")?, other.context("PowerDNS Recursor")?);
        if one != other {
            continue;
        }
        agreed += 1;
        let ours = ours.with_context(|| name.clone())?;
        if ours != one {
            bail!("question {number} for {name} ({asked:x?}): the cache says {ours:?}, both others {one:?}");
        }
    }
    cache.stop()?;
    ensure!(agreed > questions / 2, "the others agree in {agreed} of {questions} questions only");
    eprintln!("differential: {questions} questions, {agreed} in which both others agree");
    Ok(())
}

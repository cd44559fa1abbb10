//! The load that the box carries: answers a second of one core with a million zones beside `kqps serve auth` with one zone, the
//! time until it can answer, and its memory.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use kqps_internet::{Internet, Server};
use kqps_message::name::NameText;
use kqps_message::rcode::RcodeName;
use kqps_message::rtype::RtypeName;
use kqps_message::{Header, edns, rcode};
use kqps_observation::Trial;

use super::super::{Bench, Size};
use super::{ON_LOOPBACK, answers, start_on_loopback};
use crate::child::status_kib;

/// The least rate of the box as a multiple of that of the server with one zone.
const RATIO_LEAST: f64 = 0.8;

/// The most memory, and the longest start.
const MEMORY_MOST_KIB: u64 = 1 << 20;
const START_MOST_S: f64 = 10.0;

/// Loads of each server, one after the other.
const PAIRS: usize = 5;

/// Questions for the server that has most zones.
const QUERIES: usize = 100_000;

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let size = bench.choose("small", "large");
    let internet = answers::internet(size, &ON_LOOPBACK)?;
    let server = internet.addresses(Server::Company(0, 0))[0];
    let questions = questions(bench, &internet, server)?;
    let began = Instant::now();
    let (running, listening) = start_on_loopback(bench, size)?;
    let start_s = began.elapsed().as_secs_f64();
    let target = SocketAddr::new(server, listening.port());
    let ratio = ratio(bench, target, &questions)?;
    let memory_kib = status_kib(running.pid(), "VmHWM").context("the memory of the box")?;
    eprintln!(
        "{} zones: ready after {start_s:.1} s, {} MiB of memory at most; answers a second of one core: {ratio:.2} of \
         those of kqps serve auth",
        internet.zones(),
        memory_kib >> 10
    );
    ensure!(memory_kib <= MEMORY_MOST_KIB, "it takes {memory_kib} KiB");
    if bench.size == Size::Whole {
        ensure!(start_s <= START_MOST_S, "it is ready after {start_s:.1} s");
        ensure!(ratio >= RATIO_LEAST, "its rate is {ratio:.3} of that of kqps serve auth");
    }
    Ok(())
}

/// The middle ratio of the rates of both servers, of which each has a load in turn.
fn ratio(bench: &Bench, target: SocketAddr, questions: &Path) -> Result<f64> {
    let (zone, queries) = bench.zone(100_000)?;
    let (_auth, auth) = bench.kqps.auth(&zone, "mmsg")?;
    let duration = bench.choose("300ms", "2s");
    let flags = ["-T", "1", "-q", "500", "-l", duration];
    let pairs = bench.choose(1, PAIRS);
    let mut ratios = Vec::new();
    for _ in 0..pairs {
        let of_box = rate_qps(&bench.kqps.trial(target, questions, &flags)?)?;
        let of_auth = rate_qps(&bench.kqps.trial(auth, &queries, &flags)?)?;
        eprintln!("{of_box:.0} and {of_auth:.0} answers a second");
        ratios.push(of_box / of_auth);
    }
    ratios.sort_by(f64::total_cmp);
    Ok(ratios[ratios.len() / 2])
}

/// Answers a second of a trial, none of which may be wrong.
fn rate_qps(trial: &Trial) -> Result<f64> {
    let accounts = &trial.accounts;
    ensure!(accounts.wrong == 0, "{} of {} answers are wrong", accounts.wrong, accounts.sent);
    Ok(accounts.correct as f64 / trial.load.duration_s)
}

/// Questions of clients that this server answers, with the rcodes of its answers.
fn questions(bench: &Bench, internet: &Internet, server: IpAddr) -> Result<PathBuf> {
    let path = bench.folder.path().join("questions");
    let mut file = std::io::BufWriter::new(std::fs::File::create(&path)?);
    let (mut written, mut reply) = (0, Vec::new());
    for number in (0_u32..).take(QUERIES * 100) {
        let (name, qtype) = internet.question(number.into());
        internet.answer(server, &answers::asked(number, &name, qtype, false), false, 0, &mut reply);
        let header = Header::from_bytes(&reply).context("a reply is malformed")?;
        let rcode = edns::rcode(header, &reply);
        if rcode == rcode::REFUSED {
            continue;
        }
        writeln!(file, "{} {} {}", NameText(&name), RtypeName(qtype), RcodeName(rcode))?;
        written += 1;
        if written == QUERIES {
            break;
        }
    }
    ensure!(written > QUERIES / 10, "the server answers {written} questions only");
    file.flush()?;
    Ok(path)
}

//! A tree from a capture of a resolver by the book: the resolver finds the same answers in it.

use std::fs::{self, File};
use std::io::BufWriter;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kqps_capture::write::Writer;
use kqps_kernel::process::Signal;
use kqps_message::name::NameText;
use kqps_message::rtype::{self, RtypeName};

use super::super::Bench;
use super::answers;
use super::book::{Book, END_WITHIN};
use super::{ON_LOOPBACK, start_on_loopback};
use crate::child::Running;

const SMALL: (u32, &str) = (1_000, "small");
const WHOLE: (u32, &str) = (20_000, "medium");

/// The delay of each server, as the resolver records it.
const DELAY: &str = "500us";

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let (count, size) = bench.choose(SMALL, WHOLE);
    let internet = answers::internet(size, &ON_LOOPBACK)?;
    let (capture, folder) = (bench.folder.path().join("upstream.pcap"), bench.folder.path().join("seen"));
    let (running, listening) = start_on_loopback(bench, size)?;
    let mut book = Book::new(&internet, listening.port())?;
    book.recording = Some(Writer::new(BufWriter::new(File::create(&capture)?))?);
    for number in 0..count {
        let (qname, qtype) = internet.question(number.into());
        book.resolve(&qname, qtype)?;
    }
    drop(book.recording.take());
    running.signal(Signal::Terminate)?;
    running.wait(END_WITHIN)?;
    let asked = book.upstream;

    let mut command = Command::new(&bench.kqps.program);
    let generated = command.args(["gen", "internet", "-d"]).arg(&capture).arg("-o").arg(&folder).output()?;
    let said = String::from_utf8_lossy(&generated.stderr);
    ensure!(generated.status.success(), "kqps gen internet: {said}");
    let servers = fs::read_to_string(folder.join("servers"))?;
    let odd = servers.lines().find(|line| line.split(' ').nth(1) != Some(DELAY));
    ensure!(odd.is_none(), "each server took {DELAY}: {odd:?}");
    let mut command = bench.kqps.serve("internet");
    command.arg("--tree").arg(&folder).args(["--loopback", "0", "--for", "1h"]);
    let (running, listening) = Running::server(&mut command)?;
    let mut book = Book::new(&internet, listening.port())?;
    for number in 0..count {
        let (qname, qtype) = internet.question(number.into());
        // No zone of a rebuilt tree is signed.
        let is_of_dnssec = [rtype::DS, rtype::DNSKEY].contains(&qtype);
        let Some(expected) = internet.expected(&qname, qtype).filter(|_| !is_of_dnssec) else { continue };
        let shown = || format!("question {number}, {} {}", NameText(&qname), RtypeName(qtype));
        let (rcode, mut records) = book.resolve(&qname, qtype).with_context(shown)?;
        records.sort_unstable();
        let wanted = (expected.rcode, answers::records_of(&expected));
        ensure!((rcode, &records) == (wanted.0, &wanted.1), "{}: {wanted:?}, not {records:?}", shown());
    }
    running.signal(Signal::Terminate)?;
    running.wait(END_WITHIN)?;
    eprintln!("{count} names found by {asked} queries are found in the tree of their capture:\n{said}");
    Ok(())
}

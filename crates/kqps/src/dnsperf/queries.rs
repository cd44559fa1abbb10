//! The input of a command line of dnsperf, and how single queries are shown.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use kqps_dataset::{Additions, Dataset, DatasetError, Format, Options, Position};
use kqps_message::header::HEADER_BYTES;
use kqps_message::name::{NameText, literal_end};
use kqps_message::rtype::RtypeName;
use kqps_player::Prefix;
use kqps_testbed::words::counted;

use super::command::Command;
use super::log::Log;
use crate::load::per_query::additions;

/// The UDP payload size that dnsperf offers, in bytes.
const UDP_PAYLOAD_BYTES: u16 = 4096;

/// An input that was opened and not read.
pub(super) struct Source {
    file: File,
    path: PathBuf,
}

/// An input that was read.
pub(super) enum Opened {
    Queries(Box<Dataset>),
    /// It has lines, and none of them is a query.
    NoGoodLine,
}

/// Opens the file that `-d` names, or standard input.
pub(super) fn source(command: &Command) -> anyhow::Result<Source> {
    let Some(name) = &command.file else {
        let file = io::stdin().as_fd().try_clone_to_owned()?.into();
        return Ok(Source { file, path: "/dev/stdin".into() });
    };
    let file = File::open(name).map_err(|_| anyhow!("unable to open file: {name}"))?;
    Ok(Source { file, path: Path::new(name).to_owned() })
}

/// Reads an input. As in dnsperf, what is no query is left out with a warning.
pub(super) fn open(command: &Command, source: Source, log: Log) -> anyhow::Result<Opened> {
    let edns_options: Vec<_> = command.edns_option.iter().cloned().collect();
    let options = Options {
        format: match (command.binary, command.updates) {
            (true, _) => Format::AnyBytes,
            (false, true) => Format::Updates,
            (false, false) => Format::Plain,
        },
        edns: command.edns,
        dnssec: command.dnssec,
        skip_bad: true,
        additions: Additions {
            udp_payload_bytes: Some(UDP_PAYLOAD_BYTES),
            ..additions(&edns_options, labels(command), command.tsig.as_ref())
        },
        ..Options::default()
    };
    let left_out = |count: u64, why: &str| {
        let items = counted(count, if command.binary { "message" } else { "line" });
        log.warning(&format!("invalid query input: {items} left out, no query{why}"));
    };
    match Dataset::read(source.file, &source.path, &options) {
        Ok(dataset) => {
            for (cause, count) in dataset.skipped_causes() {
                left_out(count, &format!(": {cause}"));
            }
            if let Some(note) = dataset.note() {
                log.warning(note);
            }
            Ok(Opened::Queries(Box::new(dataset)))
        }
        Err(DatasetError::Empty { skipped, .. }) if skipped == 0 || command.binary => {
            Err(anyhow!("input file contains no data"))
        }
        Err(DatasetError::Empty { skipped, .. }) => {
            left_out(skipped, "");
            Ok(Opened::NoGoodLine)
        }
        Err(error) => Err(error.into()),
    }
}

/// The lengths of the random labels before each name.
fn labels(command: &Command) -> Vec<u8> {
    command.prefix.as_ref().map(Prefix::lengths).unwrap_or_default()
}

/// How queries are shown.
#[derive(Clone, Copy)]
pub(super) struct QueryText<'a> {
    pub(super) command: &'a Command,
    pub(super) dataset: &'a Dataset,
}

impl QueryText<'_> {
    /// A query's name and type, the zone of an update, or that it is binary. A name is shown without random labels.
    pub(super) fn show(&self, position: Position) -> String {
        let message = self.dataset.query(position).message;
        let begin =
            HEADER_BYTES + labels(self.command).iter().map(|bytes| 1 + usize::from(*bytes)).sum::<usize>();
        let name = literal_end(message, begin).and_then(|end| Some((message.get(begin..end)?, end)));
        let Some((name, end)) = name.filter(|_| !self.command.binary) else { return "binary input".into() };
        let text = NameText(name).to_string();
        // dnsperf shows names as they were typed, mostly without a final dot.
        let text = text.strip_suffix('.').filter(|text| !text.is_empty()).unwrap_or(&text);
        match message.get(end..end + 2) {
            Some(&[high, low]) if !self.command.updates => {
                format!("{text} {}", RtypeName(u16::from_be_bytes([high, low])))
            }
            _ => text.to_owned(),
        }
    }
}

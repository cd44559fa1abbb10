//! Common parts of the tests: a folder with a capture and a cache, and messages to put into it.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use kqps_capture::write::Writer;
use kqps_dataset::{CaptureFacts, Captured, Dataset, DatasetError, Options, Position};

/// The time of the first packet, in nanoseconds since 1970.
pub(crate) const START_NS: u64 = 1_700_000_000_123_456_789;
pub(crate) const MS: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1_000 * MS;

/// A directory with a capture in it and a cache beside it.
pub(crate) struct Bench {
    directory: tempfile::TempDir,
    pub(crate) options: Options,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let options = Options { cache_dir: Some(directory.path().join("cache")), ..Options::default() };
        Self { directory, options }
    }

    pub(crate) fn with(change: impl FnOnce(&mut Options)) -> Self {
        let mut bench = Self::new();
        change(&mut bench.options);
        bench
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("traffic.pcap")
    }

    pub(crate) fn open(&self, capture: &[u8]) -> Result<Dataset, DatasetError> {
        fs::write(self.path(), capture).expect("a capture");
        Dataset::open(&self.path(), &self.options)
    }

    /// The text of an error after the path of the file.
    pub(crate) fn refused(&self, capture: &[u8]) -> String {
        let error = self.open(capture).expect_err("a bad capture").to_string();
        error.strip_prefix(&self.path().display().to_string()).unwrap_or(&error).to_owned()
    }

    pub(crate) fn cached(&self) -> Vec<PathBuf> {
        let cache = self.options.cache_dir.as_deref().expect("a cache");
        fs::read_dir(cache).expect("the cache").map(|entry| entry.expect("an entry").path()).collect()
    }
}

/// A capture with what `write` writes into it.
pub(crate) fn capture(write: impl FnOnce(&mut Writer<Vec<u8>>) -> io::Result<()>) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).expect("a header");
    write(&mut writer).expect("packets");
    writer.finish().expect("a capture")
}

/// A capture of queries over UDP by one client: the time of each from the start, in nanoseconds, and its label.
pub(crate) fn asked(queries: &[(u64, &str)]) -> Vec<u8> {
    capture(|writer| {
        queries.iter().try_for_each(|(at_ns, label)| {
            writer.udp(START_NS + at_ns, end("192.0.2.1:1000"), end("198.51.100.1:53"), &query(1, label))
        })
    })
}

pub(crate) fn end(text: &str) -> SocketAddr {
    text.parse().expect("an address and a port")
}

/// A query for the address of a label under `test`.
pub(crate) fn query(id: u16, label: &str) -> Vec<u8> {
    let [upper, lower] = id.to_be_bytes();
    let header = [upper, lower, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    [&header[..], &[label.len() as u8], label.as_bytes(), b"\x04test\0\x00\x01\x00\x01"].concat()
}

/// A response to a query with these flags and as many addresses as answers.
pub(crate) fn response(query: &[u8], flags: [u8; 2], addresses: u8) -> Vec<u8> {
    let mut message = query.to_vec();
    message[2..4].copy_from_slice(&flags);
    message[7] = addresses;
    for last in 0..addresses {
        message.extend_from_slice(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\xc6\x12\x00");
        message.push(last);
    }
    message
}

pub(crate) fn positions(dataset: &Dataset) -> Vec<Position> {
    let all = std::iter::successors(Some(dataset.first()), |&position| Some(dataset.after(position)));
    all.take(dataset.queries() as usize).collect()
}

/// The facts of each query that the capture gives.
pub(crate) fn captured(dataset: &Dataset) -> Vec<Captured> {
    positions(dataset).into_iter().map(|position| dataset.captured(position)).collect()
}

/// The first label of each query's name.
pub(crate) fn labels(dataset: &Dataset) -> Vec<String> {
    let label = |message: &[u8]| message[13..13 + usize::from(message[12])].to_vec();
    dataset.iter().map(|query| String::from_utf8(label(query.message)).expect("a label")).collect()
}

/// The facts of a capture, whose account must add up.
pub(crate) fn facts(dataset: &Dataset) -> &CaptureFacts {
    let facts = dataset.capture().expect("a capture");
    let skipped: u64 = facts.skipped.values().sum();
    assert_eq!(facts.packets + facts.further, facts.queries + facts.responses + skipped);
    assert_eq!(facts.queries, dataset.queries() + dataset.skipped());
    assert_eq!(facts.by_transport.values().sum::<u64>(), dataset.queries());
    facts
}

/// The lengths of the packets of a capture, each with the 16 bytes before it.
pub(crate) fn packets(capture: &[u8]) -> Vec<&[u8]> {
    let mut rest = &capture[24..];
    let mut all = Vec::new();
    while let Some(bytes) = rest.get(8..12).and_then(|length| length.first_chunk()) {
        let (packet, after) = rest.split_at(16 + u32::from_le_bytes(*bytes) as usize);
        all.push(packet);
        rest = after;
    }
    all
}

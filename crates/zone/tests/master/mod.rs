//! Master files: bytes in, records out.

mod directives;
mod errors;
mod peers;
mod splitting;
mod syntax;
mod types;

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use kqps_message::{name, rtype};
use kqps_zone::master::{self, DEPTH_MAX, GENERATED_MAX, Options, PIECE_BYTES, Reading};

/// The name `example.` in wire form, which is the origin in all tests.
const EXAMPLE: &[u8] = b"\x07example\0";

/// Returns an error for every included file.
fn no_files(_: &Path) -> io::Result<Vec<u8>> {
    Err(io::Error::from(io::ErrorKind::NotFound))
}

const ALONE: Options<'static> = Options {
    threads: 1,
    piece_bytes: PIECE_BYTES,
    generated_max: GENERATED_MAX,
    depth_max: DEPTH_MAX,
    open: &no_files,
    advance: &|_| {},
};

fn read(text: &[u8]) -> Reading {
    master::read(text, Path::new("zone"), EXAMPLE, &ALONE)
}

/// Every record on a line: owner, TTL, type, data in hexadecimal digits, and `@` with its line. The file stands
/// before its line, if it is an included one.
fn shown(reading: &Reading) -> Vec<String> {
    let batches = reading.batches.iter();
    batches
        .flat_map(|batch| batch.records().map(move |(_, record)| (batch.file(), record)))
        .map(|(file, record)| {
            let (owner, rtype) = (name::NameText(record.owner), rtype::RtypeName(record.rtype));
            let mut shown = format!("{owner} {} {rtype} ", record.ttl_s);
            for byte in record.data {
                let _ = write!(shown, "{byte:02x}");
            }
            let file = file.map(|file| format!("{}:", file.display())).unwrap_or_default();
            shown + &format!(" @{file}{}", record.line)
        })
        .collect()
}

/// The records of a text without errors.
#[track_caller]
fn records(text: &str) -> Vec<String> {
    let reading = read(text.as_bytes());
    assert!(reading.errors.is_empty(), "{text}\n{}", texts(&reading.errors).join("\n"));
    shown(&reading)
}

fn texts(remarks: &[master::Remark]) -> Vec<String> {
    remarks.iter().map(ToString::to_string).collect()
}

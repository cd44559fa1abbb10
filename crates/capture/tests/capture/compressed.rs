//! Captures that are compressed.

use std::io::{self, Cursor, Read, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;
use kqps_capture::Settings;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::bytes::{asked, pcap, read, read_from};

const RAW: u32 = 101;

fn capture() -> Vec<u8> {
    pcap(RAW, &(0..10_000).map(asked).collect::<Vec<_>>())
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory takes all");
    encoder.finish().expect("memory takes all")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    compress_to_vec(bytes, CompressionLevel::Fastest)
}

#[test]
fn a_compressed_capture_is_read_as_a_plain_one() {
    let plain = read(capture());
    assert_eq!((plain.error.clone(), plain.messages.len()), (None, 10_000));
    assert_eq!(read(gzip(&capture())), plain);
    assert_eq!(read(zstd(&capture())), plain);
}

#[test]
fn another_format_inside_is_named() {
    let archive = b"PK\x03\x04\x14\0\0\0";
    for (packed, program) in [(gzip(archive), "gzip"), (zstd(archive), "zstd")] {
        let said = read(packed).error.expect("no capture");
        let archive = "this is an archive of zip, which kqps does not read; `unzip` unpacks it";
        assert_eq!(said, format!("after `{program} -d`, {archive}"));
    }
}

#[test]
fn several_members_and_frames_are_one_capture() {
    let whole = capture();
    let plain = read(whole.clone());
    // Cut within a packet.
    let (one, two) = whole.split_at(200_003);
    assert_eq!(read([gzip(one), gzip(two)].concat()), plain);
    // With frames that are skipped, before, between and after.
    let skipped = [&[0x5a_u8, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    let frames = [skipped.clone(), zstd(one), skipped.clone(), zstd(two), skipped];
    assert_eq!(read(frames.concat()), plain);
}

#[test]
fn damage_has_its_place_in_what_was_compressed() {
    for (name, packed) in [("gzip", gzip(&capture())), ("zstd", zstd(&capture()))] {
        let cut = read(packed[..packed.len() / 2].to_vec());
        let said = cut.error.expect("an error");
        let start = "the capture is damaged at byte ";
        assert!(said.starts_with(start) && said.contains(name), "{said}");
        let offset = said[start.len()..].split(':').next().unwrap_or_default();
        let offset: u64 = offset.parse().expect("a number");
        assert!((0..capture().len() as u64).contains(&offset), "{said}");
        assert!(cut.messages.len() < 10_000);
    }
}

/// A device that cannot be read.
struct Broken;

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(5))
    }
}

#[test]
fn an_error_of_the_source_is_no_damage() {
    for packed in [capture(), gzip(&capture()), zstd(&capture())] {
        let half = packed[..packed.len() / 2].to_vec();
        let outcome = read_from(Cursor::new(half).chain(Broken), &Settings::default());
        let said = outcome.error.expect("an error");
        assert!(said.starts_with("cannot read the capture: ") && said.contains("os error 5"), "{said}");
    }
}

#[test]
fn changed_bytes_do_not_pass_for_the_capture() {
    let mut changed = gzip(&capture());
    let middle = changed.len() / 2;
    changed[middle..middle + 8].fill(0x55);
    let said = read(changed).error.expect("an error");
    assert!(said.starts_with("the capture is damaged at byte "), "{said}");
}

#[test]
fn compressed_text_is_no_capture() {
    for (name, packed) in [("gzip", gzip(b"a.example. A\n")), ("zstd", zstd(b"a.example. A\n"))] {
        let said = read(packed).error.expect("an error");
        assert!(said.starts_with("not a capture: it begins with the bytes 61 2e 65 78;"), "{said}");
        let remedy = format!("Only captures may be compressed: unpack other files first, by `{name} -d`");
        assert!(said.ends_with(&remedy), "{said}");
    }
    let said = read(gzip(b"")).error.expect("an error");
    assert!(said.starts_with("not a capture: it is empty;"), "{said}");
}

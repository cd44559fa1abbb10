//! The memory that a capture takes to decompress. This file has only one test, so its process can be measured.

mod measured;

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use kqps_capture::write::Writer;
use measured::{QUERY, START_NS};

/// Anonymous memory that compiling may use with a few clients: 27 MiB, and 16 MiB to decompress.
const GROWTH_KIB_MAX: u64 = 48 << 10;
const QUERIES: u64 = 400_000;
const BLOCK_BYTES: usize = 1 << 17;

/// Writes a file as a zstd frame with a window of 8 MiB, whose blocks are not compressed (RFC 8878, section 3.1.1).
fn pack(from: &Path, to: &Path) {
    let mut left = fs::metadata(from).expect("a file").len() as usize;
    let (mut from, mut to) = (File::open(from).expect("a file"), File::create(to).expect("a file"));
    to.write_all(&[0x28, 0xb5, 0x2f, 0xfd, 0, 13 << 3]).expect("a header");
    let mut block = vec![0; BLOCK_BYTES];
    while left > 0 {
        let bytes = left.min(BLOCK_BYTES);
        left -= bytes;
        from.read_exact(&mut block[..bytes]).expect("a block");
        let header = (bytes as u32) << 3 | u32::from(left == 0);
        to.write_all(&header.to_le_bytes()[..3]).expect("a header");
        to.write_all(&block[..bytes]).expect("a block");
    }
}

#[test]
fn zstd_takes_no_more_than_twice_its_window() {
    let directory = tempfile::tempdir().expect("a directory");
    let (plain, packed) = (directory.path().join("plain.pcap"), directory.path().join("traffic.zst"));
    let file = BufWriter::new(File::create(&plain).expect("a file"));
    let mut writer = Writer::ethernet(file).expect("a header");
    let server = SocketAddr::from((Ipv4Addr::new(198, 51, 100, 1), 53));
    for number in 0..QUERIES {
        let client = SocketAddr::from((Ipv4Addr::new(192, 0, 2, number as u8), 1000));
        writer.udp(START_NS + number * 1000, client, server, QUERY).expect("a packet");
    }
    drop(writer.finish().expect("the capture"));
    pack(&plain, &packed);
    let dataset = measured::open(&packed, GROWTH_KIB_MAX);
    assert_eq!(dataset.queries(), QUERIES);
}

//! The memory that a capture takes to compile. This file has only one test, so its process can be measured.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use kqps_capture::write::Writer;
use kqps_dataset::{Dataset, Options};

/// Anonymous memory that compiling may use with a million clients, whatever the length of the capture.
const GROWTH_KIB_MAX: u64 = 64 << 10;
/// The same with a few clients, for open connections or for zstd.
const GROWTH_KIB_FEW_CLIENTS: u64 = 48 << 10;
const CLIENTS: u32 = 1_000_000;
const QUERY: &[u8] = b"\x01\x02\x01\0\0\x01\0\0\0\0\0\0\x03www\x04test\0\x00\x01\x00\x01";
const START_NS: u64 = 1_700_000_000_000_000_000;

fn anonymous_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("this process's status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Writes a capture of Ethernet.
fn write<W: Write>(out: W, fill: impl FnOnce(&mut Writer<W>) -> io::Result<()>) -> W {
    let mut writer = Writer::ethernet(out).expect("a header");
    fill(&mut writer).expect("packets");
    writer.finish().expect("the capture")
}

/// A zstd frame with a window of 8 MiB, whose blocks are not compressed.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 13 << 3];
    let blocks = bytes.chunks(1 << 17);
    let last = blocks.len() - 1;
    for (number, block) in blocks.enumerate() {
        let header = (block.len() as u32) << 3 | u32::from(number == last);
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.extend_from_slice(block);
    }
    frame
}

/// Opens a capture, and checks by how much anonymous memory grows.
fn check(directory: &Path, path: &Path, growth_kib_max: u64) -> Dataset {
    let options = Options { cache_dir: Some(directory.join("cache")), ..Options::default() };
    let before = anonymous_kib();
    let (begun, done) = (AtomicBool::new(false), AtomicBool::new(false));
    let (peak, opened) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut peak = anonymous_kib();
            begun.store(true, Ordering::Release);
            while !done.load(Ordering::Acquire) {
                peak = peak.max(anonymous_kib());
                std::thread::yield_now();
            }
            peak
        });
        while !begun.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let opened = Dataset::open(path, &options);
        done.store(true, Ordering::Release);
        (sampler.join().expect("samples"), opened)
    });
    let dataset = opened.expect("a capture");
    assert!(peak > before, "no sample while the capture was compiled");
    assert!(peak < before + growth_kib_max, "anonymous memory grew from {before} to {peak} KiB");
    dataset
}

#[test]
fn a_million_clients_take_less_than_64_mib() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("traffic.pcap");
    let server = SocketAddr::from((Ipv4Addr::new(198, 51, 100, 1), 53));
    // An odd factor gives each client an address of its own, over all networks of 10.0.0.0/8.
    let client = |number: u32| Ipv4Addr::from_bits(0x0a00_0000 | (number.wrapping_mul(257) & 0x00ff_ffff));
    let file = || BufWriter::new(fs::File::create(&path).expect("a file"));

    let udp = |writer: &mut Writer<Vec<u8>>| {
        (0..100_000_u32).try_for_each(|number| {
            let (at_ns, port) = (START_NS + u64::from(number) * 1000, (number % 60_000) as u16 + 1);
            writer.udp(at_ns, SocketAddr::from((client(number % 1000), port)), server, QUERY)
        })
    };
    fs::write(&path, zstd(&write(Vec::new(), udp))).expect("a file");
    let dataset = check(directory.path(), &path, GROWTH_KIB_FEW_CLIENTS);
    assert_eq!(dataset.queries(), 100_000);

    // Three times as many connections as are held, none of which ends, each with the beginning of another message.
    drop(write(file(), |writer| {
        (0..60_000_u32).try_for_each(|number| {
            let client = SocketAddr::from((client(number % 1000), (number / 1000) as u16 + 1000));
            let at_ns = START_NS + u64::from(number) * 10_000;
            writer.tcp_connect(at_ns, client, server)?;
            writer.tcp_message(at_ns, client, server, QUERY)?;
            writer.tcp_bytes(at_ns, client, server, &[0x04, 0, 1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0])
        })
    }));
    let dataset = check(directory.path(), &path, GROWTH_KIB_FEW_CLIENTS);
    assert_eq!(dataset.capture().map(|facts| (facts.queries, facts.connections)), Some((60_000, 60_000)));

    drop(write(file(), |writer| {
        (0..CLIENTS).try_for_each(|number| {
            let at_ns = START_NS + u64::from(number) * 1000;
            writer.udp(at_ns, SocketAddr::from((client(number), 1234)), server, QUERY)
        })
    }));
    let dataset = check(directory.path(), &path, GROWTH_KIB_MAX);
    assert_eq!(dataset.capture().map(|facts| facts.clients), Some(CLIENTS));
}

//! The memory that a capture takes to compile. This file has only one test, so its process can be measured.

use std::fs;
use std::io::BufWriter;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use kqps_capture::write::Writer;
use kqps_dataset::{Dataset, Options};

/// Anonymous memory that compiling may use with a million clients, whatever the length of the capture.
const GROWTH_KIB_MAX: u64 = 64 << 10;
const CLIENTS: u32 = 1_000_000;

fn anonymous_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("this process's status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn a_million_clients_take_less_than_64_mib() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("traffic.pcap");
    let file = BufWriter::new(fs::File::create(&path).expect("a file"));
    let mut writer = Writer::ethernet(file).expect("a header");
    let server = SocketAddr::from((Ipv4Addr::new(198, 51, 100, 1), 53));
    let query = b"\x01\x02\x01\0\0\x01\0\0\0\0\0\0\x03www\x04test\0\x00\x01\x00\x01";
    for client in 0..CLIENTS {
        // An odd factor gives each client an address of its own, over all networks of 10.0.0.0/8.
        let address = Ipv4Addr::from_bits(0x0a00_0000 | (client.wrapping_mul(257) & 0x00ff_ffff));
        let at_ns = 1_700_000_000_000_000_000 + u64::from(client) * 1000;
        writer.udp(at_ns, SocketAddr::from((address, 1234)), server, query).expect("a packet");
    }
    drop(writer.finish().expect("the capture"));

    let options = Options { cache_dir: Some(directory.path().join("cache")), ..Options::default() };
    let before = anonymous_kib();
    let done = AtomicBool::new(false);
    let (peak, opened) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut peak = 0;
            while !done.load(Ordering::Relaxed) {
                peak = peak.max(anonymous_kib());
                std::thread::yield_now();
            }
            peak
        });
        let opened = Dataset::open(&path, &options);
        done.store(true, Ordering::Relaxed);
        (sampler.join().expect("samples"), opened)
    });
    let dataset = opened.expect("a capture");
    assert_eq!(dataset.capture().map(|facts| facts.clients), Some(CLIENTS));
    assert!(peak < before + GROWTH_KIB_MAX, "anonymous memory grew from {before} to {peak} KiB");
}

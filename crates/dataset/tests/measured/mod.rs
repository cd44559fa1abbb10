//! Compiles a capture, and measures the memory of the process meanwhile. The process must have done little before.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use kqps_dataset::{Dataset, Options};

/// A query for `www.test`, type A.
pub(crate) const QUERY: &[u8] = b"\x01\x02\x01\0\0\x01\0\0\0\0\0\0\x03www\x04test\0\x00\x01\x00\x01";

/// The time of the first packet, ns.
pub(crate) const START_NS: u64 = 1_700_000_000_000_000_000;

fn anonymous_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("this process's status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Opens a capture, and checks by how much anonymous memory grows.
pub(crate) fn open(path: &Path, growth_kib_max: u64) -> Dataset {
    let options = Options { cache_dir: Some(path.with_extension("cache")), ..Options::default() };
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
    assert!(peak > before, "no sample while the capture was compiled");
    assert!(peak < before + growth_kib_max, "anonymous memory grew from {before} to {peak} KiB");
    opened.expect("a capture")
}

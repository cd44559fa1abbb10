//! The memory that a dataset uses. This file has only one test, so its process can be measured.

use std::fs;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use kqps_dataset::{Dataset, DatasetError, Options};

/// Anonymous memory that opening and reading may use: a few buffers, whatever the file's size.
const GROWTH_KIB_MAX: u64 = 16 << 10;
const QUERIES: u64 = 1_000_000;

fn anonymous_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("this process's status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn a_million_queries_cost_no_anonymous_memory() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("queries");
    let mut file = std::io::BufWriter::new(fs::File::create(&path).expect("a file"));
    for index in 0..QUERIES {
        writeln!(file, "name{index}.example.test A").expect("a line");
    }
    file.into_inner().expect("the file").sync_all().expect("written");

    let options = Options { cache_dir: Some(directory.path().join("cache")), ..Options::default() };
    let before = anonymous_kib();
    let done = AtomicBool::new(false);
    let (peak, bytes) = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut peak = 0;
            while !done.load(Ordering::Relaxed) {
                peak = peak.max(anonymous_kib());
                std::thread::yield_now();
            }
            peak
        });
        // The first pass encodes the file, the second reads it from the cache.
        let bytes: Result<Vec<usize>, _> = (0..2)
            .map(|_| Ok(Dataset::open(&path, &options)?.iter().map(|query| query.message.len()).sum()))
            .collect();
        done.store(true, Ordering::Relaxed);
        (sampler.join().expect("samples"), bytes)
    });
    // 35 bytes each, and the digits of all numbers below a million.
    let expected = 35_000_000 + 5_888_890;
    assert_eq!(bytes.map_err(|error: DatasetError| error.to_string()), Ok(vec![expected; 2]));
    assert!(peak < before + GROWTH_KIB_MAX, "anonymous memory grew from {before} to {peak} KiB");
}

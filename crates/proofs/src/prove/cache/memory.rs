//! Random names for as long as it takes: the memory of a cache is what it was allowed, and does not grow.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fastrand::Rng;

use super::super::Bench;
use super::message::{address, id, query};
use super::server::{Cache, PATIENCE, count};
use super::upstream::Upstream;

const MEMORY_BYTES: u64 = 16 << 20;

/// Queries that are under way at a time.
const WINDOW: usize = 64;

/// How much the resident memory may grow after the cache was filled: this share of it.
const SHARE: f64 = 0.05;

pub(super) fn prove(bench: &Bench) -> Result<()> {
    let server = Upstream::start(|one| vec![address(one.query, 3600, [192, 0, 2, 7])])?;
    let cache = Cache::start(bench, &[server.address.to_string()], &["--memory", "16MiB"])?;
    let mut client = cache.client()?;
    let time = bench.choose(Duration::from_secs(3), Duration::from_hours(1));
    let (mut rng, began) = (Rng::with_seed(bench.seed), Instant::now());
    let (mut filled_bytes, mut asked) = (None, 0_u64);
    while began.elapsed() < time {
        for number in 0..WINDOW as u64 {
            client.send(&[&query(id(number), &format!("{:016x}.random.test", rng.u64(..)))])?;
        }
        for _ in 0..WINDOW {
            client.receive(PATIENCE)?;
        }
        asked += WINDOW as u64;
        if filled_bytes.is_none() && began.elapsed() > time / 4 {
            filled_bytes = Some(cache.resident_bytes()?);
        }
    }
    let (filled_bytes, end_bytes) = (filled_bytes.unwrap_or_default(), cache.resident_bytes()?);
    let counts = cache.stop()?;
    let own_bytes = count(&counts, "/cache/memory_bytes");
    ensure!(own_bytes <= MEMORY_BYTES, "the cache has {own_bytes} bytes of {MEMORY_BYTES}: {counts}");
    // In the small form the cache may not be full yet.
    let may_grow_bytes = bench.choose(MEMORY_BYTES as f64, 0.0) + filled_bytes as f64 * SHARE;
    let grown_bytes = end_bytes.saturating_sub(filled_bytes);
    ensure!(
        grown_bytes as f64 <= may_grow_bytes,
        "the process grew from {filled_bytes} to {end_bytes} bytes in {:.0} s",
        time.as_secs_f64()
    );
    eprintln!("memory: {asked} random names, {own_bytes} bytes kept, {filled_bytes} to {end_bytes} resident");
    Ok(())
}

//! Work beside a measurement: ordinary threads that take a share of all cores, in bursts of a thousandth to a third of a
//! second, as compilers and other programs do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use fastrand::Rng;
use kqps_faults::thread::Background;
use kqps_kernel::{affinity, clock};

/// The least and the greatest length of a burst, seconds.
const BURSTS_S: (f64, f64) = (0.001, 0.3);

/// Bytes that each thread touches, so that caches lose what others keep in them.
const MEMORY: usize = 1 << 20;

/// The longest pause at once, so that the threads end soon after they are asked to.
const PAUSE_MOST_S: f64 = 0.1;

/// Begins to take this share of the cores, from 0 to below 1, by as many threads as there are cores. Dropping them ends them.
pub(super) fn start(share: f64, seed: u64) -> Result<Vec<Background<()>>> {
    let cores = if share > 0.0 { affinity::allowed()? } else { Vec::new() };
    let begin = |place: u64| {
        let rng = Rng::with_seed(seed * 1_000 + place);
        Background::start(("the work", "work"), None, move |stop| {
            run(share, rng, stop);
            Ok(())
        })
    };
    (0..cores.len() as u64).map(begin).collect()
}

/// Keeps a core busy until it is stopped, under the name of the work and of its thread.
pub(super) fn spinner(name: (&'static str, &'static str), core: u32) -> Result<Background<()>> {
    Background::start(name, Some(core), |stop| {
        while !stop.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
        Ok(())
    })
}

fn run(share: f64, mut rng: Rng, stop: &AtomicBool) {
    let mut memory = vec![0u8; MEMORY];
    let (least_s, most_s) = BURSTS_S;
    while !stop.load(Ordering::Relaxed) {
        let burst_s = least_s * (most_s / least_s).powf(rng.f64());
        let until_ns = clock::thread_cpu_ns() + (burst_s * 1e9) as u64;
        while clock::thread_cpu_ns() < until_ns && !stop.load(Ordering::Relaxed) {
            for _ in 0..2_000 {
                let place = rng.usize(..MEMORY);
                memory[place] = memory[place].wrapping_add(1);
            }
        }
        let mut pause_s = burst_s * (1.0 - share) / share * (0.5 + rng.f64());
        while pause_s > 0.0 && !stop.load(Ordering::Relaxed) {
            sleep(Duration::from_secs_f64(pause_s.min(PAUSE_MOST_S)));
            pause_s -= PAUSE_MOST_S;
        }
    }
}

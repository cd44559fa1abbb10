//! CPU time of other programs during a measurement. If it is too much, the measurement is made again.

use std::fs;
use std::time::Instant;

use anyhow::{Context as _, Result};

/// Ticks in one second (proc(5), `USER_HZ`).
const TICKS_PER_S: f64 = 100.0;

/// A reading of all programs' CPU time.
pub(super) struct Watch {
    began: Instant,
    used_s: f64,
}

impl Watch {
    pub(super) fn begin() -> Result<Self> {
        Ok(Self { began: Instant::now(), used_s: used_s()? })
    }

    /// Cores in use since the reading, less our own `ours_s` seconds of CPU time. Interrupts are left out,
    /// since they are charged to any program that happens to run.
    pub(super) fn foreign_cores(&self, ours_s: f64) -> Result<f64> {
        let foreign_s = used_s()? - self.used_s - ours_s;
        Ok((foreign_s / self.began.elapsed().as_secs_f64()).max(0.0))
    }
}

fn used_s() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    user_and_system_s(&stat).context("/proc/stat has no line of all cores")
}

/// User, nice and system time of all cores together: the first three figures of the first line (proc(5)).
fn user_and_system_s(stat: &str) -> Option<f64> {
    let figures = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let ticks: Vec<f64> = figures.take(3).filter_map(|figure| figure.parse().ok()).collect();
    (ticks.len() == 3).then(|| ticks.iter().sum::<f64>() / TICKS_PER_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_of_all_cores() {
        assert_eq!(user_and_system_s("cpu  100 50 250 900 7 0 3\ncpu0 1 1 1"), Some(4.0));
        assert_eq!(user_and_system_s("intr 1 2 3"), None);
    }
}

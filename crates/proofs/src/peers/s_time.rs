//! `openssl s_time`, which makes connections in TLS one after the other: its command line, and the figures in its
//! output.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use kqps_programs::shell;

use super::Bench;
use super::figure::Reported;
use crate::child::{Running, pinned};

pub(super) const PROGRAM: &str = "openssl";

/// How long it may take to end after its output.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Plays on the player's core. The program looks at a clock of whole seconds: it runs for up to a second longer than it
/// is asked to, and reports the longest that this can be. So the rate here is over the time from its start to its end.
pub(super) fn play(bench: &Bench<'_>, flags: &[&str], target: SocketAddr) -> Result<Reported> {
    let mut command = pinned(&bench.kqps.player_cpu.to_string(), PROGRAM);
    let seconds = bench.seconds.ceil().to_string();
    command.args(["s_time", "-connect", &target.to_string(), "-time", &seconds]).args(flags);
    let began = Instant::now();
    let ended = Running::start(&mut command)?.wait(END_WITHIN)?;
    let took = began.elapsed();
    // Its exit status says nothing: without a summary a connection failed.
    let answered = connections(&ended.output)
        .with_context(|| format!("{} printed no summary: {:?}", shell::words(&command), ended.output))?;
    let answered_qps = answered as f64 / took.as_secs_f64();
    Ok(Reported { answered, answered_qps, cpu_s: ended.cpu_s, latency_p50_us: None, server: None })
}

/// The connections in its summary: `4321 connections in 3 real seconds, 0 bytes read per connection`.
fn connections(words: &str) -> Option<u64> {
    let line = words.lines().find(|line| line.contains(" real seconds"))?;
    line.strip_suffix(" bytes read per connection")?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_connections_are_read() {
        let summary = "Collecting connection statistics for 2 seconds\n******\n\n\
                       6 connections in 0.01s; 600.00 connections/user sec, bytes read 0\n\
                       6 connections in 3 real seconds, 0 bytes read per connection\n";
        assert_eq!(connections(summary), Some(6));
    }

    #[test]
    fn output_that_breaks_off_has_none() {
        assert_eq!(connections("Collecting connection statistics for 2 seconds\n***"), None);
    }
}

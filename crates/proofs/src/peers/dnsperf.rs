//! dnsperf: its command line, and the figures in its output.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use kqps_programs::shell;

use super::Bench;
use super::figure::Reported;
use crate::child::{Running, pinned};

pub(super) const PROGRAM: &str = "dnsperf";

/// How long it may take to end after its output.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Plays with one thread, pinned to the player's core.
pub(super) fn play(bench: &Bench<'_>, flags: &[&str], target: SocketAddr) -> Result<Reported> {
    let mut command = pinned(&bench.kqps.player_cpu.to_string(), PROGRAM);
    command.args(["-T", "1", "-s", &target.ip().to_string(), "-p", &target.port().to_string()]);
    // dnsperf takes whole seconds only; a fraction would count as no limit.
    command.args(["-l", &bench.seconds.ceil().to_string(), "-d"]).arg(bench.queries).args(flags);
    // Its warnings would appear among our own lines.
    command.stderr(std::process::Stdio::null());
    let ended = Running::start(&mut command)?.wait(END_WITHIN)?;
    if ended.code != Some(0) {
        bail!("{} ended with {:?}: {}", shell::words(&command), ended.code, ended.output);
    }
    let answered = value(&ended.output, "Queries completed:")? as u64;
    let answered_qps = value(&ended.output, "Queries per second:")?;
    Ok(Reported { answered, answered_qps, cpu_s: ended.cpu_s, latency_p50_us: None, server: None })
}

/// The number after a label: `  Queries completed:    999990 (100.00%)`.
fn value(words: &str, label: &str) -> Result<f64> {
    words
        .lines()
        .find_map(|line| line.trim().strip_prefix(label)?.split_whitespace().next()?.parse().ok())
        .with_context(|| format!("dnsperf did not say {label}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_words_are_read() {
        let words = "Statistics:\n\n  Queries sent:         350622\n  Queries completed:    350600 (99.99%)\n\
                     \n  Queries per second:   116606.194440\n";
        assert!((value(words, "Queries completed:").unwrap() - 350_600.0).abs() < 1e-9);
        assert!((value(words, "Queries per second:").unwrap() - 116_606.194_440).abs() < 1e-9);
        assert!(value(words, "Queries lost:").is_err());
    }
}

//! kxdpgun, which makes packets itself and sends them past the kernel (`AF_XDP`): its command line, the search for its
//! best rate, and the figures in its output.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use kqps_lab::path::LaidPath;
use kqps_programs::shell;

use super::Bench;
use super::figure::Reported;
use crate::child::{Running, pinned};

pub(super) const PROGRAM: &str = "kxdpgun";

/// How long it may take to end after its output.
const END_WITHIN: Duration = Duration::from_secs(10);

/// The first rates that it is given, connections a second: rates that a server on one core can be expected to serve.
const FIRST_OVER_TCP_QPS: u32 = 15_000;
const FIRST_OVER_QUIC_QPS: u32 = 2_000;
/// Over UDP: queries a second.
const FIRST_OVER_UDP_QPS: u32 = 150_000;

/// The factor between two rates of the climb, and that to the rates between them, its square root.
const STEP: f64 = 1.4;
const HALF_STEP: f64 = 1.183;

/// A higher rate that brings this much more answers, as a factor, is followed by a still higher one.
const MORE: f64 = 1.02;

/// The first rate for a player with these flags, queries a second.
pub(super) fn first_qps(flags: &[&str]) -> u32 {
    if flags.contains(&"-U") {
        FIRST_OVER_QUIC_QPS
    } else if flags.contains(&"-T") {
        FIRST_OVER_TCP_QPS
    } else {
        FIRST_OVER_UDP_QPS
    }
}

/// Looks for its best rate, since it sends at the rate that it is given, whatever is answered: plays at rising rates
/// until a higher one brings no more, and then halfway to both neighbours of the best. Returns the best play.
pub(super) fn best<T>(
    first_qps: u32,
    mut play: impl FnMut(u32) -> Result<T>,
    answered_qps: impl Fn(&T) -> f64,
) -> Result<T> {
    let times = |rate_qps: u32, factor: f64| (f64::from(rate_qps) * factor) as u32;
    let mut rate_qps = first_qps;
    let mut best = play(rate_qps)?;
    loop {
        let higher_qps = times(rate_qps, STEP);
        let next = play(higher_qps)?;
        let gain = answered_qps(&next) / answered_qps(&best);
        if gain > 1.0 {
            (rate_qps, best) = (higher_qps, next);
        }
        // Without any answer the gain is no number.
        if gain.is_nan() || gain <= MORE {
            break;
        }
    }
    for between_qps in [times(rate_qps, 1.0 / HALF_STEP), times(rate_qps, HALF_STEP)] {
        let next = play(between_qps)?;
        if answered_qps(&next) > answered_qps(&best) {
            best = next;
        }
    }
    Ok(best)
}

/// Plays at the player's end of a path with one thread, which pins itself to the player's core.
pub(super) fn play(
    bench: &Bench<'_>,
    path: &LaidPath,
    flags: &[&str],
    target: SocketAddr,
    queries: &Path,
) -> Result<Reported> {
    let cpu = bench.kqps.player_cpu.to_string();
    let mut command = pinned(&cpu, shell::find(PROGRAM).with_context(|| format!("{PROGRAM} is missing"))?);
    command.args(["-t", &bench.seconds.to_string(), "-F", &cpu, "-p", &target.port().to_string(), "-i"]);
    command.arg(queries).args(flags).arg(target.ip().to_string());
    path.place_player(&mut command).context("entering a network namespace")?;
    let ended = Running::start(&mut command)?.wait(END_WITHIN)?;
    if ended.code != Some(0) {
        bail!("{} ended with {:?}: {}", shell::words(&command), ended.code, ended.output);
    }
    let printed = || format!("{} printed {:?}", shell::words(&command), ended.output);
    let (answered, answered_qps) = replies(&ended.output).with_context(printed)?;
    Ok(Reported { answered, answered_qps, cpu_s: ended.cpu_s, latency_p50_us: None, server: None })
}

/// The rcodes of right answers to the queries of peers, some of which ask for names that do not exist.
const RIGHT: [&str; 2] = ["responded NOERROR:", "responded NXDOMAIN:"];

/// The replies in its summary, and how many they were a second of the load. An error if some have an rcode that no right
/// answer has.
fn replies(words: &str) -> Result<(u64, f64)> {
    let of = |label: &str| words.lines().find_map(|line| line.trim().strip_prefix(label));
    let summary = of("total replies:").context("there is no count of replies")?;
    let mut fields = summary.split_whitespace();
    let replies: u64 =
        fields.next().and_then(|count| count.parse().ok()).context("the count is no number")?;
    let per_s: Option<f64> = fields.next().and_then(|rate| rate.strip_prefix('(')?.parse().ok());
    let with = |rcode| of(rcode).and_then(|count| count.trim().parse::<u64>().ok()).unwrap_or(0);
    let right: u64 = RIGHT.map(with).iter().sum();
    ensure!(right == replies, "of {replies} replies {right} have the rcode NOERROR or NXDOMAIN");
    Ok((replies, per_s.context("there is no rate of replies")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The summary of version 3.2.6.
    const SUMMARY: &str = "\
using interface kqps0, XDP threads 1, TCP, native mode
thread#00: sent 4499, received 4499
total SYNs:        4499 (14996 pps)
total established: 4498 (14993 pps) (99%)
total replies:     4497 (14990 pps) (99%)
total closed:      4496 (14986 pps) (99%)
average DNS reply size: 125 B
average Ethernet reply rate: 42150213 bps (42.15 Mbps)
responded NOERROR:   4278
responded NXDOMAIN:  219
duration: 0 s
";

    #[test]
    fn its_replies_are_read_and_not_its_syns() {
        let (count, per_s) = replies(SUMMARY).unwrap();
        assert_eq!(count, 4_497);
        assert!((per_s - 14_990.0).abs() < 1e-9);
    }

    #[test]
    fn replies_over_udp_are_read_alike() {
        let summary = "total queries:     300000 (149990 pps)\n\
                       total replies:     299000 (149490 pps) (99%)\n\
                       responded NOERROR:   299000\n";
        let (count, per_s) = replies(summary).unwrap();
        assert_eq!(count, 299_000);
        assert!((per_s - 149_490.0).abs() < 1e-9);
        let flags = [&["-T"][..], &["-U"], &["-l", "198.19.0.0/16"]];
        assert_eq!(flags.map(first_qps), [15_000, 2_000, 150_000]);
    }

    #[test]
    fn replies_with_another_rcode_are_an_error() {
        let refused = SUMMARY.replace("responded NOERROR:", "responded REFUSED:");
        assert!(replies(&refused).unwrap_err().to_string().contains("of 4497 replies 219"));
    }

    #[test]
    fn a_summary_of_syns_alone_is_an_error() {
        let silent = "total SYNs:         0 (0 pps)\nduration: 2 s\n";
        assert!(replies(silent).unwrap_err().to_string().contains("no count of replies"));
        let none = "total replies:      0 (0 pps) (0%)\n";
        assert_eq!(replies(none).unwrap().0, 0);
    }

    /// Answers all up to a limit, and fewer and fewer above it.
    fn server(limit_qps: f64) -> impl Fn(u32) -> Result<f64> {
        move |rate_qps| {
            let rate_qps = f64::from(rate_qps);
            Ok(if rate_qps <= limit_qps { rate_qps } else { limit_qps * limit_qps / rate_qps })
        }
    }

    #[test]
    fn the_best_rate_is_found_nearly() {
        for limit_qps in [16_000.0, 20_999.0, 30_000.0, 45_000.0, 250_000.0] {
            let found = best(15_000, server(limit_qps), |answered: &f64| *answered).unwrap();
            assert!(found <= limit_qps && found > 0.84 * limit_qps, "{limit_qps}: {found}");
        }
    }

    #[test]
    fn a_search_ends_without_answers() {
        let mut plays = 0;
        let silent = |_: u32| {
            plays += 1;
            Ok(0.0)
        };
        assert!(best(15_000, silent, |answered: &f64| *answered).unwrap().abs() < 1e-9);
        assert_eq!(plays, 4);
    }
}

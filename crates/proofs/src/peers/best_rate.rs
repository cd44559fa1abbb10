//! The search for the best rate of a player that sends at the rate which it is given, whatever is answered.

use anyhow::Result;

/// The first rates, connections a second: rates that a server on one core can be expected to serve.
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
pub(super) fn first_qps(flags: &[impl AsRef<str>]) -> u32 {
    let has = |flag: &str| flags.iter().any(|one| one.as_ref() == flag);
    if has("-U") {
        FIRST_OVER_QUIC_QPS
    } else if has("-T") {
        FIRST_OVER_TCP_QPS
    } else {
        FIRST_OVER_UDP_QPS
    }
}

/// Plays at rising rates until a higher one brings no more, and then halfway to both neighbours of the best. Returns the
/// best play.
pub(super) fn best<T>(
    first_qps: u32,
    mut play: impl FnMut(u32) -> Result<T>,
    answered_qps: impl Fn(&T) -> f64,
) -> Result<T> {
    let times =
        |rate_qps: u32, factor: f64| u32::try_from((f64::from(rate_qps) * factor) as u64).unwrap_or(u32::MAX);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rate_is_that_of_the_transport() {
        let flags = [&["-T"][..], &["-U"], &["-l", "198.19.0.0/16"]];
        assert_eq!(flags.map(first_qps), [15_000, 2_000, 150_000]);
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

//! How far the clock of another host is from ours, from pings over the channel. No clock needs to be set right: only
//! the difference of the two monotonic clocks counts.

use serde::{Deserialize, Serialize};

/// A ping. `sent_ns` and `received_ns` are of our clock, `at_ns` is of theirs, each `CLOCK_MONOTONIC` in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// When it was about to be written.
    pub sent_ns: u64,
    /// When it was read there.
    pub at_ns: u64,
    /// When the answer had been read.
    pub received_ns: u64,
}

/// The difference of two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    /// Their clock less ours, in nanoseconds.
    pub ns: i64,
    /// By how much `ns` may be wrong in either direction: half of the round trip, whichever way was the slower one.
    pub uncertainty_ns: u64,
    /// The least round trip, in nanoseconds.
    pub rtt_ns: u64,
}

/// Estimates the offset from the ping with the least round trip. The answer was read there between sending and
/// receiving, so the true offset is within the uncertainty. `None` without a ping that can be true.
pub fn estimate(pings: &[Ping]) -> Option<Offset> {
    let rtt = |ping: &Ping| ping.received_ns.checked_sub(ping.sent_ns);
    let (rtt_ns, best) =
        pings.iter().filter_map(|ping| Some((rtt(ping)?, ping))).min_by_key(|(rtt, _)| *rtt)?;
    let middle = i128::from(best.sent_ns) + i128::from(rtt_ns / 2);
    let ns = i64::try_from(i128::from(best.at_ns) - middle).ok()?;
    // A nanosecond more, since the half is rounded down.
    Some(Offset { ns, uncertainty_ns: rtt_ns / 2 + 1, rtt_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_the_shortest_ping_counts() {
        let ping = |sent_ns, at_ns, received_ns| Ping { sent_ns, at_ns, received_ns };
        let pings = [ping(1000, 90_000, 3000), ping(5000, 10_100, 5200), ping(6000, 11_500, 7000)];
        assert_eq!(estimate(&pings), Some(Offset { ns: 5000, uncertainty_ns: 101, rtt_ns: 200 }));
        assert_eq!(estimate(&[]), None);
        assert_eq!(estimate(&[ping(2, 1, 1)]), None);
        let behind = [ping(10_000_000_000, 5, 10_000_000_000)];
        assert_eq!(estimate(&behind).map(|offset| offset.ns), Some(-9_999_999_995));
    }

    #[test]
    fn the_truth_is_within_the_uncertainty_however_unlike_the_two_ways_are() {
        let mut random = fastrand::Rng::with_seed(31);
        for _ in 0..2000 {
            let truth = random.i64(-1_000_000_000_000..1_000_000_000_000);
            let there_most = random.u64(1..2_000_000);
            let back_most = random.u64(1..2_000_000);
            let mut now = 2_000_000_000_000_u64;
            let mut pings = Vec::new();
            for _ in 0..random.usize(1..64) {
                let sent_ns = now;
                let at = sent_ns + random.u64(0..there_most);
                let received_ns = at + random.u64(0..back_most);
                pings.push(Ping { sent_ns, at_ns: at.checked_add_signed(truth).unwrap(), received_ns });
                now = received_ns + random.u64(0..1_000_000);
            }
            let offset = estimate(&pings).unwrap();
            assert!(offset.ns.abs_diff(truth) <= offset.uncertainty_ns, "{truth}: {offset:?}");
            let least = pings.iter().map(|ping| ping.received_ns - ping.sent_ns).min();
            assert_eq!(Some(offset.rtt_ns), least);
        }
    }
}

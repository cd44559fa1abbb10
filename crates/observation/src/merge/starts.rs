//! When the players truly began: on one clock, that of the host that ran kqps.

use super::Part;

/// The starts of all players on one clock, nanoseconds.
pub(super) struct Starts {
    each_ns: Vec<i128>,
    /// The greatest error of each.
    uncertainties_ns: Vec<i128>,
    first_ns: i128,
    /// The offset of the first player's clock.
    first_offset_ns: i128,
    /// Players that began further apart than this did not play at the same time.
    apart_most_ns: i128,
}

impl Starts {
    pub(super) fn from_parts(parts: &[Part]) -> Self {
        let start_ns =
            |part: &Part| i128::from(part.trial.started_monotonic_ns) - i128::from(part.start.offset_ns);
        let each_ns: Vec<i128> = parts.iter().map(start_ns).collect();
        let longest_s = parts.iter().map(|part| part.trial.load.duration_s).fold(0.0, f64::max);
        Self {
            first_ns: each_ns.iter().copied().min().unwrap_or(0),
            each_ns,
            uncertainties_ns: parts.iter().map(|part| i128::from(part.start.uncertainty_ns)).collect(),
            first_offset_ns: parts.first().map_or(0, |part| i128::from(part.start.offset_ns)),
            apart_most_ns: (longest_s * 1e9) as i128,
        }
    }

    /// The first start of any player, on the clock of the first player's host.
    pub(super) fn first_monotonic_ns(&self) -> u64 {
        u64::try_from(self.first_ns + self.first_offset_ns).unwrap_or(0)
    }

    /// By how many bins of this width a player began after the first, to the nearest. 0 if players began further apart
    /// than a trial lasts, since no shift makes one trial of theirs.
    pub(super) fn shift(&self, player: usize, width_ns: u64) -> usize {
        let later_ns = self.each_ns.get(player).map_or(0, |start_ns| start_ns - self.first_ns);
        if later_ns > self.apart_most_ns {
            return 0;
        }
        let width_ns = i128::from(width_ns);
        usize::try_from((later_ns + width_ns / 2) / width_ns).unwrap_or(0)
    }

    /// How far apart two players may have begun at most, microseconds, with the uncertainties of both clocks; `None`
    /// for fewer than two players.
    pub(super) fn skew_us(&self) -> Option<f64> {
        let ends = || self.each_ns.iter().zip(&self.uncertainties_ns).enumerate();
        let apart = |(one, (one_ns, one_error)): (usize, (&i128, &i128))| {
            let others = ends().filter(move |(other, _)| *other != one);
            others.map(move |(_, (ns, error))| one_ns + one_error - (ns - error)).max()
        };
        let most_ns = ends().filter_map(apart).max()?;
        Some(most_ns as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use crate::trial::LoadFacts;
    use crate::{StartFacts, Trial};

    use super::*;

    /// A player that began at this moment of its own clock.
    fn part(started_ns: u64, offset_ns: i64, uncertainty_ns: u64) -> Part {
        let load = LoadFacts { duration_s: 1.0, ..LoadFacts::default() };
        let trial = Trial { started_monotonic_ns: started_ns, load, ..Trial::default() };
        let start = StartFacts { late_ns: 0, offset_ns, uncertainty_ns };
        Part { host: "p".into(), trial, start }
    }

    #[test]
    fn starts_are_compared_on_one_clock_with_their_uncertainties() {
        // On the clock of kqps: 5.000 s, 5.004 s, 5.002 s.
        let parts = [
            part(1_005_000_000_000, 1_000_000_000_000, 100_000),
            part(3_004_000_000, -2_000_000_000, 200_000),
            part(5_002_000_000, 0, 0),
        ];
        let starts = Starts::from_parts(&parts);
        assert_eq!(starts.skew_us(), Some(4_300.0));
        assert_eq!(starts.first_monotonic_ns(), 1_005_000_000_000);
        assert_eq!([0, 1, 2].map(|player| starts.shift(player, 10_000_000)), [0, 0, 0]);
        assert_eq!([0, 1, 2].map(|player| starts.shift(player, 2_000_000)), [0, 2, 1]);
        assert_eq!(Starts::from_parts(&parts[..1]).skew_us(), None, "one player is never apart");
        // A clock that is known badly may hide that they began apart.
        let unsure = [part(7, 0, 5_000_000), part(7, 0, 3_000_000)];
        assert_eq!(Starts::from_parts(&unsure).skew_us(), Some(8_000.0));
    }

    #[test]
    fn players_that_began_days_apart_move_no_bin() {
        let starts = Starts::from_parts(&[part(1, 0, 0), part(u64::MAX, i64::MIN, 0)]);
        assert_eq!(starts.shift(1, 10_000_000), 0);
        assert!(starts.skew_us().is_some_and(|skew_us| skew_us > 1e15));
    }
}

//! A host whose cores change their speed during many trials. Such trials are left out, but the others err for the same
//! reason, where no gauge shows it.

use kqps_observation::Trial;

use crate::interval::Interval;
use crate::speed::Spoiled;

/// Up to this share of the trials, the estimate knows what the host does.
const USUAL: f64 = 0.25;

/// From this share of the trials on there is no figure.
const MOST: f64 = 0.45;

/// Each end of a range moves by this part of the share beyond [`USUAL`].
const WIDENS: f64 = 0.5;

/// Fewer trials show no share.
const TRIALS_LEAST: u32 = 10;

/// How unsteady the host was.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unsteady {
    /// The share of the trials during which the cores changed their speed too much, 0 to 1.
    pub(crate) shifted: f64,
}

impl Spoiled {
    /// Whether the host was so unsteady that there is no figure.
    pub fn is_too_unsteady(self) -> bool {
        Unsteady::from_spoiled(self).refuses()
    }
}

impl Unsteady {
    /// Over all trials of a cell; 0 for fewer than ten.
    pub(crate) fn from_trials<'a>(trials: impl IntoIterator<Item = &'a Trial>) -> Self {
        Self::from_spoiled(Spoiled::count(trials))
    }

    fn from_spoiled(Spoiled { of, shifted, .. }: Spoiled) -> Self {
        Self { shifted: if of < TRIALS_LEAST { 0.0 } else { f64::from(shifted) / f64::from(of) } }
    }

    /// Whether there is no figure.
    pub(crate) fn refuses(self) -> bool {
        self.shifted > MOST
    }

    /// Whether ranges are wider than the estimate makes them.
    pub(crate) fn widens(self) -> bool {
        self.shifted > USUAL
    }

    /// A figure with the range that it has on such a host.
    pub(crate) fn widen(self, figure: Interval) -> Interval {
        let by = WIDENS * (self.shifted - USUAL).max(0.0);
        Interval { low: figure.low / (1.0 + by), high: figure.high * (1.0 + by), ..figure }
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::{CoreGauge, GaugeFacts, SpeedFacts};

    use super::*;

    #[test]
    fn a_host_that_changes_its_speed_in_many_trials_gives_wide_ranges_or_no_figure() {
        let gauge =
            |turns_per_s| GaugeFacts { cores: vec![CoreGauge { cpu: 1, turns_per_s, stalled_s: 0.0 }] };
        let trial = |after| {
            let speed = SpeedFacts {
                before: gauge(100.0),
                after: gauge(after),
                reference_turns_per_s: 100.0,
                ..SpeedFacts::default()
            };
            Trial { speed: Some(speed), ..Trial::default() }
        };
        let of = |shifted: usize, all: usize| {
            Unsteady::from_trials(
                &(0..all).map(|at| trial(if at < shifted { 150.0 } else { 100.0 })).collect::<Vec<_>>(),
            )
        };
        let figure = Interval { median: 100.0, low: 90.0, high: 110.0, coverage: 0.95, count: 2 };
        assert_eq!((of(5, 20).widen(figure), of(5, 20).refuses()), (figure, false));
        let wide = of(8, 20).widen(figure);
        assert!(
            (wide.high / 110.0 - 1.075).abs() < 1e-9 && (90.0 / wide.low - 1.075).abs() < 1e-9,
            "{wide:?}"
        );
        assert!(of(10, 20).refuses() && !of(9, 9).refuses());
        assert!(of(8, 20).widens() && !of(5, 20).widens());
    }
}

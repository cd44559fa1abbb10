//! The bounds of all starts of a cell together, beside its figure.

use super::case::Case;
use super::start::Start;
use crate::interval::Interval;

/// The outermost bounds of the starts that gave a figure, queries a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct OuterBounds {
    /// The least lower bound.
    pub(super) lower_qps: Option<f64>,
    /// The greatest upper bound; `None` if a start found none.
    pub(super) upper_qps: Option<f64>,
}

impl OuterBounds {
    /// A start without a figure is left out: its upper bound would lie below the lower bounds of others.
    pub(super) fn from_starts(starts: &[Start<'_>]) -> Self {
        let counting = starts.iter().filter(|start| start.throughput_qps().is_some());
        let bounds: Vec<_> = counting.filter_map(|start| start.bounds()).collect();
        let lower_qps = bounds.iter().filter_map(|one| one.lower_qps).reduce(f64::min);
        let upper: Option<Vec<f64>> = bounds.iter().map(|one| one.upper_qps).collect();
        Self { lower_qps, upper_qps: upper.and_then(|upper| upper.into_iter().reduce(f64::max)) }
    }

    /// Whether a figure lies between the bounds. A missing bound does not limit it.
    pub(super) fn hold(&self, figure_qps: f64) -> bool {
        self.lower_qps.is_none_or(|lower_qps| lower_qps <= figure_qps)
            && self.upper_qps.is_none_or(|upper_qps| figure_qps <= upper_qps)
    }

    /// A figure that lies outside the bounds by no more than the goal's width is that of the nearer bound: it is not known
    /// any closer.
    pub(super) fn round(&self, figure: Interval, width: f64) -> Interval {
        let lowest = self.lower_qps.map_or(figure.median, |lower_qps| figure.median.max(lower_qps));
        let rounded = self.upper_qps.map_or(lowest, |upper_qps| lowest.min(upper_qps));
        let is_near =
            (rounded / figure.median - 1.0).abs() <= width && (figure.low..=figure.high).contains(&rounded);
        if is_near { Interval { median: rounded, ..figure } } else { figure }
    }

    /// Why bounds are not shown, as a sentence; `None` if they hold the figure. All rates are at the reference speed.
    pub(super) fn why_left_out(&self, figure_qps: f64, case: &Case<'_>) -> Option<String> {
        if self.hold(figure_qps) {
            return None;
        }
        let is_below = self.lower_qps.is_some_and(|lower_qps| lower_qps > figure_qps);
        let (what, bound_qps, place) = if is_below {
            ("held", self.lower_qps?, "below")
        } else {
            ("did not hold", self.upper_qps?, "above")
        };
        Some(format!(
            "The bounds do not count: {} {what} in a few trials of one moment. The figure lies {place} that, and rests on all \
             undisturbed trials together.",
            case.rate(bound_qps)
        ))
    }
}

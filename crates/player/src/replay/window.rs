//! The part of a capture that is played: a window, cut into slices that are laid over each other.

use kqps_dataset::{Dataset, Position};

use crate::plan::ReplayPlan;

/// The window of a replay.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) slices: Box<[Slice]>,
    /// The length of each slice in captured time, nanoseconds. The last one may be shorter.
    pub(crate) slice_ns: u64,
    /// The end of the window, nanoseconds after the capture's first query.
    pub(crate) end_ns: u64,
}

/// The queries of one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// The first query, and the end.
    pub(crate) first: Position,
    pub(crate) end: Position,
    /// When the slice begins, nanoseconds after the capture's first query.
    pub(crate) from_ns: u64,
}

impl Window {
    /// The window that a plan names. A window that ends with the capture includes its last query.
    pub(crate) fn new(dataset: &Dataset, plan: &ReplayPlan) -> Self {
        let window_ns = plan.window_ns(dataset.capture().map_or(0, |capture| capture.duration_ns));
        let slice_ns = (window_ns.end - window_ns.start).div_ceil(u64::from(plan.pile));
        let end = plan.to.map_or(dataset.end(), |_| dataset.position_at(window_ns.end));
        let begins = |slice: u32| (window_ns.start + u64::from(slice) * slice_ns).min(window_ns.end);
        let slice = |slice: u32| {
            let is_last = slice + 1 == plan.pile;
            Slice {
                first: dataset.position_at(begins(slice)).min(end),
                end: if is_last { end } else { dataset.position_at(begins(slice + 1)).min(end) },
                from_ns: begins(slice),
            }
        };
        Self { slices: (0..plan.pile).map(slice).collect(), slice_ns, end_ns: window_ns.end }
    }
}

//! A change of the history as a command looks at it: whether it is new, and what a comparison said about it.

use kqps_history::{Change, History, Series};
use kqps_verdict::compare::Comparison;
use schemars::JsonSchema;
use serde::Serialize;

/// A change with which more runs came than this is old.
pub(super) const LAST: u64 = 10;

/// A change of a series with what a comparison said about it.
pub(super) struct Checked<'a> {
    pub(super) series: &'a Series,
    pub(super) change: &'a Change,
    /// Whether it is the newest of its series, and came with the last runs.
    pub(super) is_new: bool,
    /// The result of comparing both builds; `None` if they were not compared.
    pub(super) confirmation: Option<Confirmation>,
}

/// What a comparison of both builds says about a change.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub(crate) enum Confirmation {
    /// The later build differs in the same direction.
    Confirmed {
        /// The comparison.
        comparison: Box<Comparison>,
    },
    /// The builds are equivalent, or differ in the other direction.
    Refuted {
        /// The comparison.
        comparison: Box<Comparison>,
    },
    /// Both runs measured the same program, so the change is not that of a build.
    SameBuild,
    /// Nothing was decided.
    Undecided {
        /// Why, without a full stop.
        reason: String,
    },
}

/// All changes, the newest first.
pub(super) fn all_changes(history: &History, last: u64) -> Vec<Checked<'_>> {
    let mut checked: Vec<Checked<'_>> = Vec::new();
    for series in &history.series {
        let newest = series.newest();
        for change in series.changes() {
            let is_new =
                newest.is_some_and(|newest| std::ptr::eq(newest, change)) && u64::from(change.age) <= last;
            checked.push(Checked { series, change, is_new, confirmation: None });
        }
    }
    checked.sort_by_key(|one| std::cmp::Reverse(one.series.points[one.change.after].entry));
    checked
}

//! A change of the history as a command looks at it: whether it is new, and what a comparison said about it.

use kqps_history::{Change, History, Series, Shape};
use kqps_verdict::change::Form;
use kqps_verdict::compare::Comparison;
use schemars::JsonSchema;
use serde::Serialize;

/// A change of a series with what a comparison said about it.
pub(super) struct Checked<'a> {
    pub(super) series: &'a Series,
    pub(super) change: &'a Change,
    /// Whether it is the newest of its series and came with the last runs, or goes on.
    pub(super) is_new: bool,
    /// The result of comparing both builds; `None` if they were not compared.
    pub(super) confirmation: Option<Confirmation>,
    /// Whether a condition of `--fail-on` holds for it, or cannot be judged.
    pub(super) fails: bool,
}

impl Checked<'_> {
    /// A creep and its size in a sentence without its full stop; `None` for a step.
    pub(super) fn crept(&self) -> Option<String> {
        let (change, interval) = changed(self.change.ratio);
        (self.change.shape == Shape::Creep).then(|| {
            format!("{} crept by {change} ({interval}) over {} runs", self.series.name, self.change.age)
        })
    }
}

/// A ratio between the ends of its interval as a change, and the interval: `-4.2 %`, `-5.0 % to -3.4 %`.
pub(super) fn changed((low, ratio, high): (f64, f64, f64)) -> (String, String) {
    let form = Form::from_ratios(&[low, ratio, high]);
    (form.change(ratio), form.range(low, high))
}

/// The verdict of a comparison of both builds on a change.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub(crate) enum Confirmation {
    /// The later build differs in the same direction.
    Confirmed {
        /// The comparison.
        comparison: Box<Comparison>,
    },
    /// The builds are equivalent though the comparison would have seen the change, or they differ in the other direction.
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
        for change in series.changes() {
            let is_new = series.is_new(change, last);
            checked.push(Checked { series, change, is_new, confirmation: None, fails: false });
        }
    }
    checked.sort_by_key(|one| std::cmp::Reverse(one.series.points[one.change.after].entry));
    checked
}

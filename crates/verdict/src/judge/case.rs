//! The facts from which a figure and its grade follow.

use kqps_observation::trial::rate_unit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::moment::Moment;
use super::start::Start;
use crate::breaking::{self, attacks};
use crate::estimate::Estimate;
use crate::rate::rate;
use crate::warning::{Surroundings, Warning};

/// The facts that decide the figure and its grade.
pub(super) struct Case<'a> {
    pub(super) surroundings: &'a Surroundings,
    /// The share of a load that buffers may hide if trials are as long as the goal asks.
    pub(super) hidden_most: f64,
    /// The greatest load that may be tried, queries a second at the reference speed.
    pub(super) most_qps: f64,
    /// How close the bounds of the goal come, as a share.
    pub(super) width: f64,
    pub(super) starts: &'a [Start<'a>],
    /// The estimate of the rate from all trials together; `None` if they do not bound it.
    pub(super) estimate: Option<&'a Estimate>,
    /// The estimate of its echo's rate from all trials of the echo, if there were any.
    pub(super) echo: Option<Estimate>,
    pub(super) player_qps: Option<f64>,
    pub(super) echo_qps: Option<f64>,
    /// The usual speed of the cores as a multiple of the reference. Rates are printed at it.
    pub(super) usual_speed: f64,
    /// The warning from the canaries of its run.
    pub(super) canary: Option<Warning>,
    /// Whether the server already ran, so that a start is a session with the same process.
    pub(super) was_running: bool,
    /// Whether the advice names the flags of `kqps find`.
    pub(super) names_flags: bool,
    /// The cause of an early end of the search; `None` if there was none, and for a run, which shows it by its trials.
    pub(super) cut_short: Option<CutShort>,
    /// When the cell is judged.
    pub(super) moment: Moment,
}

impl Case<'_> {
    /// Whether connections alone were the load.
    pub(super) fn has_connections_alone(&self) -> bool {
        self.starts.iter().flat_map(|start| &start.all).any(|trial| trial.has_connections_alone())
    }

    /// The events that its rates count, in words.
    pub(super) fn what(&self) -> &'static str {
        self.unit().strip_suffix("/s").filter(|events| *events != "q").unwrap_or("queries")
    }

    /// A rate with its unit, at the usual speed. `qps` is at the reference speed.
    pub(super) fn rate(&self, qps: f64) -> String {
        format!("{} {}", rate(qps * self.usual_speed), self.unit())
    }

    /// The unit of its rates: that of an attack if a search varied its rate.
    fn unit(&self) -> &'static str {
        let mut trials = self.starts.iter().flat_map(|start| &start.all);
        let attacked = trials.find(|trial| attacks(trial).next().is_some());
        attacked.map_or_else(|| rate_unit(self.has_connections_alone()), |trial| breaking::rate_unit(trial))
    }
}

/// The cause that ended a search before it was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CutShort {
    /// The user.
    User,
    /// An error that says nothing of the target.
    Error,
    /// A player that got no CPU time.
    Player,
}

impl Case<'_> {
    /// The greatest load that may be tried, if every start met the goal even there: the subject answers at least this rate,
    /// and nothing shows how much more.
    pub(super) fn at_least_qps(&self) -> Option<f64> {
        let holds = |start: &Start<'_>| {
            start.bounds().is_some_and(|bounds| {
                let lower_qps = bounds.lower_qps.unwrap_or_default();
                bounds.irregular && lower_qps >= self.most_qps * (1.0 - f64::EPSILON)
            })
        };
        let all_hold = !self.starts.is_empty() && self.starts.iter().all(holds);
        all_hold.then_some(self.most_qps)
    }

    /// The estimate, if the figure is that.
    pub(super) fn figured(&self) -> Option<&Estimate> {
        self.estimate.filter(|_| is_estimated(self.starts))
    }
}

/// Whether the figure may be the estimate from all trials: it is for a search, unless the search showed that no
/// other load does any better.
pub(super) fn is_estimated(starts: &[Start<'_>]) -> bool {
    let is_searched = starts.iter().any(|start| start.verdict.is_searched);
    is_searched && starts.iter().filter_map(Start::bounds).all(|bounds| bounds.futile.is_none())
}

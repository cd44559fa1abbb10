//! A search for another command, which prints nothing.

use std::time::Duration;

use kqps_verdict::search::Preset;

use super::Args;
use super::attack::AttackArgs;
use crate::live::LiveArgs;
use crate::load::PlayerArgs;

impl Args {
    /// A search within this time without the echo, which prints nothing.
    pub(crate) fn quiet(player: PlayerArgs, goal: Preset, time_limit: Duration) -> Self {
        Self {
            player,
            live: LiveArgs::default(),
            goal,
            loss: None,
            width: None,
            min: None,
            max: None,
            p99: None,
            attack: AttackArgs::default(),
            subject_io: None,
            no_ceiling: true,
            time_limit: Some(time_limit),
            out: None,
            why: false,
            json: false,
            is_quiet: true,
        }
    }

    /// Sets the time of the search.
    pub(crate) fn set_time_limit(&mut self, time_limit: Duration) {
        self.time_limit = Some(time_limit);
    }

    /// Sets the highest rate to try.
    pub(crate) fn set_max(&mut self, max_qps: Option<f64>) {
        self.max = max_qps;
    }
}

//! Points that the report draws of a cell beside its figure: latency at every load, and the losses by place.

use std::collections::BTreeMap;

use kqps_observation::run::{Purpose, Run, RunTrial};
use kqps_observation::trial::LoadMode;
use kqps_observation::{Accounts, Histogram, Place, Quantiles, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::{counted_of_cell, load_qps};
use crate::search::Goal;

/// Latency at one load in one start, over all of its trials that count. Their histograms are added; their
/// quantiles are never averaged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LoadPoint {
    /// The block of the start, from 0.
    #[serde(default)]
    pub block: u32,
    /// The load, queries a second.
    pub load_qps: f64,
    /// Microseconds from intended send time to the reply; a lost query counts as the timeout.
    pub latency_us: Quantiles,
    /// Share of the intended queries that were not answered correctly in time, 0 to 1.
    pub bad_ratio: f64,
    /// Numbers of the trials.
    pub trials: Vec<u64>,
}

/// Where queries were lost, over several trials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Losses {
    /// The fates of all queries.
    pub accounts: Accounts,
    /// Losses by place, in the order in which a query passes them.
    pub places: Vec<PlaceLoss>,
    /// Losses that no counter explains, 0 or more.
    pub unexplained: i64,
    /// Packets that the counters show as dropped beyond the losses.
    #[serde(default)]
    pub surplus: u64,
}

/// Packets that were lost at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlaceLoss {
    /// The place.
    pub place: Place,
    /// The number of packets.
    pub count: u64,
    /// Whether other traffic also moves the counter, in any of the trials.
    pub shared: bool,
}

/// Latency at every load of a cell. `speed`, a multiple of the reference, is the speed at which the loads are
/// stated.
pub(super) fn latency(run: &Run, cell: usize, goal: &Goal, speed: f64) -> Vec<LoadPoint> {
    // Loads are positive, and the bits of positive floats sort in numeric order.
    let mut by_load: BTreeMap<(u32, u64), Vec<(&RunTrial, &Trial)>> = BTreeMap::new();
    for (one, trial) in counted_of_cell(run, cell) {
        if let Some(load_qps) = load_qps(trial) {
            by_load.entry((one.block, goal.round_load(load_qps).to_bits())).or_default().push((one, trial));
        }
    }
    let load_qps = |bits| f64::from_bits(bits) * speed;
    by_load.into_iter().map(|((block, bits), trials)| point(block, load_qps(bits), &trials)).collect()
}

fn point(block: u32, load_qps: f64, trials: &[(&RunTrial, &Trial)]) -> LoadPoint {
    let mut accounts = Accounts::default();
    let mut histogram = Histogram::default();
    for (_, trial) in trials {
        accounts.add(&trial.accounts);
        if let Some(latency) = trial.histograms.get("latency").and_then(|text| Histogram::decode(text)) {
            histogram.add(&latency);
        }
    }
    // A record without a histogram still has its quantiles, which hold if it is the only one.
    let latency_us = match trials {
        [(_, trial)] if histogram.is_empty() => trial.latency_us,
        _ => histogram.quantiles(),
    };
    LoadPoint {
        block,
        load_qps,
        latency_us,
        bad_ratio: accounts.bad_ratio(),
        trials: trials.iter().map(|(one, _)| one.number).collect(),
    }
}

pub(super) fn losses(run: &Run, cell: usize) -> Losses {
    let mut losses = Losses::default();
    let mut places: BTreeMap<Place, (u64, bool)> = BTreeMap::new();
    let judged = run.trials_of(cell).filter(|one| one.purpose != Purpose::WarmUp);
    let played = judged.filter_map(RunTrial::measured).filter(|trial| trial.load.mode == LoadMode::Open);
    for trial in played {
        losses.accounts.add(&trial.accounts);
        losses.unexplained += trial.ledger.unexplained.max(0);
        losses.surplus += trial.ledger.beyond();
        for placed in &trial.ledger.places {
            let sum = places.entry(placed.place).or_default();
            *sum = (sum.0 + placed.count, sum.1 || placed.shared);
        }
    }
    let of_place = |(place, (count, shared))| PlaceLoss { place, count, shared };
    losses.places = places.into_iter().map(of_place).collect();
    losses
}

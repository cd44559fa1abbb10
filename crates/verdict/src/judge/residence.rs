//! How long queries stayed in the server's host, beside the latency that the players saw in the same trial. It bears on
//! no figure, since stamping disturbed the trial.

use kqps_observation::run::{Purpose, Run, RunTrial};
use kqps_observation::{Quantiles, ResidenceFacts, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::is_spoiled;

/// The residence is in doubt if more than this share of the sampled queries have no pair.
const UNPAIRED_MOST: f64 = 0.01;

/// The residence of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellResidence {
    /// The number of its trial in the run.
    pub trial: u64,
    /// The load of all players, queries a second.
    pub load_qps: f64,
    /// From the moment at which the kernel of the server's host got a query from the interface until it handed the reply
    /// to it.
    pub residence_us: Quantiles,
    /// The players' latency: from the intended send to the reply's arrival.
    pub latency_us: Quantiles,
    /// Sampling: one query in so many was to be stamped.
    pub one_in: u32,
    /// Queries that were stamped with their reply.
    pub pairs: u64,
    /// `pairs` as a share of the queries that the players sent, 0 to 1.
    pub stamped_share: f64,
    /// Why the residence may be another one, as a sentence without its full stop.
    pub doubt: Option<String>,
    /// Why there is none, as a sentence without its full stop; `None` if there is.
    pub failure: Option<String>,
}

pub(super) fn cell_residence(run: &Run, cell: usize) -> Option<CellResidence> {
    let is_of_cell = |one: &&RunTrial| one.cell as usize == cell && one.purpose == Purpose::Residence;
    run.trials.iter().find(is_of_cell).map(of_trial)
}

fn of_trial(one: &RunTrial) -> CellResidence {
    let failed = |failure: String| CellResidence {
        trial: one.number,
        failure: Some(failure),
        ..CellResidence::default()
    };
    let Some(trial) = one.measured() else {
        return failed(one.failure().unwrap_or_default().to_owned());
    };
    let load_qps = trial.load.intended_qps.unwrap_or(trial.load.offered_qps);
    let measured = match &trial.residence {
        None => Err(why_none(trial)),
        Some(facts) => match (facts.contradiction(), facts.pairs) {
            (Some(what), _) => Err(format!("the counts are impossible: {what}")),
            (None, 0) => Err(format!(
                "no reply was seen with its query at {}: {} queries and {} replies passed, {} packets found no room",
                facts.device, facts.queries, facts.replies, facts.dropped
            )),
            (None, _) => Ok(facts),
        },
    };
    match measured {
        Err(why) => CellResidence { load_qps, latency_us: trial.latency_us, ..failed(why) },
        Ok(facts) => CellResidence {
            trial: one.number,
            load_qps,
            residence_us: facts.residence_us,
            latency_us: trial.latency_us,
            one_in: facts.one_in,
            pairs: facts.pairs,
            stamped_share: facts.pairs as f64 / trial.accounts.sent.max(1) as f64,
            doubt: doubt(trial, facts),
            failure: None,
        },
    }
}

/// Why a trial has no residence.
fn why_none(trial: &Trial) -> String {
    let hosts = [&trial.hosts.first].into_iter().chain(&trial.hosts.others);
    let why = hosts.rev().find_map(|host| host.unreadable.get("residence"));
    why.cloned().unwrap_or_else(|| "no packets were stamped".to_owned())
}

fn doubt(trial: &Trial, facts: &ResidenceFacts) -> Option<String> {
    if is_spoiled(trial) {
        return Some("a player disturbed the trial, and part of the latency is its own".to_owned());
    }
    let ResidenceFacts { queries, pairs, unanswered, repeated, unasked, dropped, .. } = *facts;
    if dropped > 0 {
        return Some(format!("{dropped} packets found no room, and their queries are left out"));
    }
    let unpaired = queries.saturating_sub(pairs) + unasked;
    (unpaired as f64 > queries as f64 * UNPAIRED_MOST).then(|| {
        format!(
            "of {queries} queries {unanswered} had no reply and {repeated} could not be told apart, and {unasked} \
             replies had no query"
        )
    })
}

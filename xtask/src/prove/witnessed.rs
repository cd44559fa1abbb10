//! Latencies with a witness: the relay noted when each reply was handed to the kernel, and the record tells
//! when the trial began. So it is known from outside between which two times each reply arrived, how long
//! ago its query was due, and between which two values each quantile must lie. A core that is taken away
//! moves the player's figures and the known ones alike.

use anyhow::{Context as _, Result, bail, ensure};
use kqps_observation::{Histogram, Quantiles, Trial};

use crate::relay::Witness;

/// How far a quantile may lie outside, µs: arrivals are stamped by the clock of the day, which may be steered
/// between two looks at how far it is from the monotonic one.
const WITHIN_US: u64 = 50;

/// How far apart the two values for a median may be, µs: one call that sends. A wider gap would prove little.
const APART_US: u64 = 200;

/// A figure by its name.
type Figure = (&'static str, fn(&Quantiles) -> Option<u64>);

/// What is compared. A quantile with too few samples beyond it is told by neither side.
const FIGURES: [Figure; 7] = [
    ("min", |quantiles| quantiles.min),
    ("p50", |quantiles| quantiles.p50),
    ("p90", |quantiles| quantiles.p90),
    ("p95", |quantiles| quantiles.p95),
    ("p99", |quantiles| quantiles.p99),
    ("p99.9", |quantiles| quantiles.p999),
    ("max", |quantiles| quantiles.max),
];

/// What the latencies of a trial must have been.
#[derive(Debug)]
pub(super) struct Known {
    /// Had each reply arrived just before it was sent.
    pub(super) least: Quantiles,
    /// Had it arrived when the call that sent it was over.
    pub(super) most: Quantiles,
}

/// Compares the latencies of an open loop of one thread with the witness, and tells what they had to be.
pub(super) fn compare(trial: &Trial, witness: &Witness) -> Result<Known> {
    let known = known(trial, witness)?;
    for (name, figure) in FIGURES {
        let told = figure(&trial.latency_us);
        match (figure(&known.least), told, figure(&known.most)) {
            (None, None, None) => (),
            (Some(least), Some(told), Some(most))
                if (least.saturating_sub(WITHIN_US)..=most + WITHIN_US).contains(&told) => {}
            (least, _, most) => {
                bail!("{name} is told as {told:?} µs, and the relay knows it between {least:?} and {most:?}")
            }
        }
    }
    let (least, most) =
        known.least.p50.zip(known.most.p50).context("there are too few queries for a median")?;
    ensure!(most - least <= APART_US, "the relay knows the median no better than from {least} to {most} µs");
    Ok(known)
}

/// Replays the schedule against the witness's times.
fn known(trial: &Trial, witness: &Witness) -> Result<Known> {
    trial.accounts.check()?;
    let queries = witness.replies.len() as u64;
    // Then the n-th query that reached the relay is the n-th of the schedule.
    ensure!(
        trial.accounts.intended == queries && trial.accounts.correct == queries,
        "not every query was sent and answered: {:?}, and the relay answered {queries}",
        trial.accounts
    );
    let rate_qps = trial.load.intended_qps.context("only a schedule knows when queries were due")?;
    let (mut least, mut most) = (Histogram::default(), Histogram::default());
    for (number, handed) in witness.replies.iter().enumerate() {
        let handed = handed.with_context(|| format!("query {number} was not answered"))?;
        let due_ns = trial.started_monotonic_ns + (number as f64 * 1e9 / rate_qps) as u64;
        least.record_us(handed.before_ns.saturating_sub(due_ns) / 1000);
        most.record_us(handed.after_ns.saturating_sub(due_ns) / 1000);
    }
    Ok(Known { least: least.quantiles(), most: most.quantiles() })
}

#[cfg(test)]
mod tests {
    use kqps_observation::Accounts;
    use kqps_observation::trial::Load;

    use super::*;
    use crate::relay::Handed;

    /// A thousand queries a millisecond apart, from 5 s on; each reply is sent 300 to 310 µs after its query
    /// was due, and the player tells `told_us` of all of them.
    fn told(told_us: u64) -> Result<Known> {
        let handed = |number: u64| {
            let due_ns = 5_000_000_000 + number * 1_000_000;
            Some(Handed { before_ns: due_ns + 300_000, after_ns: due_ns + 310_000 })
        };
        let mut latency = Histogram::default();
        latency.record_many_us(told_us, 1000);
        let trial = Trial {
            started_monotonic_ns: 5_000_000_000,
            load: Load { intended_qps: Some(1000.0), ..Load::default() },
            accounts: Accounts { intended: 1000, sent: 1000, correct: 1000, ..Accounts::default() },
            latency_us: latency.quantiles(),
            ..Trial::default()
        };
        compare(&trial, &Witness { replies: (0..1000).map(handed).collect() })
    }

    #[test]
    fn what_lies_between_both_times_is_right_and_nothing_else() {
        let known = told(305).unwrap();
        assert_eq!((known.least.p50, known.most.p50, known.most.p99), (Some(300), Some(310), None));
        assert!(told(250).is_ok() && told(360).is_ok());
        assert!(told(249).is_err() && told(361).is_err());
    }

    #[test]
    fn a_query_that_the_relay_did_not_answer_leaves_nothing_to_compare() {
        let trial = Trial {
            load: Load { intended_qps: Some(1000.0), ..Load::default() },
            accounts: Accounts { intended: 2, sent: 2, correct: 2, ..Accounts::default() },
            ..Trial::default()
        };
        let handed = Handed { before_ns: 1, after_ns: 2 };
        assert!(compare(&trial, &Witness { replies: vec![Some(handed)] }).is_err());
        assert!(compare(&trial, &Witness { replies: vec![None, Some(handed)] }).is_err());
    }
}

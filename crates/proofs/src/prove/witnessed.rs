//! Latencies with a witness. The relay noted when it handed each reply to the kernel, and the record says
//! when the trial began. So two times are known from outside, between which each reply arrived, and the time
//! when its query was due. Each quantile must then lie between two known values. If a core is taken away, the
//! player's figures and the known values move alike.

use anyhow::{Context as _, Result, bail, ensure};
use kqps_observation::{Histogram, Quantiles, Trial};

use kqps_faults::relay::Witness;

/// How far outside a quantile may lie, µs. Arrivals are stamped by the real-time clock, which may be adjusted
/// between two readings of its distance from the monotonic clock.
const WITHIN_US: u64 = 50;

/// The greatest distance between the two values for a median, µs: the duration of a send call. A wider gap
/// would prove little.
const APART_US: u64 = 200;

/// A quantile with its name.
type Figure = (&'static str, fn(&Quantiles) -> Option<u64>);

/// The compared quantiles. If too few samples lie beyond a quantile, neither side has it.
const FIGURES: [Figure; 7] = [
    ("min", |quantiles| quantiles.min),
    ("p50", |quantiles| quantiles.p50),
    ("p90", |quantiles| quantiles.p90),
    ("p95", |quantiles| quantiles.p95),
    ("p99", |quantiles| quantiles.p99),
    ("p99.9", |quantiles| quantiles.p999),
    ("max", |quantiles| quantiles.max),
];

/// The median alone.
const MEDIAN: [Figure; 1] = [FIGURES[1]];

/// The bounds of the latencies of a trial.
#[derive(Debug)]
pub(super) struct LatencyBounds {
    /// The latencies if each reply had arrived just before it was sent.
    pub(super) least: Quantiles,
    /// The latencies if each had arrived at the end of the call that sent it.
    pub(super) most: Quantiles,
}

/// Compares the latencies of an open loop of one thread with the witness. Returns the bounds.
pub(super) fn compare(trial: &Trial, witness: &Witness) -> Result<LatencyBounds> {
    compare_figures(trial, witness, &FIGURES)
}

/// Compares the median alone.
pub(super) fn compare_median(trial: &Trial, witness: &Witness) -> Result<LatencyBounds> {
    compare_figures(trial, witness, &MEDIAN)
}

fn compare_figures(trial: &Trial, witness: &Witness, figures: &[Figure]) -> Result<LatencyBounds> {
    let known = known(trial, witness)?;
    for &(name, figure) in figures {
        let reported = figure(&trial.latency_us);
        match (figure(&known.least), reported, figure(&known.most)) {
            (None, None, None) => (),
            (Some(least), Some(reported), Some(most))
                if (least.saturating_sub(WITHIN_US)..=most + WITHIN_US).contains(&reported) => {}
            (least, _, most) => {
                bail!(
                    "{name} is given as {reported:?} µs, and the relay knows it between {least:?} and {most:?}"
                )
            }
        }
    }
    let (least, most) =
        known.least.p50.zip(known.most.p50).context("there are too few queries for a median")?;
    ensure!(most - least <= APART_US, "the relay knows the median no better than from {least} to {most} µs");
    Ok(known)
}

/// Replays the schedule against the witness's times.
fn known(trial: &Trial, witness: &Witness) -> Result<LatencyBounds> {
    trial.accounts.check()?;
    let queries = witness.replies.len() as u64;
    // The n-th query that reached the relay is then the n-th of the schedule.
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
    Ok(LatencyBounds { least: least.quantiles(), most: most.quantiles() })
}

#[cfg(test)]
mod tests {
    use kqps_observation::Accounts;
    use kqps_observation::trial::LoadFacts;

    use super::*;
    use kqps_faults::relay::Handed;

    /// A thousand queries a millisecond apart, from 5 s on. Each reply is sent 300 to 310 µs after its query
    /// was due, and the player reports a latency of `reported_us` for all of them.
    fn compared(reported_us: u64) -> Result<LatencyBounds> {
        let handed = |number: u64| {
            let due_ns = 5_000_000_000 + number * 1_000_000;
            Some(Handed { before_ns: due_ns + 300_000, after_ns: due_ns + 310_000 })
        };
        let mut latency = Histogram::default();
        latency.record_many_us(reported_us, 1000);
        let trial = Trial {
            started_monotonic_ns: 5_000_000_000,
            load: LoadFacts { intended_qps: Some(1000.0), ..LoadFacts::default() },
            accounts: Accounts { intended: 1000, sent: 1000, correct: 1000, ..Accounts::default() },
            latency_us: latency.quantiles(),
            ..Trial::default()
        };
        compare(&trial, &Witness { replies: (0..1000).map(handed).collect() })
    }

    #[test]
    fn what_lies_between_both_times_is_right_and_nothing_else() {
        let known = compared(305).unwrap();
        assert_eq!((known.least.p50, known.most.p50, known.most.p99), (Some(300), Some(310), None));
        assert!(compared(250).is_ok() && compared(360).is_ok());
        assert!(compared(249).is_err() && compared(361).is_err());
    }

    #[test]
    fn a_query_that_the_relay_did_not_answer_leaves_nothing_to_compare() {
        let trial = Trial {
            load: LoadFacts { intended_qps: Some(1000.0), ..LoadFacts::default() },
            accounts: Accounts { intended: 2, sent: 2, correct: 2, ..Accounts::default() },
            ..Trial::default()
        };
        let handed = Handed { before_ns: 1, after_ns: 2 };
        assert!(compare(&trial, &Witness { replies: vec![Some(handed)] }).is_err());
        assert!(compare(&trial, &Witness { replies: vec![None, Some(handed)] }).is_err());
    }
}

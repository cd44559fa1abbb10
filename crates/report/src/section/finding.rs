//! The findings of a study's experiment, in a few sentences: its extremes, the published figures, and how many
//! of its cells have a number.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kqps_observation::Run;
use kqps_observation::question::Experiment;
use kqps_verdict::figure::{Figures, State, setting};
use kqps_verdict::finding::{ExperimentFinding, Quantity};
use kqps_verdict::judge::RunVerdict;

use super::table::figure_of;
use super::words::{settings, title};
use crate::format;

#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) title: String,
    pub(crate) sentences: Vec<String>,
}

/// The findings of one experiment of a run.
pub(super) fn of_experiment(run: &Run, verdict: &RunVerdict, experiment: &Experiment) -> Finding {
    let own: Vec<&Figures> = verdict.figures.iter().filter(|one| one.experiment == experiment.name).collect();
    let measured: Vec<&Figures> = own.iter().copied().filter(|one| one.median_qps.is_some()).collect();
    let mut sentences = vec![of_factors(verdict, experiment)];
    let quantity =
        experiment_finding(verdict, experiment).map_or(Quantity::Rate, |found| found.finding.quantity);
    sentences.extend(match quantity {
        Quantity::Rate => by_rate(run, experiment, measured),
        _ => by_cost(run, experiment, quantity, own.iter().copied()),
    });
    sentences.extend(published(experiment));
    sentences.push(if own.is_empty() { left_out(run, experiment) } else { counted(&own) });
    Finding { title: title(experiment), sentences }
}

/// Says which factor mattered, or that none did.
pub(super) fn of_factors(verdict: &RunVerdict, experiment: &Experiment) -> String {
    experiment_finding(verdict, experiment).map_or_else(String::new, |found| found.sentence.clone())
}

fn experiment_finding<'a>(verdict: &'a RunVerdict, experiment: &Experiment) -> Option<&'a ExperimentFinding> {
    verdict.findings.iter().find(|found| found.experiment == experiment.name)
}

/// The cells with the highest and the lowest rate.
fn by_rate(run: &Run, experiment: &Experiment, mut measured: Vec<&Figures>) -> Vec<String> {
    measured.sort_by(|a, b| rate_qps(b).total_cmp(&rate_qps(a)));
    let text = |one: &Figures| {
        let interval = one.median_qps.filter(|figure| figure.count > 1);
        let interval = interval
            .map_or(String::new(), |figure| format!(" ({})", format::rate_interval(figure.low, figure.high)));
        let (settings, rate) = (settings(run, experiment, one), format::rate(rate_qps(one)));
        format!("{settings}: {rate}{interval}, grade {}", one.grade)
    };
    extremes(&measured, ["Fastest, with", "Slowest, with"], text)
}

/// The cells with the least and the greatest latency, memory or time to load, for a rate that was chosen and says
/// nothing about them. Of the median latency the table shows the mean.
fn by_cost<'a>(
    run: &Run,
    experiment: &Experiment,
    quantity: Quantity,
    own: impl Iterator<Item = &'a Figures>,
) -> Vec<String> {
    let shown = quantity.figure();
    let value = |one: &Figures| one.ranged(shown).0;
    // Memory of 0 by connection is that of a cell no greater than its base: its scatter hides what connections take.
    let is_known = |one: &Figures| one.may_show(shown) && value(one).is_some_and(|value| value > 0.0);
    let mut known: Vec<&Figures> = own.filter(|one| is_known(one)).collect();
    known.sort_by(|a, b| value(a).unwrap_or_default().total_cmp(&value(b).unwrap_or_default()));
    let text = |one: &Figures| {
        let (settings, cost) = (settings(run, experiment, one), figure_of(shown, one).text);
        match one.median_qps {
            Some(rate) => format!("{settings}: {cost} at {}, grade {}", format::rate(rate.median), one.grade),
            None => format!("{settings}: {cost}, grade {}", one.grade),
        }
    };
    let heads = shown.row().extremes.unwrap_or(["Least, with", "Most, with"]);
    extremes(&known, heads, text)
}

fn rate_qps(one: &Figures) -> f64 {
    one.median_qps.map_or(0.0, |figure| figure.median)
}

/// A sentence about the first and one about the last, or one about the only one.
fn extremes(sorted: &[&Figures], [first, last]: [&str; 2], text: impl Fn(&Figures) -> String) -> Vec<String> {
    match sorted {
        [] => vec![],
        [only] => vec![format!("With {}.", text(only))],
        [one, .., other] => vec![format!("{first} {}.", text(one)), format!("{last} {}.", text(other))],
    }
}

/// The highest published rate.
fn published(experiment: &Experiment) -> Option<String> {
    let best = experiment.published.iter().max_by(|a, b| a.rate_qps.total_cmp(&b.rate_qps))?;
    let with = best.factors.iter().map(|(name, value)| setting(name, value)).collect::<Vec<_>>();
    let with = if with.is_empty() { String::new() } else { format!(", with {}", with.join(", ")) };
    Some(format!("Published, fastest{with}: {}.", format::rate(best.rate_qps)))
}

/// Why an experiment has no cell at all.
fn left_out(run: &Run, experiment: &Experiment) -> String {
    let of_it = |what: &str| what == experiment.name || what.starts_with(&format!("{}: ", experiment.name));
    let reasons: BTreeSet<&String> =
        run.skipped.iter().filter(|(what, _)| of_it(what)).map(|(_, why)| why).collect();
    let reasons = reasons.into_iter().map(String::as_str).collect::<Vec<_>>().join("; ");
    format!("Not measured: {reasons}.")
}

/// `24 of 30 cells have a number; 2 crashed.`
fn counted(own: &[&Figures]) -> String {
    let count = |state| own.iter().filter(|one| one.state == state).count();
    let measured = count(State::Measured);
    let have = if measured == 1 { "has" } else { "have" };
    let mut sentence = format!("{measured} of {} cells {have} a number", own.len());
    for (state, what) in
        [(State::Refused, "refused"), (State::Crashed, "crashed"), (State::NotMeasured, "not measured")]
    {
        let were = match (state, count(state)) {
            (_, 0) => continue,
            (State::Crashed, _) => "",
            (_, 1) => "was ",
            _ => "were ",
        };
        let _ = write!(sentence, ", {} {were}{what}", count(state));
    }
    sentence + "."
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_observation::question::Published;

    #[test]
    fn a_published_rate_is_shown_with_its_settings_if_it_has_any() {
        let sentence = |factors: &[(&str, &str)]| {
            let factors = factors.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let one = Published { factors: factors.collect(), rate_qps: 260_000.0, ..Published::default() };
            published(&Experiment { published: vec![one], ..Experiment::default() }).unwrap()
        };
        assert_eq!(sentence(&[]), "Published, fastest: 260k\u{a0}q/s.");
        assert_eq!(sentence(&[("workers", "2")]), "Published, fastest, with workers 2: 260k\u{a0}q/s.");
    }
}

//! The tables and charts of a study's experiments, a row for every figure of every combination, with the findings and
//! the scaling laws.

use kqps_observation::Run;
use kqps_observation::question::{Experiment, Figure};
use kqps_verdict::figure::{Absence, Grid, Slot, charts_of, tables_of};
use kqps_verdict::finding::{self, Contrast, Interaction, Outcome};
use kqps_verdict::judge::RunVerdict;

use super::cells::absence;
use super::sheet::{Sheet, Value, count, number, numbers, text, words};
use crate::section::value::ranged;

/// The number of columns from the outcome to the places of a dependence.
const PLACES: usize = 14;

fn experiments(run: &Run) -> impl Iterator<Item = &Experiment> {
    run.question.iter().flat_map(|question| &question.experiments)
}

/// A row for every contrast and every dependence that a finding names.
pub(super) fn findings(run: &Run, verdict: &RunVerdict) -> Sheet {
    let columns = [
        ("experiment", "the experiment"),
        ("finding", "the finding in words"),
        ("quantity", "rate or median latency"),
        (
            "outcome",
            "mattered, depends, none (not beyond the MDE), no-interval, no-pair, one-cell or no-number",
        ),
        ("is_claimed", "whether the difference is more than scatter"),
        ("factor", "the factor"),
        ("greater", "its value with the greater quantity"),
        ("lesser", "its value with the lesser quantity"),
        (
            "ratio",
            "the quantity with the one divided by that with the other; of a dependence, the greatest ratio divided by the least",
        ),
        ("ratio_low", "low end of its interval"),
        ("ratio_high", "high end of its interval"),
        ("mde_share", "the least difference that would be found"),
        ("pairs", "the number of pairs of cells"),
        ("least_at", "where the ratio is least"),
        ("least_ratio", "the ratio there"),
        ("greatest_at", "where the ratio is greatest"),
        ("greatest_ratio", "the ratio there"),
        ("cells", "the number of cells"),
        ("cells_without", "those without a number, which are left out"),
    ];
    let mut sheet = Sheet::new("findings", "a difference that the finding of an experiment names", &columns);
    for experiment in experiments(run) {
        let found = finding::of_experiment(run, verdict, experiment);
        for middle in differences(&found.outcome) {
            let mut row =
                vec![text(&experiment.name), text(found.to_string()), text(found.quantity.to_string())];
            row.extend(middle);
            row.extend([count(found.cells), count(found.without)]);
            sheet.rows.push(row);
        }
    }
    sheet
}

/// The columns from the outcome to the places, for every difference of an outcome.
fn differences(outcome: &Outcome) -> Vec<Vec<Value>> {
    let without = |word: &str| {
        let mut row = vec![text(word), Value::Flag(false)];
        row.resize(PLACES, Value::None);
        row
    };
    let contrast = |word: &str, one: &Contrast| {
        let known = |part: f64| number(one.mde.map(|_| part));
        let mut row = vec![
            text(word),
            Value::Flag(word == "mattered"),
            text(&one.factor),
            text(&one.greater),
            text(&one.lesser),
            number(one.ratio.1),
            known(one.ratio.0),
            known(one.ratio.2),
            number(one.mde),
            count(one.pairs),
        ];
        row.resize(PLACES, Value::None);
        row
    };
    let dependence = |one: &Interaction| {
        vec![
            text("depends"),
            Value::Flag(true),
            text(&one.factor),
            text(&one.greater),
            text(&one.lesser),
            number(one.apart.1),
            number(one.apart.0),
            number(one.apart.2),
            Value::None,
            Value::None,
            text(&one.least.0),
            number(one.least.1),
            text(&one.greatest.0),
            number(one.greatest.1),
        ]
    };
    match outcome {
        Outcome::NoNumber => vec![without("no-number")],
        Outcome::OneCell => vec![without("one-cell")],
        Outcome::NoPair => vec![without("no-pair")],
        Outcome::NoInterval(one) => vec![contrast("no-interval", one)],
        Outcome::None(one) => vec![contrast("none", one)],
        Outcome::Together(depends) => depends.iter().map(dependence).collect(),
        Outcome::Mattered { most, others, interactions } => {
            let contrasts = [most].into_iter().chain(others).map(|one| contrast("mattered", one));
            contrasts.chain(interactions.iter().map(dependence)).collect()
        }
    }
}

/// A row for every figure of every table and chart.
pub(super) fn figures(run: &Run, verdict: &RunVerdict) -> Sheet {
    let columns = [
        ("experiment", "the experiment"),
        ("shown_in", "table or chart"),
        ("title", "its title"),
        ("rows", "the factors of the row, with their values"),
        ("column_factor", "the factor of the column, or of the axis"),
        ("column_value", "its value"),
        ("figure", "the figure; its unit is at its end"),
        ("value", "its value"),
        ("low", "low end of its interval or of its starts"),
        ("high", "high end of its interval or of its starts"),
        ("cell", "index of the cell in the run"),
        ("absence", "why there is no figure"),
        ("trials", "numbers of the trials behind it"),
    ];
    let mut sheet = Sheet::new("figures", "one figure of a table or chart of an experiment", &columns);
    for experiment in experiments(run) {
        for grid in tables_of(run, &verdict.figures, experiment) {
            add(&mut sheet, verdict, experiment, "table", &grid);
        }
        for grid in charts_of(run, &verdict.figures, experiment) {
            add(&mut sheet, verdict, experiment, "chart", &grid);
        }
    }
    sheet
}

fn add(sheet: &mut Sheet, verdict: &RunVerdict, experiment: &Experiment, shown_in: &str, grid: &Grid) {
    for line in &grid.lines {
        let rows: Vec<String> =
            grid.rows.iter().zip(&line.values).map(|(name, value)| format!("{name} {value}")).collect();
        for (slot, column) in line.slots.iter().zip(&grid.column_values) {
            let figures = slot.figures.map(|index| &verdict.figures[index]);
            let subject = slot.figures.map(|index| &verdict.subjects[index]);
            for figure in &grid.show {
                let visible = figures.filter(|figures| figures.may_show(*figure));
                let (value, low, high) = match figure {
                    Figure::Published => (slot.published.as_ref().map(|one| one.rate_qps), None, None),
                    _ => visible.map_or((None, None, None), |figures| ranged(*figure, figures)),
                };
                let why = if value.is_some() { String::new() } else { without(verdict, slot) };
                sheet.rows.push(vec![
                    text(&experiment.name),
                    text(shown_in),
                    words(&grid.title),
                    words(&rows.join(", ")),
                    words(&grid.columns),
                    words(column),
                    text(name(*figure)),
                    number(value),
                    number(low),
                    number(high),
                    figures.map_or(Value::None, |figures| count(figures.cell)),
                    words(&why),
                    subject.map_or(Value::None, |subject| numbers(&subject.trials)),
                ]);
            }
        }
    }
}

/// Why a slot has no figure.
fn without(verdict: &RunVerdict, slot: &Slot) -> String {
    match (slot.figures, &slot.absence) {
        (Some(index), _) => {
            let why = absence(&verdict.subjects[index], &verdict.figures[index]);
            if why.is_empty() { "not known".to_owned() } else { why }
        }
        (None, Some(Absence::Skipped(why))) => why.clone(),
        (None, _) => "not planned".to_owned(),
    }
}

fn name(figure: Figure) -> &'static str {
    match figure {
        Figure::Median => "rate_qps",
        Figure::MeanMinMax => "mean_qps",
        Figure::Published => "published_qps",
        Figure::Efficiency => "efficiency_share",
        Figure::CeilingShare => "ceiling_share",
        Figure::Cpu | Figure::CpuByThread => "cpu_s_per_million",
        Figure::Memory => "memory_bytes",
        Figure::MemoryPerRecord => "memory_bytes_per_record",
        Figure::MemoryPerConnection => "memory_bytes_per_connection",
        Figure::LoadTime => "load_time_mean_s",
        Figure::ReplySize => "reply_bytes",
        Figure::P99AtHalf => "p99_at_half_us",
        Figure::LatencyMean => "latency_mean_us",
        Figure::LatencyP99 => "latency_p99_us",
        Figure::Lost => "lost_share",
    }
}

/// A row for every number of workers of every scaling series.
pub(super) fn scaling(verdict: &RunVerdict) -> Sheet {
    let columns = [
        ("experiment", "the experiment"),
        ("series", "the values of the other factors"),
        ("factor", "the factor that counts the workers"),
        ("is_published", "whether others published the rates"),
        ("workers", "the number of workers"),
        ("start_qps", "the rate of a start, correct answers a second"),
        ("contention_share", "contention of the fitted law"),
        ("coherency_share", "coherency of the fitted law"),
        ("absence", "why no law is fitted"),
    ];
    let mut sheet = Sheet::new("scaling", "one start at one number of workers", &columns);
    for series in &verdict.scaling {
        let fit = series.fit.as_ref();
        for size in &series.sizes {
            for start_qps in &size.starts_qps {
                sheet.rows.push(vec![
                    words(&series.experiment),
                    words(&series.name),
                    text(&series.factor),
                    Value::Flag(series.is_published),
                    count(size.workers),
                    number(*start_qps),
                    number(fit.map(|fit| fit.contention.value)),
                    number(fit.map(|fit| fit.coherency.value)),
                    words(series.refused.as_deref().unwrap_or_default()),
                ]);
            }
        }
    }
    sheet
}

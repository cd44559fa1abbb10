//! Two runs side by side: the figures that both have, and what differs between their hosts and programs. It decides
//! nothing: hosts change between two runs, and `kqps compare` plays both builds in turns.

use std::collections::HashMap;

use kqps_observation::fingerprint::BinaryFacts;
use kqps_observation::{Cell, Run, cpu_list};
use kqps_verdict::judge::RunVerdict;
use kqps_verdict::{holm, student};

use crate::entry::{Entry, Figure, Reading};
use crate::extract::{Programs, entry_of};
use crate::host::Host;
use crate::kind::Kind;

/// Why the earlier run has no figure if it did not measure the cell.
pub const NOT_THERE: &str = "that run did not measure it";

/// Why the later run has no figure if it did not measure the cell.
pub const NOT_HERE: &str = "this run did not measure it";

/// Why a run that measured the cell has no figure.
pub const NOT_KNOWN: &str = "no such figure is known of it";

/// The error rate of all rows together: the chance, among equals, that any row is apart.
const ERROR_RATE: f64 = 0.05;

/// The least probability of covering the truth with which the interval of a rate counts as one.
const COVERAGE_LEAST: f64 = 0.95;

/// A run with its verdict.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The run.
    pub run: &'a Run,
    /// Its verdict.
    pub verdict: &'a RunVerdict,
}

/// Two runs side by side.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Beside {
    /// When the earlier run began, milliseconds since 1970.
    pub then_unix_ms: u64,
    /// The name of the earlier run's folder; empty if the caller names none.
    pub then_name: String,
    /// The address of the earlier run's page, as seen from the page of the later one.
    pub then_page: Option<String>,
    /// Differences between the hosts, kqps, and the versions of subjects, each in a few words.
    pub differences: Vec<String>,
    /// Whether hosts, kqps and the cores of all common cells are the same.
    pub is_same_host: bool,
    /// Whether any cell is in both runs.
    pub has_common: bool,
    /// The figures that either run has, in the order of the later one, and then those of the earlier one alone.
    pub rows: Vec<BesideRow>,
}

/// A figure of two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct BesideRow {
    /// The cell.
    pub cell: String,
    /// Index of the cell in the later run; `None` if the earlier one alone has it.
    pub at: Option<u32>,
    /// The kind of figure; `None` for the rate itself, correct answers a second.
    pub kind: Option<Kind>,
    /// The figure in the earlier run, or why there is none.
    pub then: Result<Figure, String>,
    /// The figure in the later run, or why there is none.
    pub now: Result<Figure, String>,
    /// Now divided by then: low end, estimate, high end. The ends are equal to the estimate if an interval is not known.
    pub ratio: Option<(f64, f64, f64)>,
    /// Whether the interval of the ratio is known and excludes 1, with all rows considered (Holm).
    pub is_apart: bool,
}

/// The later run beside the earlier one.
pub fn beside(now: Side<'_>, then: Side<'_>) -> Beside {
    let entries = [now, then].map(|side| entry_of(side.run, side.verdict, "", &Programs::new()));
    let [(of_now, host_now), (of_then, host_then)] = &entries;
    let mut differences = host_then.differences(host_now);
    let versions = (&then.run.kqps_version, &now.run.kqps_version);
    if versions.0 != versions.1 {
        differences.push(format!("kqps: {}, now {}", versions.0, versions.1));
    }
    differences.extend(other_cores(now, then));
    let is_same_host = differences.is_empty();
    differences.extend(other_builds(now.run, then.run));
    let mut rows = rates(now, then);
    for reading in &of_now.readings {
        let other = of_then.readings.iter().find(|other| is_same(reading, other));
        let at = place(now, &reading.key.experiment, &reading.key.cell);
        let kind = Some(reading.key.kind);
        rows.push(row(&reading.key.cell, at, kind, other.map(figure), Some(figure(reading))));
        let (Some(other), Kind::Share | Kind::Memory) = (other, reading.key.kind) else { continue };
        let changed = format!(
            "{}: {}, now {}",
            reading.key.cell,
            other.version.as_deref().unwrap_or("unknown"),
            reading.version.as_deref().unwrap_or("unknown")
        );
        if other.version != reading.version && !differences.contains(&changed) {
            differences.push(changed);
        }
    }
    for reading in &of_then.readings {
        if !of_now.readings.iter().any(|other| is_same(reading, other)) {
            let at = place(now, &reading.key.experiment, &reading.key.cell);
            rows.push(row(&reading.key.cell, at, Some(reading.key.kind), Some(figure(reading)), None));
        }
    }
    rows.retain(|row| row.then.is_ok() || row.now.is_ok());
    for row in &mut rows {
        if row.then == Err(NOT_THERE.to_owned()) && then.run.cells.iter().any(|cell| cell.name == row.cell) {
            row.then = Err(NOT_KNOWN.to_owned());
        }
        if row.now == Err(NOT_HERE.to_owned()) && row.at.is_some() {
            row.now = Err(NOT_KNOWN.to_owned());
        }
    }
    hold_together(&mut rows);
    // All figures of a cell stand together, in the order of the later run.
    let mut order: HashMap<String, usize> = HashMap::new();
    for (at, row) in rows.iter().enumerate() {
        order.entry(row.cell.clone()).or_insert(at);
    }
    rows.sort_by_key(|row| order[&row.cell]);
    let then_unix_ms = then.run.started_unix_ms;
    let has_common =
        now.run.cells.iter().any(|cell| then.run.cells.iter().any(|other| is_same_cell(cell, other)));
    Beside { then_unix_ms, differences, is_same_host, has_common, rows, ..Beside::default() }
}

/// Index of a subject's cell in a run.
fn place(side: Side<'_>, experiment: &str, name: &str) -> Option<u32> {
    let is_it = |cell: &Cell| cell.experiment == experiment && cell.name == name;
    let subjects = side.verdict.subjects.iter().map(|subject| subject.cell);
    subjects.into_iter().find(|cell| is_it(&side.run.cells[*cell as usize]))
}

/// Decides which rows are apart. The more rows have an interval, the more each must differ.
fn hold_together(rows: &mut [BesideRow]) {
    let known: Vec<usize> = (0..rows.len()).filter(|at| chance(&rows[*at]).is_some()).collect();
    let chances: Vec<f64> = known.iter().filter_map(|at| chance(&rows[*at])).collect();
    let rates = holm::error_rates(&chances, ERROR_RATE);
    for ((at, chance), rate) in known.into_iter().zip(chances).zip(rates) {
        rows[at].is_apart = chance < rate;
    }
}

/// The probability, among equals, of a ratio as far from 1 as that of a row; `None` if its interval is not known. The
/// scatter is known from few starts, and least well from the run with fewer, so its tail is that of Student's t.
fn chance(row: &BesideRow) -> Option<f64> {
    let (low, by, _) = row.ratio.filter(|(low, _, high)| low < high)?;
    let count = |figure: &Result<Figure, String>| figure.as_ref().ok()?.count;
    let fewest = count(&row.then)?.min(count(&row.now)?);
    let freedom = (fewest as usize).checked_sub(1).filter(|freedom| *freedom > 0)?;
    let deviation = (by / low).ln() / student::quantile(1.0 - (1.0 - COVERAGE_LEAST) / 2.0, freedom);
    Some(student::chance_beyond(by.ln() / deviation, freedom))
}

/// The cells of both runs whose subject had other cores.
fn other_cores(now: Side<'_>, then: Side<'_>) -> Vec<String> {
    let of_cell = |cell: &Cell| {
        let other = then.run.cells.iter().find(|other| is_same_cell(cell, other))?;
        let (earlier, later) = (cpu_list::write(&other.subject_cpus), cpu_list::write(&cell.subject_cpus));
        (earlier != later).then(|| format!("{}: cores {earlier}, now {later}", cell.name))
    };
    now.run.cells.iter().filter_map(of_cell).collect()
}

/// The programs of both runs whose binary differs, or whose hash one of them does not know.
fn other_builds(now: &Run, then: &Run) -> Vec<String> {
    let short = |hash: &Option<String>| match hash {
        Some(hash) => hash.chars().take(12).collect(),
        None => "unknown".to_owned(),
    };
    let of_program = |(name, later): (&String, &BinaryFacts)| {
        let earlier = then.fingerprint.binaries.get(name)?;
        let is_same = earlier.blake3.is_some() && earlier.blake3 == later.blake3;
        (!is_same).then(|| format!("{name}: build {}, now {}", short(&earlier.blake3), short(&later.blake3)))
    };
    now.fingerprint.binaries.iter().filter_map(of_program).collect()
}

/// Whether two figures were asked the same, whatever the study is called.
fn is_same(one: &Reading, other: &Reading) -> bool {
    let (a, b) = (&one.key, &other.key);
    (&a.experiment, &a.cell, a.kind, &a.reference, &a.conditions)
        == (&b.experiment, &b.cell, b.kind, &b.reference, &b.conditions)
}

fn figure(reading: &Reading) -> Result<Figure, String> {
    reading.figure.ok_or_else(|| reading.absence.clone())
}

/// The rates of the cells of both runs: first those of the later one, then those that the earlier one alone has.
fn rates(now: Side<'_>, then: Side<'_>) -> Vec<BesideRow> {
    let rate = |side: Side<'_>, at: usize| {
        let subject = &side.verdict.subjects[at];
        let why = || subject.reasons.first().cloned().unwrap_or_else(|| "no number".to_owned());
        let of = |rate: kqps_verdict::interval::Interval| Figure {
            value: rate.median,
            low: (rate.coverage >= COVERAGE_LEAST).then_some(rate.low),
            high: (rate.coverage >= COVERAGE_LEAST).then_some(rate.high),
            mde: None,
            count: (rate.coverage >= COVERAGE_LEAST).then_some(rate.count),
        };
        subject.figure_qps.map(of).ok_or_else(why)
    };
    let is_same = |at: usize, other: usize| is_same_cell(cell(now, at), cell(then, other));
    let count = |side: Side<'_>| side.verdict.subjects.len();
    let of_cell = |at: usize| {
        let other = (0..count(then)).find(|other| is_same(at, *other));
        let place = Some(now.verdict.subjects[at].cell);
        row(&cell(now, at).name, place, None, other.map(|other| rate(then, other)), Some(rate(now, at)))
    };
    let is_alone = |other: &usize| !(0..count(now)).any(|at| is_same(at, *other));
    let of_other = |other: usize| row(&cell(then, other).name, None, None, Some(rate(then, other)), None);
    let alone = (0..count(then)).filter(is_alone).map(of_other);
    (0..count(now)).map(of_cell).chain(alone).collect()
}

/// Whether two cells were asked the same.
fn is_same_cell(a: &Cell, b: &Cell) -> bool {
    (&a.name, &a.experiment, &a.subject, &a.io, a.workers, &a.load, &a.factors)
        == (&b.name, &b.experiment, &b.subject, &b.io, b.workers, &b.load, &b.factors)
}

/// The cell of a subject.
fn cell(side: Side<'_>, at: usize) -> &Cell {
    &side.run.cells[side.verdict.subjects[at].cell as usize]
}

fn row(
    cell: &str,
    at: Option<u32>,
    kind: Option<Kind>,
    then: Option<Result<Figure, String>>,
    now: Option<Result<Figure, String>>,
) -> BesideRow {
    let then = then.unwrap_or_else(|| Err(NOT_THERE.to_owned()));
    let now = now.unwrap_or_else(|| Err(NOT_HERE.to_owned()));
    let ratio = then.as_ref().ok().zip(now.as_ref().ok()).map(|(then, now)| ratio(then, now));
    BesideRow { cell: cell.to_owned(), at, kind, then, now, ratio, is_apart: false }
}

/// The ratio of two figures that are known independently: their half widths add up as squares.
fn ratio(then: &Figure, now: &Figure) -> (f64, f64, f64) {
    let half = |figure: &Figure| Some((figure.high? / figure.low?).ln() / 2.0);
    let by = (now.value / then.value).ln();
    let reach = half(then).zip(half(now)).map_or(0.0, |(a, b)| a.hypot(b));
    ((by - reach).exp(), by.exp(), (by + reach).exp())
}

/// The run of a history to put beside this run: an earlier one of the same study that has a cell of this run. Runs on
/// the same host come before others, and of these the last.
pub fn run_before<'a>(entries: &'a [Entry], run: &Run) -> Option<&'a Entry> {
    let host = Host::from_run(run).id;
    let has_common = |one: &Entry| {
        let is_of = |reading: &Reading, cell: &Cell| {
            (&reading.key.experiment, &reading.key.cell) == (&cell.experiment, &cell.name)
        };
        one.readings.iter().any(|reading| run.cells.iter().any(|cell| is_of(reading, cell)))
    };
    let is_before =
        |one: &&Entry| one.study == run.study && one.started_unix_ms < run.started_unix_ms && has_common(one);
    entries.iter().filter(is_before).max_by_key(|one| (one.host == host, one.started_unix_ms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    fn known(value: f64, low: f64, high: f64) -> Figure {
        Figure { value, low: Some(low), high: Some(high), mde: None, count: Some(1_000_000) }
    }

    #[test]
    fn half_widths_add_up_as_squares() {
        let e = std::f64::consts::E;
        let (then, now) =
            (known(1.0, e.powf(-0.03), e.powf(0.03)), known(2.0, 2.0 * e.powf(-0.04), 2.0 * e.powf(0.04)));
        let (low, by, high) = ratio(&then, &now);
        assert!((by - 2.0).abs() < 1e-12 && (low.ln() - (2f64.ln() - 0.05)).abs() < 1e-12);
        assert!((high.ln() - (2f64.ln() + 0.05)).abs() < 1e-12);
    }

    #[test]
    fn the_more_rows_there_are_the_more_each_must_differ() {
        // 2.5 standard deviations of the ratio, whose chance is 1.2 %.
        let half = 1.96 * 0.01 / 2f64.sqrt();
        let figure = |value: f64| known(value, value * (-half).exp(), value * half.exp());
        let apart_by = |by: f64| row("nsd", None, None, Some(Ok(figure(1.0))), Some(Ok(figure(by.exp()))));
        let apart = |mut rows: Vec<BesideRow>| -> Vec<bool> {
            hold_together(&mut rows);
            rows.iter().map(|row| row.is_apart).collect()
        };
        assert_eq!(apart(vec![apart_by(0.025)]), [true]);
        assert_eq!(
            apart(vec![apart_by(0.025), apart_by(0.0), apart_by(0.001), apart_by(0.0), apart_by(-0.002)]),
            [false; 5]
        );
        assert_eq!(apart(vec![apart_by(0.1), apart_by(0.025), apart_by(0.0)]), [true, true, false], "Holm");
        // Half again as far as the interval reaches, beside nine equals: that is 2.94 standard deviations. With many starts its
        // chance is 0.3 %, below a tenth of the error rate; with six, t is 3.86 with five degrees of freedom, and it is 1.2 %.
        let of_starts = |count: u32| {
            let figure = |value: f64| Figure { count: Some(count), ..figure(value) };
            let by = |by: f64| row("nsd", None, None, Some(Ok(figure(1.0))), Some(Ok(figure(by.exp()))));
            apart([0.0294].into_iter().chain([0.0; 9]).map(by).collect())[0]
        };
        assert_eq!((of_starts(1_000_000), of_starts(6)), (true, false));
        let alone = Figure { value: 2.0, ..Figure::default() };
        let unknown = row("nsd", None, None, Some(Ok(figure(1.0))), Some(Ok(alone)));
        assert_eq!(apart(vec![unknown]), [false], "no interval is known");
        let missing = row("nsd", None, None, None, Some(Ok(alone)));
        assert_eq!((missing.ratio, missing.then), (None, Err(NOT_THERE.to_owned())));
    }

    #[test]
    fn another_build_with_the_same_version_is_named() {
        let run = |hash: Option<&str>| {
            let mut run = Run::default();
            let facts = BinaryFacts { blake3: hash.map(str::to_owned), ..BinaryFacts::default() };
            run.fingerprint.binaries.insert("nsd".into(), facts);
            run
        };
        assert_eq!(other_builds(&run(Some("aa")), &run(Some("aa"))), [""; 0]);
        assert_eq!(other_builds(&run(Some("bb")), &run(Some("aa"))), ["nsd: build aa, now bb"]);
        assert_eq!(other_builds(&run(None), &run(None)), ["nsd: build unknown, now unknown"]);
    }

    #[test]
    fn the_run_before_is_the_last_earlier_one_of_the_study_on_this_host_if_there_is_one() {
        let run = |started_unix_ms| Run {
            study: "nightly".into(),
            started_unix_ms,
            cells: vec![Cell { name: "nsd".into(), ..Cell::default() }],
            ..Run::default()
        };
        let here = Host::from_run(&run(1)).id;
        let entry = |id: &str, study: &str, started_unix_ms, host: &str, cell: &str| {
            let key = Key {
                study: study.into(),
                experiment: String::new(),
                cell: cell.into(),
                kind: Kind::Share,
                reference: None,
                conditions: std::collections::BTreeMap::new(),
            };
            let reading = Reading {
                key,
                figure: None,
                absence: "no number".into(),
                ceiling_qps: None,
                compared_at_qps: None,
                cores: String::new(),
                version: None,
                builds: Vec::new(),
            };
            Entry {
                id: id.into(),
                study: study.into(),
                started_unix_ms,
                host: host.into(),
                readings: vec![reading],
                ..Entry::default()
            }
        };
        let mut entries = vec![
            entry("a", "nightly", 1, "elsewhere", "nsd"),
            entry("b", "nightly", 5, "elsewhere", "nsd"),
            entry("c", "other", 6, &here, "nsd"),
            entry("d", "nightly", 7, &here, "another server"),
            entry("e", "nightly", 9, &here, "nsd"),
        ];
        let before = |entries: &[Entry], at| run_before(entries, &run(at)).map(|one| one.id.clone());
        assert_eq!(before(&entries, 9).as_deref(), Some("b"), "no run on this host is earlier");
        assert_eq!(before(&entries, 1), None);
        entries.push(entry("f", "nightly", 2, &here, "nsd"));
        assert_eq!(before(&entries, 9).as_deref(), Some("f"), "a run on this host comes first");
    }
}

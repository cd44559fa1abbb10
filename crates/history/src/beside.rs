//! Two runs side by side: the figures that both have, and what differs between their hosts and programs. It decides
//! nothing: hosts change between two runs, and `kqps compare` plays both builds in turns.

use kqps_observation::fingerprint::BinaryFacts;
use kqps_observation::{Cell, Run, cpu_list};
use kqps_verdict::judge::RunVerdict;

use crate::entry::{Entry, Figure, Reading};
use crate::extract::{Programs, entry_of};
use crate::kind::Kind;

/// Why the earlier run has no figure if it did not measure the cell.
pub const NOT_THERE: &str = "that run did not measure it";

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
    /// What differs between the hosts, kqps, and the versions of subjects, each in a few words.
    pub differences: Vec<String>,
    /// Whether hosts, kqps and the cores of all common cells are the same.
    pub is_same_host: bool,
    /// The figures that the later run plays and either run has, in the order of the later one.
    pub rows: Vec<BesideRow>,
}

/// A figure of two runs.
#[derive(Clone, Debug, PartialEq)]
pub struct BesideRow {
    /// The cell.
    pub cell: String,
    /// The kind of figure; `None` for the rate itself, correct answers a second.
    pub kind: Option<Kind>,
    /// The figure in the earlier run, or why there is none.
    pub then: Result<Figure, String>,
    /// The figure in the later run, or why there is none.
    pub now: Result<Figure, String>,
    /// Now divided by then: low end, estimate, high end. The ends are equal to the estimate if an interval is not known.
    pub ratio: Option<(f64, f64, f64)>,
}

impl BesideRow {
    /// Whether the interval of the ratio is known and excludes 1.
    pub fn is_apart(&self) -> bool {
        self.ratio.is_some_and(|(low, _, high)| low < high && (low > 1.0 || high < 1.0))
    }
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
        let row = row(&reading.key.cell, Some(reading.key.kind), other.map(figure), figure(reading));
        rows.push(row);
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
    rows.retain(|row| row.then.is_ok() || row.now.is_ok());
    // All figures of a cell stand together, in the order of the later run.
    let order: Vec<String> = rows.iter().map(|row| row.cell.clone()).collect();
    rows.sort_by_key(|row| order.iter().position(|cell| *cell == row.cell));
    Beside { then_unix_ms: then.run.started_unix_ms, differences, is_same_host, rows }
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

/// The rates of the cells that both runs have, or the later one alone.
fn rates(now: Side<'_>, then: Side<'_>) -> Vec<BesideRow> {
    let rate = |side: Side<'_>, at: usize| {
        let subject = &side.verdict.subjects[at];
        let why = || subject.reasons.first().cloned().unwrap_or_else(|| "no number".to_owned());
        let of = |rate: kqps_verdict::interval::Interval| Figure {
            value: rate.median,
            low: (rate.coverage >= COVERAGE_LEAST).then_some(rate.low),
            high: (rate.coverage >= COVERAGE_LEAST).then_some(rate.high),
            mde: None,
        };
        subject.figure_qps.map(of).ok_or_else(why)
    };
    let is_same = |at: usize, other: usize| is_same_cell(cell(now, at), cell(then, other));
    let of_cell = |at: usize| {
        let other = (0..then.verdict.subjects.len()).find(|other| is_same(at, *other));
        row(&cell(now, at).name, None, other.map(|other| rate(then, other)), rate(now, at))
    };
    (0..now.verdict.subjects.len()).map(of_cell).collect()
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
    kind: Option<Kind>,
    then: Option<Result<Figure, String>>,
    now: Result<Figure, String>,
) -> BesideRow {
    let then = then.unwrap_or_else(|| Err(NOT_THERE.to_owned()));
    let ratio = then.as_ref().ok().zip(now.as_ref().ok()).map(|(then, now)| ratio(then, now));
    BesideRow { cell: cell.to_owned(), kind, then, now, ratio }
}

/// The ratio of two figures that are known independently: their half widths add up as squares.
fn ratio(then: &Figure, now: &Figure) -> (f64, f64, f64) {
    let half = |figure: &Figure| Some((figure.high? / figure.low?).ln() / 2.0);
    let by = (now.value / then.value).ln();
    let reach = half(then).zip(half(now)).map_or(0.0, |(a, b)| a.hypot(b));
    ((by - reach).exp(), by.exp(), (by + reach).exp())
}

/// Of the runs of a history, the last one of the same study before this one.
pub fn run_before<'a>(entries: &'a [Entry], run: &Run) -> Option<&'a Entry> {
    let is_before = |one: &&Entry| one.study == run.study && one.started_unix_ms < run.started_unix_ms;
    entries.iter().filter(is_before).max_by_key(|one| one.started_unix_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(value: f64, low: f64, high: f64) -> Figure {
        Figure { value, low: Some(low), high: Some(high), mde: None }
    }

    #[test]
    fn half_widths_add_up_as_squares() {
        let e = std::f64::consts::E;
        let (then, now) =
            (known(1.0, e.powf(-0.03), e.powf(0.03)), known(2.0, 2.0 * e.powf(-0.04), 2.0 * e.powf(0.04)));
        let (low, by, high) = ratio(&then, &now);
        assert!((by - 2.0).abs() < 1e-12 && (low.ln() - (2f64.ln() - 0.05)).abs() < 1e-12);
        assert!((high.ln() - (2f64.ln() + 0.05)).abs() < 1e-12);
        let row = row("nsd", None, Some(Ok(then)), Ok(now));
        assert!(row.is_apart());
        let alone = Figure { value: 2.0, ..Figure::default() };
        assert!(!super::row("nsd", None, Some(Ok(then)), Ok(alone)).is_apart(), "no interval is known");
        assert_eq!(super::row("nsd", None, None, Ok(now)).ratio, None);
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
    fn the_run_before_is_the_last_earlier_one_of_the_study() {
        let entry = |id: &str, study: &str, started_unix_ms| Entry {
            id: id.into(),
            study: study.into(),
            started_unix_ms,
            ..Entry::default()
        };
        let entries = [
            entry("a", "nightly", 1),
            entry("b", "nightly", 5),
            entry("c", "other", 6),
            entry("d", "nightly", 9),
        ];
        let run = |started_unix_ms| Run { study: "nightly".into(), started_unix_ms, ..Run::default() };
        assert_eq!(run_before(&entries, &run(9)).map(|one| one.id.as_str()), Some("b"));
        assert_eq!(run_before(&entries, &run(1)), None);
    }
}

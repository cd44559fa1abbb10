//! The rows, panels and words of the page of a history.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use kqps_history::{Change, Entry, History, Kind, LAST, Level, Records, Series, Shape};
use kqps_verdict::change::{Form, typeset};

use crate::chart::{Course, CourseDot, Line, LineKind, course};
use crate::format;

/// The most runs that a drawing and the list of runs show.
pub(crate) const DRAWN_MOST: usize = 200;

/// The most rows of changes of the host, and of runs without a figure, beside one series.
const ROWS_MOST: usize = 20;

/// The content of the page.
#[derive(Clone, Copy, Debug)]
pub struct HistoryInput<'a> {
    /// All runs and hosts.
    pub records: &'a Records,
    /// The judged series.
    pub history: &'a History,
    /// The address of each run's page, relative to this page, in the order of the entries; `None` if it has none.
    pub links: &'a [Option<String>],
    /// The version of kqps that writes the page.
    pub kqps_version: &'a str,
}

/// A change in the table at the top.
#[derive(Debug)]
pub(crate) struct ChangeRow {
    pub(crate) since: String,
    pub(crate) run: String,
    pub(crate) link: Option<String>,
    pub(crate) anchor: String,
    pub(crate) series: String,
    pub(crate) change: String,
    pub(crate) interval: String,
    pub(crate) verdict: String,
    /// `worse`, `better` or `hosts`.
    pub(crate) class: &'static str,
    pub(crate) age: u32,
}

/// A series.
#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) anchor: String,
    pub(crate) name: String,
    pub(crate) caption: String,
    /// SVG; empty if there is nothing to draw.
    pub(crate) drawing: String,
    pub(crate) levels: Vec<LevelRow>,
    /// When the host changed, and how.
    pub(crate) moves: Vec<(String, String)>,
    /// The runs without a figure, and why.
    pub(crate) absences: Vec<(String, String)>,
}

#[derive(Debug)]
pub(crate) struct LevelRow {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) host: String,
    pub(crate) count: u32,
    pub(crate) level: String,
    pub(crate) interval: String,
}

#[derive(Debug)]
pub(crate) struct RunRow {
    pub(crate) began: String,
    pub(crate) name: String,
    pub(crate) link: Option<String>,
    pub(crate) study: String,
    pub(crate) host: String,
    pub(crate) kqps: String,
}

#[derive(Debug)]
pub(crate) struct HostRow {
    pub(crate) name: String,
    pub(crate) line: String,
    pub(crate) runs: String,
}

/// The result in one line. It claims no constancy for series that have too few runs to see a change.
pub(crate) fn headline(history: &History) -> String {
    let of_subjects: Vec<(&Series, &Change)> = history
        .series
        .iter()
        .flat_map(|series| series.changes().into_iter().map(move |change| (series, change)))
        .filter(|(_, change)| !change.is_hosts)
        .collect();
    let series = format!("{} series", history.series.len());
    let too_few = history.too_few(LAST);
    if of_subjects.is_empty() {
        return match too_few {
            _ if history.series.is_empty() => "No series yet".to_owned(),
            Some(too_few) => too_few.sentence(),
            None => format!("No change in {series}"),
        };
    }
    let worse = of_subjects.iter().filter(|(series, change)| !series.is_better(change)).count();
    let changes = format::counted(of_subjects.len(), "change");
    let better = of_subjects.len() - worse;
    let unseen = too_few.map_or(String::new(), |too_few| format!("; {too_few}"));
    format!("{changes} in {series}: {worse} for the worse, {better} for the better{unseen}")
}

/// How many runs there are, and of which time.
pub(crate) fn span(records: &Records) -> String {
    let runs = format::counted(records.entries.len(), "run");
    match (records.entries.first(), records.entries.last()) {
        (Some(first), Some(last)) => {
            format!(
                "{runs} from {} to {}",
                format::moment(first.started_unix_ms),
                format::moment(last.started_unix_ms)
            )
        }
        _ => runs,
    }
}

/// All changes, the newest first.
pub(crate) fn changes(input: HistoryInput<'_>) -> Vec<ChangeRow> {
    let mut found: Vec<(u64, ChangeRow)> = Vec::new();
    for (index, series) in input.history.series.iter().enumerate() {
        for change in series.changes() {
            let entry = series.points[change.since()].entry;
            let run = &input.records.entries[entry];
            let (low, ratio, high) = change.ratio;
            let form = Form::from_ratios(&[low, ratio, high]);
            let row = ChangeRow {
                since: format::moment(run.started_unix_ms),
                run: run.name().to_owned(),
                link: input.links.get(entry).cloned().flatten(),
                anchor: anchor(index),
                series: series.name.clone(),
                change: typeset(&form.change(ratio)),
                interval: typeset(&form.range(low, high)),
                verdict: verdict(series, change),
                class: class(series, change),
                age: change.age,
            };
            let newest = series.points[change.after].entry;
            found.push((input.records.entries[newest].started_unix_ms, row));
        }
    }
    found.sort_by_key(|(when, _)| std::cmp::Reverse(*when));
    found.into_iter().map(|(_, row)| row).collect()
}

/// All series: those that changed last come first, then those without a change by name.
pub(crate) fn panels(input: HistoryInput<'_>) -> Vec<Panel> {
    let since = |series: &Series| {
        let newest =
            series.creep.as_ref().or_else(|| series.newest()).map(|change| series.points[change.after].entry);
        newest.map(|entry| input.records.entries[entry].started_unix_ms)
    };
    let mut order: Vec<usize> = (0..input.history.series.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(since(&input.history.series[*index])));
    let letters = letters(input.records);
    order.into_iter().map(|index| panel(input, index, &letters)).collect()
}

fn panel(input: HistoryInput<'_>, index: usize, letters: &BTreeMap<&str, String>) -> Panel {
    let (records, series) = (input.records, &input.history.series[index]);
    let host = |point: usize| {
        let id = records.entries[series.points[point].entry].host.as_str();
        letters.get(id).cloned().unwrap_or_default()
    };
    let when = |point: usize| day(&records.entries[series.points[point].entry]);
    let mut levels: Vec<&Level> = series.stretches.iter().flat_map(|stretch| &stretch.levels).collect();
    levels.sort_by_key(|level| std::cmp::Reverse(level.from));
    let show = |value: f64| series.key.kind.show(value);
    let level_row = |level: &&Level| LevelRow {
        from: when(level.from),
        to: when(level.to),
        host: host(level.from),
        count: level.count,
        level: show(level.mean),
        interval: interval(series.key.kind, level),
    };
    let run_of = |entry: usize| {
        let run = &records.entries[entry];
        format!("{}, {}", day(run), run.name())
    };
    let moves = series.moves.iter().rev().take(ROWS_MOST);
    let absences = series.absences.iter().rev().take(ROWS_MOST);
    Panel {
        anchor: anchor(index),
        name: series.name.clone(),
        caption: caption(series),
        drawing: drawing(records, series, index),
        levels: levels.iter().take(ROWS_MOST).map(level_row).collect(),
        moves: moves.map(|one| (run_of(series.points[one.at].entry), one.differences.join("; "))).collect(),
        absences: absences.map(|(entry, why)| (run_of(*entry), why.clone())).collect(),
    }
}

/// The newest figure and its level, in words.
fn caption(series: &Series) -> String {
    let show = |value: f64| series.key.kind.show(value);
    let Some(newest) = series.points.last() else { return "No run has a figure.".to_owned() };
    let mut text = format!("The newest run has {}.", show(newest.figure.value));
    if newest.is_outlier {
        text += " It is far from the runs around it.";
    }
    if let Some(level) = series.level() {
        let runs = format::counted(level.count as usize, "run");
        let (mean, ends) = (show(level.mean), interval(series.key.kind, level));
        let _ = write!(text, " The level of {runs} is {mean} ({ends}).");
    }
    if series.stretches.get(newest.stretch).is_some_and(|stretch| stretch.is_short) {
        text += " There are too few runs of this host to find a change: fewer than 8.";
    }
    text
}

fn drawing(records: &Records, series: &Series, index: usize) -> String {
    let entries: BTreeSet<usize> = series
        .points
        .iter()
        .map(|point| point.entry)
        .chain(series.absences.iter().map(|one| one.0))
        .collect();
    let first = entries.len().saturating_sub(DRAWN_MOST);
    let slots: BTreeMap<usize, usize> =
        entries.iter().skip(first).enumerate().map(|(slot, entry)| (*entry, slot)).collect();
    let slot_of = |point: usize| slots.get(&series.points[point].entry).copied();
    let mut dots: Vec<CourseDot> = series
        .points
        .iter()
        .filter_map(|point| {
            Some(CourseDot {
                slot: *slots.get(&point.entry)?,
                value: Some(point.figure.value),
                ends: point.figure.low.zip(point.figure.high),
                host: point.stretch,
                is_outlier: point.is_outlier,
            })
        })
        .collect();
    let absent = series.absences.iter().filter_map(|(entry, _)| slots.get(entry));
    dots.extend(absent.map(|&slot| CourseDot { slot, value: None, ends: None, host: 0, is_outlier: false }));
    dots.sort_by_key(|dot| dot.slot);
    let levels: Vec<(usize, usize, f64)> = series
        .stretches
        .iter()
        .flat_map(|stretch| &stretch.levels)
        .filter_map(|level| Some((slot_of(level.from).unwrap_or(0), slot_of(level.to)?, level.mean)))
        .collect();
    let line = |change: &&Change| {
        let kind = match class(series, change) {
            "worse" => LineKind::Worse,
            "better" => LineKind::Better,
            _ => LineKind::Hosts,
        };
        let (low, ratio, high) = change.ratio;
        let change_of = typeset(&Form::from_ratios(&[low, ratio, high]).change(ratio));
        let label = if change.shape == Shape::Creep { format!("creep {change_of}") } else { change_of };
        let is_weak = change.strength == kqps_history::Strength::Weak;
        Some(Line { slot: slot_of(change.since())?, kind, is_weak, label })
    };
    let lines: Vec<Line> = series.changes().iter().filter_map(line).collect();
    let drawn = || entries.iter().skip(first);
    let end = |entry: Option<&usize>| entry.map_or(String::new(), |entry| day(&records.entries[*entry]));
    let greatest = dots.iter().filter_map(|dot| dot.value).fold(0.0, f64::max);
    let newest = series.points.last().map(|point| {
        let run = &records.entries[point.entry];
        format!("{}, {}: {}", day(run), run.name(), series.key.kind.show(point.figure.value))
    });
    course(&Course {
        id: &format!("course-{index}"),
        title: &format!("{} over {} runs", series.name, drawn().count()),
        description: &caption(series),
        dots: &dots,
        levels: &levels,
        lines: &lines,
        unit: series.key.kind.unit(greatest),
        ends: (&end(drawn().next()), &end(drawn().last())),
        newest: newest.as_deref().unwrap_or_default(),
    })
}

/// The newest runs, the newest first.
pub(crate) fn runs(input: HistoryInput<'_>) -> Vec<RunRow> {
    let letters = letters(input.records);
    let row = |(index, entry): (usize, &Entry)| RunRow {
        began: format::moment(entry.started_unix_ms),
        name: entry.name().to_owned(),
        link: input.links.get(index).cloned().flatten(),
        study: entry.study.clone(),
        host: letters.get(entry.host.as_str()).cloned().unwrap_or_default(),
        kqps: entry.kqps_version.clone(),
    };
    input.records.entries.iter().enumerate().rev().take(DRAWN_MOST).map(row).collect()
}

/// The hosts by their first runs.
pub(crate) fn hosts(records: &Records) -> Vec<HostRow> {
    let letters = letters(records);
    let mut named: Vec<(&&str, &String)> = letters.iter().collect();
    named.sort_by_key(|(_, name)| (name.len(), name.as_str()));
    let row = |(id, name): (&&str, &String)| {
        let runs = records.entries.iter().filter(|entry| entry.host == **id).count();
        HostRow {
            name: name.clone(),
            line: records.hosts.get(*id).map_or("unknown".to_owned(), kqps_history::Host::line),
            runs: format::counted(runs, "run"),
        }
    };
    named.into_iter().map(row).collect()
}

/// A name for each host, in the order of their first runs: H1, H2, …
fn letters(records: &Records) -> BTreeMap<&str, String> {
    let mut names = BTreeMap::new();
    for entry in &records.entries {
        let next = format!("H{}", names.len() + 1);
        names.entry(entry.host.as_str()).or_insert(next);
    }
    names
}

fn class(series: &Series, change: &Change) -> &'static str {
    match (change.is_hosts, series.is_better(change)) {
        (true, _) => "hosts",
        (false, true) => "better",
        (false, false) => "worse",
    }
}

fn verdict(series: &Series, change: &Change) -> String {
    if change.is_hosts {
        return "the host's: the rate of the echo changed with it".to_owned();
    }
    let creep = if change.shape == Shape::Creep { ", a creep up to the newest run" } else { "" };
    format!("{}, {}{creep}", class(series, change), change.strength.word())
}

fn interval(kind: Kind, level: &Level) -> String {
    format!("{} to {}", kind.show(level.low), kind.show(level.high))
}

fn day(entry: &Entry) -> String {
    format::moment(entry.started_unix_ms).split(' ').next().unwrap_or_default().to_owned()
}

fn anchor(index: usize) -> String {
    format!("series-{index}")
}

//! The changes of a history as text.

use std::fmt::Write as _;

use kqps_history::{History, Records, Shape, TooFew};
use kqps_observation::visible::visible_line;
use kqps_testbed::words::counted;
use time::OffsetDateTime;
use time::macros::format_description;

use super::checked::{Checked, Confirmation, changed};
use crate::table;

/// The whole output of `kqps history check`.
pub(super) fn output(
    records: &Records,
    history: &History,
    checked: &[Checked<'_>],
    too_few: Option<TooFew>,
) -> String {
    let mut text =
        format!("{} series over {}", history.series.len(), counted(records.entries.len() as u64, "run"));
    if !checked.is_empty() || too_few.is_none_or(|too_few| !too_few.is_all()) {
        let new = checked.iter().filter(|one| one.is_new).count();
        let _ = write!(text, ": {}, {new} of them new", counted(checked.len() as u64, "change"));
    }
    text.push_str(".\n");
    if let Some(too_few) = too_few {
        let _ = writeln!(text, "{}.", too_few.sentence());
    }
    if !checked.is_empty() {
        let mut table = table::titled(["since", "series", "change", "interval", "verdict", "runs"]);
        for one in checked {
            table.add_row(row(records, one));
        }
        text.push('\n');
        text += &table::text(table, &[2]);
    }
    for crept in checked.iter().filter_map(Checked::crept) {
        let _ = writeln!(text, "\n{}.", visible_line(&crept));
    }
    for one in checked {
        if let Some(confirmation) = &one.confirmation {
            let _ = writeln!(text, "\n{}: {}.", visible_line(&one.series.name), confirmed(confirmation));
        }
    }
    for absent in absences(records, history) {
        let _ = writeln!(text, "\n{}", visible_line(&absent));
    }
    text
}

fn row(records: &Records, one: &Checked<'_>) -> [String; 6] {
    let run = &records.entries[one.series.points[one.change.since()].entry];
    let (change, interval) = changed(one.change.ratio);
    [
        format!("{} {}", moment(run.started_unix_ms), visible_line(run.name())),
        visible_line(&one.series.name).into_owned(),
        change,
        interval,
        verdict(one),
        one.change.age.to_string(),
    ]
}

/// The verdict on a change in a few words.
pub(super) fn verdict(one: &Checked<'_>) -> String {
    if one.change.is_hosts {
        return "the host's".into();
    }
    let is = if one.series.is_better(one.change) { "better" } else { "worse" };
    let new = match (one.change.shape, one.is_new) {
        (Shape::Creep, _) => "creep",
        (Shape::Step, true) => "new",
        (Shape::Step, false) => "old",
    };
    format!("{is}, {}, {new}", one.change.strength.word())
}

/// The result of a comparison, without a full stop.
pub(super) fn confirmed(confirmation: &Confirmation) -> String {
    match confirmation {
        Confirmation::Confirmed { comparison } => {
            format!("confirmed on this host: {}", unended(&comparison.to_string()))
        }
        Confirmation::Refuted { comparison } => {
            format!("refuted on this host: {}", unended(&comparison.to_string()))
        }
        Confirmation::SameBuild => "both runs measured the same program, so no build is the cause".into(),
        Confirmation::Undecided { reason } => format!("not confirmed: {}", unended(reason)),
    }
}

/// Series whose newest run has no figure, each as a sentence.
pub(super) fn absences(records: &Records, history: &History) -> Vec<String> {
    let of_series = history.series.iter().filter_map(|series| {
        let (entry, why) = series.absences.last()?;
        let is_newest = series.points.last().is_none_or(|point| point.entry < *entry);
        let run = records.entries[*entry].name();
        is_newest.then(|| absent(&series.name, run, why))
    });
    of_series.collect()
}

fn absent(series: &str, run: &str, why: &str) -> String {
    format!("{series} has no figure in its newest run, {run}: {}.", unended(why))
}

/// A sentence without its full stop.
pub(super) fn unended(sentence: &str) -> &str {
    sentence.trim_end_matches('.')
}

/// A moment in UTC: `2026-11-21 22:05`.
pub(super) fn moment(unix_ms: u64) -> String {
    let format = format_description!("[year]-[month]-[day] [hour]:[minute]");
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or_default();
    let moment =
        OffsetDateTime::from_unix_timestamp(seconds).ok().and_then(|moment| moment.format(format).ok());
    moment.unwrap_or_else(|| "-".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_with_a_full_stop_ends_in_one() {
        let reason = "the player was the limit. Give it more cores.".to_owned();
        let said = absent("nsd", "one", &reason);
        assert!(said.ends_with("one: the player was the limit. Give it more cores."), "{said}");
        let said = confirmed(&Confirmation::Undecided { reason });
        assert_eq!(said, "not confirmed: the player was the limit. Give it more cores");
    }
}

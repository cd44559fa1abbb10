//! The history as a comment on a merge request: what changed, and where every series stands.

use std::fmt::Write as _;

use kqps_history::{History, Records, TooFew};
use kqps_observation::visible::visible_line;

use crate::history::checked::{Checked, changed};
use crate::history::words::{absences, confirmed, moment, verdict};

/// The most rows of each table: a comment must stay short.
const ROWS_MOST: usize = 50;

pub(in crate::history) fn comment(
    records: &Records,
    history: &History,
    checked: &[Checked<'_>],
    too_few: Option<TooFew>,
) -> String {
    let new: Vec<&Checked<'_>> = checked.iter().filter(|one| one.is_new).collect();
    let worse = new.iter().filter(|one| !one.series.is_better(one.change)).count();
    let mut text = String::from("### kqps history\n\n");
    let _ = writeln!(
        text,
        "{} runs, {} series. New changes: {worse} for the worse, {} for the better.",
        records.entries.len(),
        history.series.len(),
        new.len() - worse
    );
    if let Some(too_few) = too_few {
        let _ = writeln!(text, "\n**{}.**", too_few.sentence());
    }
    changes(&mut text, records, &new);
    for crept in new.iter().filter_map(|one| one.crept()) {
        let _ = writeln!(text, "\n- {}.", escaped(&crept));
    }
    for one in &new {
        if let Some(confirmation) = &one.confirmation {
            let _ =
                writeln!(text, "\n- {}: {}.", escaped(&one.series.name), escaped(&confirmed(confirmation)));
        }
    }
    for absent in absences(records, history) {
        let _ = writeln!(text, "\n- {}", escaped(&absent));
    }
    series(&mut text, records, history);
    text
}

fn changes(text: &mut String, records: &Records, new: &[&Checked<'_>]) {
    if new.is_empty() {
        return;
    }
    *text += "\n| verdict | series | change | interval | since | runs |\n| --- | --- | ---: | --- | --- | ---: |\n";
    for one in new.iter().take(ROWS_MOST) {
        let run = &records.entries[one.series.points[one.change.since()].entry];
        let (change, interval) = changed(one.change.ratio);
        let _ = writeln!(
            text,
            "| {} | {} | {change} | {interval} | {} {} | {} |",
            verdict(one),
            escaped(&one.series.name),
            moment(run.started_unix_ms),
            escaped(run.name()),
            one.change.age
        );
    }
}

fn series(text: &mut String, records: &Records, history: &History) {
    *text += "\n<details><summary>All series</summary>\n\n| series | newest | level | runs | newest run |\n\
              | --- | ---: | ---: | ---: | --- |\n";
    for one in history.series.iter().take(ROWS_MOST) {
        let show = |value: f64| one.key.kind.show(value);
        let Some(newest) = one.points.last() else { continue };
        let level = one.level().map_or("-".to_owned(), |level| show(level.mean));
        let run = records.entries[newest.entry].name();
        let (name, value, run) = (escaped(&one.name), show(newest.figure.value), escaped(run));
        let _ = writeln!(text, "| {name} | {value} | {level} | {} | {run} |", one.points.len());
    }
    let further = history.series.len().saturating_sub(ROWS_MOST);
    if further > 0 {
        let _ = writeln!(text, "\n{further} further series are left out.");
    }
    *text += "\n</details>\n";
}

/// Text from outside as text: nothing in it is markup, ends a cell, or mentions a user.
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for c in visible_line(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '@' => safe.push_str("&#64;"),
            '#' => safe.push_str("&#35;"),
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '~' | '!' => safe.extend(['\\', c]),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_is_no_markup() {
        let text = escaped("a|b <img> [x](y) @all #1 `c`\n*d*");
        assert_eq!(
            text,
            "a\\|b &lt;img&gt; \\[x\\](y) &#64;all &#35;1 \\`c\\`\\u{a}\\*d\\*"
                .replace("\\u{a}", &escaped("\n"))
        );
        assert!(!escaped("\n").contains('\n'));
    }
}

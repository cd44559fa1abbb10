//! Another run beside this one: the figures of both, and what differs beside them.

use kqps_history::{Beside, Figure};

use super::sheet::{Sheet, Value, count, number, text, words};

/// A row for every figure that either run has.
pub(super) fn figures(beside: Option<&Beside>) -> Sheet {
    let columns = [
        ("cell", "index of the cell in this run; nothing if only the other run has it"),
        ("name", "the cell's name"),
        ("figure", "the figure; its unit is at its end"),
        ("then", "the figure of the other run"),
        ("then_low", "low end of its interval"),
        ("then_high", "high end of its interval"),
        ("then_absence", "why the other run has none"),
        ("now", "the figure of this run"),
        ("now_low", "low end of its interval"),
        ("now_high", "high end of its interval"),
        ("now_absence", "why this run has none"),
        ("ratio", "now divided by then"),
        ("ratio_low", "low end of its interval, of this row alone"),
        ("ratio_high", "high end of its interval, of this row alone"),
        (
            "is_apart",
            "whether the ratio excludes 1, all rows considered (Holm); nothing if no interval is known",
        ),
    ];
    let mut sheet = Sheet::new("beside", "one figure of two runs", &columns);
    for row in beside.iter().flat_map(|beside| &beside.rows) {
        let mut values = vec![
            row.at.map_or(Value::None, count),
            text(&row.cell),
            text(row.kind.map_or("rate-qps", |kind| kind.slug())),
        ];
        values.extend(of_run(&row.then));
        values.extend(of_run(&row.now));
        let known = row.ratio.filter(|(low, _, high)| low < high);
        values.extend([
            number(row.ratio.map(|(_, by, _)| by)),
            number(known.map(|(low, ..)| low)),
            number(known.map(|(.., high)| high)),
            known.map_or(Value::None, |_| Value::Flag(row.is_apart)),
        ]);
        sheet.rows.push(values);
    }
    sheet
}

fn of_run(figure: &Result<Figure, String>) -> [Value; 4] {
    match figure {
        Ok(figure) => [number(figure.value), number(figure.low), number(figure.high), Value::None],
        Err(why) => [Value::None, Value::None, Value::None, words(why)],
    }
}

/// A row for everything that differs between both runs beside their figures.
pub(super) fn differences(beside: Option<&Beside>) -> Sheet {
    let columns = [("difference", "what it was, and what it is now")];
    let mut sheet = Sheet::new("differences", "something that differs between two runs", &columns);
    sheet.rows.extend(beside.iter().flat_map(|beside| &beside.differences).map(|one| vec![text(one)]));
    sheet
}

//! Another run beside this one: the figures of both, and what differs beside them.

use kqps_history::{Beside, Figure};

use super::sheet::{Sheet, Value, count, number, text, words};

/// A row for every figure that either run has.
pub(super) fn figures(beside: Option<&Beside>) -> Sheet {
    let mut sheet = Sheet::new("beside", "one figure of two runs");
    for row in beside.iter().flat_map(|beside| &beside.rows) {
        let cell = row.at.map_or(Value::None, count);
        let [then, then_low, then_high, then_absence] = of_run(&row.then);
        let [now, now_low, now_high, now_absence] = of_run(&row.now);
        let known = row.ratio.filter(|(low, _, high)| low < high);
        let (low, high) = (number(known.map(|(low, ..)| low)), number(known.map(|(.., high)| high)));
        sheet.push([
            ("cell", "index of the cell in this run; nothing if only the other run has it", cell),
            ("name", "the cell's name", text(&row.cell)),
            (
                "figure",
                "the figure; its unit is at its end",
                text(row.kind.map_or("rate-qps", |kind| kind.slug())),
            ),
            ("then", "the figure of the other run", then),
            ("then_low", "low end of its interval", then_low),
            ("then_high", "high end of its interval", then_high),
            ("then_absence", "why the other run has none", then_absence),
            ("now", "the figure of this run", now),
            ("now_low", "low end of its interval", now_low),
            ("now_high", "high end of its interval", now_high),
            ("now_absence", "why this run has none", now_absence),
            ("ratio", "now divided by then", number(row.ratio.map(|(_, by, _)| by))),
            ("ratio_low", "low end of its interval, of this row alone", low),
            ("ratio_high", "high end of its interval, of this row alone", high),
            (
                "is_apart",
                "whether the ratio excludes 1, all rows considered (Holm); nothing if no interval is known",
                known.map_or(Value::None, |_| Value::Flag(row.is_apart)),
            ),
        ]);
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
    let mut sheet = Sheet::new("differences", "something that differs between two runs");
    for difference in beside.iter().flat_map(|beside| &beside.differences) {
        sheet.push([("difference", "what it was, and what it is now", text(difference))]);
    }
    sheet
}

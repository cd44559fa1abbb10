//! Values that tables and charts show of their exported tables: the same rows with the same values, rounded as the page
//! rounds.

use std::collections::{BTreeMap, BTreeSet};

use kqps_report::{Sheet, Value};

use crate::support::browser::Browser;

/// Every row of every table in the page's first order: the sheet, and of each cell its text and the small texts in it.
const ROWS: &str = r"[...document.querySelectorAll('table[data-sheet]:not(.summary)')].flatMap((table) =>
  [...table.tBodies].filter((body) => !/^o[1-9]/.test(body.className)).flatMap((body) => [...body.rows])
    .filter((row) => !/part|reasons|starts/.test(row.className))
    .map((row) => ({ sheet: table.dataset.sheet, cells: [...row.cells].map((cell) => {
      const text = cell.cloneNode(true);
      const small = [...text.querySelectorAll('.soft')];
      small.forEach((one) => one.remove());
      return [text.textContent.trim(), ...small.map((one) => one.textContent.trim())];
    }) })))";

/// The tooltip of every dot of every chart: the sheet, the chart's id, the tooltip.
const DOTS: &str = r"[...document.querySelectorAll('[data-sheet] svg.chart circle > title')].map((title) => [
  title.closest('[data-sheet]').dataset.sheet,
  title.closest('svg.chart').getAttribute('aria-labelledby').replace(/-t .*/, ''), title.textContent])";

/// The columns of tables that show all rows of a sheet: the sheet, and the column of the sheet in each column of the
/// page; empty if the page has no single value there. Tables of one sheet differ in their number of columns.
const TABLES: &[(&str, &[&str])] = &[
    ("beside", &["name", "", "then", "now", "ratio"]),
    ("best", &["", "rate_qps", "published_qps"]),
    ("cells", &["name", "rate_qps", "", "grade"]),
    ("cells", &["name", "ceiling_share", "rate_qps", "", "grade"]),
    ("drop_reasons", &["reason", "packets"]),
    ("growth", &["what", "from_us_per_answer", "to_us_per_answer"]),
    ("hosts", &["host", "role", "address", "", "kqps"]),
    ("latency", &["name", "block", "load_qps", "p50_us", "p99_us", "p999_us", "bad_share"]),
    ("locks", &["", "waits", "us_per_answer", "share"]),
    ("profiles", &["state", "us_per_answer", "share"]),
    ("profiles", &["state", "us_per_answer", "echo_us_per_answer", "share"]),
    (
        "residence",
        &[
            "name",
            "load_qps",
            "inside_p50_us",
            "latency_p50_us",
            "inside_p90_us",
            "latency_p90_us",
            "inside_p99_us",
            "latency_p99_us",
            "",
        ],
    ),
    // A trial that failed has its reason in place of all figures.
    ("trials", &["trial", "block", "start", "purpose", ""]),
    (
        "trials",
        &[
            "trial",
            "block",
            "start",
            "purpose",
            "load_qps",
            "answered_qps",
            "duration_s",
            "bad_share",
            "p50_us",
            "p99_us",
            "notes",
        ],
    ),
];

/// A row of a sheet: the name of a column → its value.
type Row<'a> = BTreeMap<&'a str, &'a Value>;

/// Checks the page that is open. Returns the sheets of which it found values.
pub(super) fn expect(name: &str, browser: &mut Browser, sheets: &[Sheet]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut shown: BTreeMap<String, Vec<Vec<Vec<String>>>> = BTreeMap::new();
    for row in browser.evaluate(ROWS).as_array().unwrap() {
        let cells = serde_json::from_value(row["cells"].clone()).unwrap();
        shown.entry(row["sheet"].as_str().unwrap().to_owned()).or_default().push(cells);
    }
    for (sheet, mut shown) in shown {
        if !TABLES.iter().any(|(known, _)| *known == sheet) {
            continue;
        }
        let mut rows = rows_of(sheets, &sheet);
        rows.retain(|row| has_row(&sheet, row));
        if sheet == "trials" {
            // The page has them by cells, and the sheet in the order in which they were played.
            shown.sort_by_key(|cells| cells[0][0].parse::<u64>().unwrap());
        }
        assert_eq!(shown.len(), rows.len(), "{name}: rows of {sheet}");
        for (cells, row) in shown.iter().zip(&rows) {
            expect_row(&format!("{name}: {sheet}"), &sheet, cells, row);
        }
        found.insert(sheet);
    }
    let dots = browser.evaluate(DOTS);
    let dots: Vec<[&str; 3]> =
        dots.as_array().unwrap().iter().map(|dot| [0, 1, 2].map(|at| dot[at].as_str().unwrap())).collect();
    expect_latency(name, &dots, &rows_of(sheets, "latency"));
    expect_ratios(name, &dots, &rows_of(sheets, "comparisons"));
    found
}

fn rows_of<'a>(sheets: &'a [Sheet], name: &str) -> Vec<Row<'a>> {
    let sheet = sheets.iter().find(|sheet| sheet.name == name);
    let row = |sheet: &'a Sheet, row: &'a Vec<Value>| -> Row<'a> {
        sheet.columns.iter().map(|column| column.name.as_str()).zip(row).collect()
    };
    sheet.map_or_else(Vec::new, |sheet| sheet.rows.iter().map(|one| row(sheet, one)).collect())
}

/// Whether the page has a row for a row of a sheet. Some sheets say in a row of their own why there is nothing to show.
fn has_row(sheet: &str, row: &Row<'_>) -> bool {
    match sheet {
        "latency" => *row["absence"] == Value::None,
        "drop_reasons" => *row["reason"] != Value::None,
        "profiles" => *row["state"] != Value::None,
        _ => true,
    }
}

fn expect_row(place: &str, sheet: &str, cells: &[Vec<String>], row: &Row<'_>) {
    let known = TABLES.iter().find(|(known, columns)| *known == sheet && columns.len() == cells.len());
    let (_, columns) = known.unwrap_or_else(|| panic!("{place}: unknown columns: {cells:?}"));
    for (column, texts) in columns.iter().zip(cells).filter(|(column, _)| !column.is_empty()) {
        let place = format!("{place}.{column} of {row:?}");
        match *column {
            "load_qps" if sheet == "trials" => expect_load(&place, &texts[0], row),
            "then" | "now" => {
                let Value::Text(figure) = row["figure"] else { panic!("{place}: no figure") };
                expect_value(&place, &texts[0], row[column], figure);
                let ends =
                    texts.get(1).and_then(|small| small.split_once(" to ")).filter(|_| is_some(row[column]));
                let ends = ends.map_or(["–"; 2], |(low, high)| [low, high]);
                for (end, text) in ["low", "high"].into_iter().zip(ends) {
                    expect_value(&place, text, row[&*format!("{column}_{end}")], figure);
                }
            }
            // The page shows the change.
            "ratio" => {
                let change = match row[column] {
                    Value::Number(ratio) => Value::Number(ratio - 1.0),
                    other => other.clone(),
                };
                expect_value(&place, &texts[0], &change, "change_share");
            }
            // The page says in words that the kernel gave none.
            "reason" if texts[0] == "no reason given" => {
                assert_eq!(*row[column], Value::Text("NOT_SPECIFIED".into()), "{place}");
            }
            "p99_us" | "p999_us" => expect_percentile(&place, &texts[0], column, row),
            _ => expect_value(&place, &texts[0], row[column], column),
        }
    }
    if let Some(Value::Text(why)) = row.get("failure") {
        assert!(cells.iter().any(|texts| texts[0].contains(why)), "{place}: {why} in {cells:?}");
    }
}

fn is_some(value: &Value) -> bool {
    *value != Value::None
}

/// A percentile: its estimate, or else its bound, or else the greatest time.
fn expect_percentile(place: &str, text: &str, column: &str, row: &Row<'_>) {
    let bound = column.replace("_us", "_at_most_us");
    if let Some(text) = text.strip_prefix("≤\u{a0}") {
        assert_eq!(*row[column], Value::None, "{place}: a bound beside an estimate");
        expect_value(place, text, row[&*bound], column);
    } else if let Some(text) = text.strip_prefix("greatest\u{a0}") {
        assert_eq!([row[column], row[&*bound]], [&Value::None; 2], "{place}");
        expect_value(place, text, row["max_us"], column);
    } else {
        expect_value(place, text, row[column], column);
        let others = [row[&*bound], row["max_us"]];
        assert!(
            is_some(row[column]) || !others.into_iter().any(is_some),
            "{place}: no figure, but {others:?}"
        );
    }
}

/// The load of a trial: what was meant, or what left. A window is in no sheet.
fn expect_load(place: &str, text: &str, row: &Row<'_>) {
    if !text.starts_with("window") {
        let meant = row["intended_qps"];
        let load = if is_some(meant) { meant } else { row["offered_qps"] };
        expect_value(place, text, load, "load_qps");
    }
}

/// Checks that a text is a value. `column` ends with the unit of the value.
fn expect_value(place: &str, text: &str, value: &Value, column: &str) {
    let is_so = match value {
        Value::None => ["", "–", "no number"].contains(&text),
        Value::Text(word) => text == word,
        Value::Count(count) => is_rounded(text, *count as f64, column),
        Value::Number(number) => is_rounded(text, *number, column),
        Value::Flag(_) | Value::Numbers(_) => false,
    };
    assert!(is_so, "{place}: the page shows `{text}`, and the sheet has {value:?}");
}

/// Whether a text is a number, rounded to the digits that the text has.
fn is_rounded(text: &str, value: f64, column: &str) -> bool {
    let text = text.replace('\u{a0}', " ").replace('\u{202f}', "").replace('\u{2212}', "-");
    let (is_below, text) = text.strip_prefix("< ").map_or((false, &*text), |text| (true, text));
    let end = text.find(|one: char| !one.is_ascii_digit() && !"+-.".contains(one)).unwrap_or(text.len());
    let (digits, unit) = (&text[..end], text[end..].trim());
    let Ok(number) = digits.parse::<f64>() else { return false };
    let Some(size) = size_of(unit, column) else { return false };
    if is_below {
        return value > 0.0 && value < number * size;
    }
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let half = 0.5 * 0.1_f64.powi(decimals as i32);
    (value / size - number).abs() <= half * (1.0 + 1e-6)
}

/// A unit of the page in the unit of a column; `None` if the column has another.
fn size_of(unit: &str, column: &str) -> Option<f64> {
    let known: &[(&str, f64)] = if column.ends_with("qps") {
        &[("q/s", 1.0), ("k q/s", 1e3), ("M q/s", 1e6), ("G q/s", 1e9)]
    } else if column.ends_with("us") || column.ends_with("us_per_answer") {
        &[("µs", 1.0), ("ms", 1e3), ("s", 1e6)]
    } else if column.ends_with("share") {
        &[("%", 0.01)]
    } else if column.ends_with("_s") || column.ends_with("-s") {
        &[("s", 1.0)]
    } else if column.ends_with("bytes") {
        &[("B", 1.0), ("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0)]
    } else {
        &[("", 1.0)]
    };
    known.iter().find(|(name, _)| *name == unit).map(|(_, size)| *size)
}

/// The number of a whole value.
fn whole(value: &Value) -> i64 {
    let Value::Count(count) = value else { panic!("{value:?}") };
    *count
}

/// Every time in a chart of latency is one of its sheet, at its load and in its start, and none is left out.
fn expect_latency(name: &str, dots: &[[&str; 3]], rows: &[Row<'_>]) {
    let charts: BTreeSet<&str> =
        dots.iter().filter(|[sheet, ..]| *sheet == "latency").map(|[_, chart, _]| *chart).collect();
    for chart in charts {
        let cell: i64 = chart.strip_prefix("latency-").unwrap().parse().unwrap();
        for (series, column) in [("p50 ", "p50_us"), ("p99 ", "p99_us"), ("p99.9 ", "p999_us")] {
            let of_series = |dot: &&[&str; 3]| dot[1] == chart && dot[2].starts_with(series);
            let shown: Vec<&str> = dots.iter().filter(of_series).map(|dot| &dot[2][series.len()..]).collect();
            let is_shown = |row: &&Row<'_>| whole(row["cell"]) == cell && is_some(row[column]);
            let mut rows: Vec<&Row<'_>> = rows.iter().filter(is_shown).collect();
            let load = |row: &Row<'_>| match row["load_qps"] {
                Value::Number(load) => *load,
                other => panic!("{other:?}"),
            };
            rows.sort_by(|a, b| load(a).total_cmp(&load(b)));
            assert_eq!(shown.len(), rows.len(), "{name}: dots of {series}in {chart}");
            for (text, row) in shown.into_iter().zip(rows) {
                let place = format!("{name}: {chart}, {series}{row:?}");
                let (time, at) = text.split_once(" at ").unwrap();
                let (rate, start) = at.split_once(", start ").unwrap();
                expect_value(&place, time, row[column], column);
                expect_value(&place, rate, row["load_qps"], "load_qps");
                expect_value(&place, start, row["block"], "block");
            }
        }
    }
}

/// Every ratio of a block and every mean in the charts of comparisons is that of the sheet, in its order.
fn expect_ratios(name: &str, dots: &[[&str; 3]], rows: &[Row<'_>]) {
    let of_charts: Vec<&str> =
        dots.iter().filter(|[sheet, ..]| *sheet == "comparisons").map(|dot| dot[2]).collect();
    let mut expected: Vec<(Option<&Value>, &Value)> = Vec::new();
    let rows: Vec<&Row<'_>> = rows.iter().filter(|row| is_some(row["ratio"])).collect();
    for (index, row) in rows.iter().enumerate() {
        expected.push((Some(row["block"]), row["ratio"]));
        let is_last = rows.get(index + 1).is_none_or(|next| next["figure"] != row["figure"]);
        if is_last {
            expected.push((None, row["ratio_of_all"]));
        }
    }
    assert_eq!(of_charts.len(), expected.len(), "{name}: dots of comparisons");
    for (text, (block, ratio)) in of_charts.into_iter().zip(expected) {
        let (what, shown) = text.split_once(": ").unwrap();
        let wanted = block.map_or("all".to_owned(), |block| format!("block {}", whole(block)));
        assert_eq!(what, wanted, "{name}");
        expect_value(name, shown, ratio, "ratio");
    }
}

#[test]
fn a_value_that_differs_in_a_digit_that_is_shown_is_seen() {
    for (text, value, column, is_so) in [
        ("213k\u{a0}q/s", 213_400.0, "rate_qps", true),
        ("213k\u{a0}q/s", 213_600.0, "rate_qps", false),
        ("213\u{a0}q/s", 213_400.0, "rate_qps", false),
        ("1.24\u{a0}ms", 1_240.0, "p99_us", true),
        ("1.24\u{a0}ms", 1_246.0, "p99_us", false),
        ("46\u{a0}%", 0.461, "bad_share", true),
        ("46\u{a0}%", 46.1, "bad_share", false),
        ("<\u{a0}0.001\u{a0}%", 0.000_001, "bad_share", true),
        ("<\u{a0}0.001\u{a0}%", 0.0, "bad_share", false),
        ("\u{2212}3.5\u{a0}%", -0.035, "change_share", true),
        ("1\u{202f}234", 1_234.0, "waits", true),
        ("–", 0.0, "waits", false),
    ] {
        assert_eq!(is_rounded(text, value, column), is_so, "{text} {value}");
    }
}

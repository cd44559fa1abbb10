//! A table of data, as CSV or as JSON.

use std::collections::BTreeMap;

use kqps_observation::Quantiles;
use kqps_verdict::interval::Interval;
use schemars::JsonSchema;
use serde::Serialize;

/// The version of the tables' columns.
pub const SHEET_SCHEMA: u32 = 1;

/// A value; its column says the unit.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// Not known, or refused: an empty field, or `null`.
    None,
    /// Text.
    Text(String),
    /// A whole number.
    Count(i64),
    /// A number. One that is not finite is written as not known.
    Number(f64),
    /// Yes or no.
    Flag(bool),
    /// Numbers of trials: separated by spaces in CSV, an array in JSON.
    Numbers(Vec<u64>),
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Column {
    /// Its name, with the unit at its end.
    pub name: String,
    /// Its content, in a few words.
    pub about: String,
}

/// A table of data.
#[derive(Clone, Debug, PartialEq)]
pub struct Sheet {
    /// Its name, which is the stem of its file.
    pub name: &'static str,
    /// The meaning of a row.
    pub about: &'static str,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows; each has a value for every column.
    pub rows: Vec<Vec<Value>>,
}

impl Sheet {
    pub(super) fn new(name: &'static str, about: &'static str) -> Self {
        Self { name, about, columns: Vec::new(), rows: Vec::new() }
    }

    /// Adds a row: for each column its name, its content and the value. All rows have the same columns.
    pub(super) fn push<T: Into<String>>(&mut self, row: impl IntoIterator<Item = (T, T, Value)>) {
        let field = |(name, about, value): (T, T, Value)| {
            let column = Column { name: name.into(), about: about.into() };
            (column, value)
        };
        let (columns, values): (Vec<Column>, Vec<Value>) = row.into_iter().map(field).unzip();
        self.columns = columns;
        self.rows.push(values);
    }

    /// As comma-separated values: the names of the columns, then the rows.
    pub fn csv(&self) -> String {
        let field = |value: &Value| match value {
            Value::Text(text) => text.clone(),
            Value::Count(count) => count.to_string(),
            Value::Number(number) if number.is_finite() => number.to_string(),
            Value::None | Value::Number(_) => String::new(),
            Value::Flag(flag) => flag.to_string(),
            Value::Numbers(numbers) => numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" "),
        };
        let head: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        let rows = self.rows.iter().map(|row| row.iter().map(field).collect());
        csv(std::iter::once(head).chain(rows))
    }

    /// As one JSON object.
    pub fn printed(&self) -> PrintedSheet<'_> {
        let row = |row: &'_ Vec<Value>| -> BTreeMap<String, Value> {
            self.columns.iter().map(|column| column.name.clone()).zip(row.iter().cloned()).collect()
        };
        PrintedSheet {
            schema: SHEET_SCHEMA,
            kind: "table",
            table: self.name,
            about: self.about,
            columns: &self.columns,
            rows: self.rows.iter().map(row).collect(),
        }
    }
}

/// A table as JSON.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PrintedSheet<'a> {
    /// The version of the tables' columns.
    schema: u32,
    /// Always `table`.
    kind: &'static str,
    /// The table's name.
    table: &'static str,
    /// The meaning of a row.
    about: &'static str,
    /// The columns in their order.
    columns: &'a [Column],
    /// Name of a column → value, for every row.
    rows: Vec<BTreeMap<String, Value>>,
}

/// Rows of fields as comma-separated values (RFC 4180, with the line ends of Unix).
pub fn csv(rows: impl Iterator<Item: IntoIterator<Item = String>>) -> String {
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).expect("memory takes rows of any length");
    }
    let bytes = writer.into_inner().expect("memory takes everything");
    String::from_utf8(bytes).expect("the fields are text")
}

/// A column that several tables have, with its value.
pub(super) type Field = (&'static str, &'static str, Value);

pub(super) fn cell(index: u32) -> Field {
    ("cell", "index of the cell in the run", count(index))
}

pub(super) fn name(name: &str) -> Field {
    ("name", "the cell's name", text(name))
}

/// The block with this index, from 0.
pub(super) fn block(index: u32) -> Field {
    ("block", "the block, from 1", count(index + 1))
}

pub(super) fn p99_at_most(latency_us: &Quantiles) -> Field {
    let bound = latency_us.at_most.and_then(|bounds| bounds.p99);
    ("p99_at_most_us", "upper bound of p99, with a confidence of 95 %", counted(bound))
}

pub(super) fn trials(trials: &[u64]) -> Field {
    ("trials", "numbers of the trials behind it", numbers(trials))
}

pub(super) fn text(text: impl Into<String>) -> Value {
    Value::Text(text.into())
}

/// Text, or nothing if there is none.
pub(super) fn words(text: &str) -> Value {
    if text.is_empty() { Value::None } else { Value::Text(text.to_owned()) }
}

pub(super) fn count(count: impl TryInto<i64>) -> Value {
    count.try_into().map_or(Value::None, Value::Count)
}

pub(super) fn counted(number: Option<u64>) -> Value {
    number.map_or(Value::None, count)
}

pub(super) fn number(number: impl Into<Option<f64>>) -> Value {
    number.into().filter(|number| number.is_finite()).map_or(Value::None, Value::Number)
}

/// Numbers of trials.
pub(super) fn numbers(numbers: &[u64]) -> Value {
    Value::Numbers(numbers.to_vec())
}

/// The ends of an interval; not known if it covers the truth with no probability, as that of a lone start.
pub(super) fn ends(interval: Option<&Interval>) -> [Value; 2] {
    let known = interval.filter(|interval| interval.coverage > 0.0);
    [number(known.map(|known| known.low)), number(known.map(|known| known.high))]
}

/// The word for a value that JSON writes as one.
pub(super) fn named(value: impl Serialize) -> Value {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Value::Text(word),
        _ => Value::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_an_empty_field_and_null_and_never_zero() {
        let mut sheet = Sheet::new("t", "a row");
        let row = |name, rate, good| [("name", "?", name), ("rate_qps", "?", rate), ("is_good", "?", good)];
        sheet.push(row(text("a, \"b\"\nc"), number(f64::NAN), Value::Flag(true)));
        sheet.push(row(words(""), Value::Number(0.5), Value::None));
        assert_eq!(sheet.csv(), "name,rate_qps,is_good\n\"a, \"\"b\"\"\nc\",,true\n,0.5,\n");
        let json = serde_json::to_value(sheet.printed()).unwrap();
        assert_eq!(json["rows"][0]["rate_qps"], serde_json::Value::Null);
        assert_eq!(json["rows"][1], serde_json::json!({"name": null, "rate_qps": 0.5, "is_good": null}));
        assert_eq!(json["columns"][1]["name"], "rate_qps");
    }

    #[test]
    fn trials_are_a_list_and_a_lone_start_has_no_interval() {
        let mut sheet = Sheet::new("t", "a row");
        for coverage in [0.0, 0.95] {
            let interval = Interval { median: 2.0, low: 1.0, high: 3.0, coverage, count: 1 };
            let [low, high] = ends(Some(&interval));
            sheet.push([trials(&[3, 7]), ("low", "?", low), ("high", "?", high)]);
        }
        assert_eq!(sheet.csv(), "trials,low,high\n3 7,,\n3 7,1,3\n");
        let json = serde_json::to_value(sheet.printed()).unwrap();
        assert_eq!(json["rows"][0], serde_json::json!({"trials": [3, 7], "low": null, "high": null}));
    }

    #[test]
    fn only_what_would_end_a_field_is_quoted() {
        let mut sheet = Sheet::new("t", "a row");
        for field in ["a\rb", "a;\t'b'", " a ", "é", "-1"] {
            sheet.push([("a,b", "?", text(field)), ("c d", "?", Value::Count(-1))]);
        }
        assert_eq!(sheet.csv(), "\"a,b\",c d\n\"a\rb\",-1\na;\t'b',-1\n a ,-1\né,-1\n-1,-1\n");
        sheet.rows = Vec::new();
        assert_eq!(sheet.csv(), "\"a,b\",c d\n", "the names stand there without a row too");
    }
}

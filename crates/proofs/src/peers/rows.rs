//! The rows of `rows.toml`: which sides are compared, by which figure, and the required ratio.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use kqps_files::toml_file;
use serde::{Deserialize, Serialize};

use super::Name;
use super::figure::Figure;
use super::players;
use super::server::Server;
use super::side::Side;

/// The table, which is the same in all runs.
static TABLE: LazyLock<Table> = LazyLock::new(|| {
    toml_file::read("peers/rows.toml", include_str!("rows.toml")).expect("a test reads the table")
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    loads: BTreeMap<String, Flags>,
    servers: BTreeMap<String, Server>,
    rows: BTreeMap<String, Vec<WrittenRow>>,
}

/// The flags of a player, written in one line.
#[derive(Deserialize)]
#[serde(from = "String")]
struct Flags(Vec<String>);

impl From<String> for Flags {
    fn from(line: String) -> Self {
        Self(line.split(' ').map(str::to_owned).collect())
    }
}

/// A row as it is written. A side is a player, a load and a server.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRow {
    what: String,
    #[serde(default)]
    figure: Figure,
    least: Option<f64>,
    most: Option<f64>,
    a: [String; 3],
    b: [String; 3],
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) what: &'static str,
    pub(super) figure: Figure,
    pub(super) target: Target,
    pub(super) a: Side,
    pub(super) b: Side,
}

/// A row that this host cannot measure.
#[derive(Serialize)]
pub(super) struct Skipped {
    pub(super) what: &'static str,
    pub(super) reason: String,
}

/// The required ratio of side A to side B, or the required difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// None: the ratio is reported.
    Reported,
}

/// The rows of one table. All figures of replays are held to limits instead.
pub(super) fn table_rows(name: Name) -> Vec<Row> {
    let rows = TABLE.rows.get(&name.word());
    rows.into_iter().flatten().map(WrittenRow::row).collect()
}

/// The server of this name in the table.
pub(super) fn server(name: &str) -> &'static Server {
    TABLE.servers.get(name).unwrap_or_else(|| panic!("the table of rows has no server {name}"))
}

impl WrittenRow {
    fn row(&'static self) -> Row {
        let target = match (self.least, self.most) {
            (Some(least), _) => Target::AtLeast(least),
            (None, Some(most)) => Target::AtMost(most),
            (None, None) => Target::Reported,
        };
        let side = |[player, load, name]: &[String; 3]| {
            let flags = TABLE.loads.get(load).unwrap_or_else(|| panic!("the table has no load {load}"));
            Side { player: players::named(player), flags: &flags.0, server: server(name) }
        };
        Row { what: &self.what, figure: self.figure, target, a: side(&self.a), b: side(&self.b) }
    }
}

impl Row {
    /// The row as skipped, if this host cannot measure it.
    pub(super) fn skipped(&self) -> Option<Skipped> {
        let reason = [self.a, self.b].iter().find_map(Side::lacks)?;
        Some(Skipped { what: self.what, reason })
    }
}

impl Target {
    /// Whether a ratio or difference meets it; `None` if there is none.
    pub(super) fn is_met(self, found: f64) -> Option<bool> {
        match self {
            Self::AtLeast(least) => Some(found >= least),
            Self::AtMost(most) => Some(found <= most),
            Self::Reported => None,
        }
    }

    pub(super) fn words(self) -> String {
        match self {
            Self::AtLeast(least) => format!("≥ {least}"),
            Self::AtMost(most) => format!("≤ {most}"),
            Self::Reported => "reported".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn each_row_has_sides_that_are_named_and_each_name_is_used() {
        let rows: Vec<Row> = Name::value_variants().iter().flat_map(|name| table_rows(*name)).collect();
        let of_table: usize = TABLE.rows.values().map(Vec::len).sum();
        assert_eq!((rows.len(), of_table), (70, 70), "each table has a name");
        let sides = || rows.iter().flat_map(|row| [row.a, row.b]);
        for (name, flags) in &TABLE.loads {
            assert!(sides().any(|side| side.flags == flags.0), "{name}");
        }
        for (name, known) in &TABLE.servers {
            // Filled ones are measured by themselves.
            let is_filled = name.ends_with(", filled") || name.ends_with(", few");
            assert!(is_filled || sides().any(|side| std::ptr::eq(side.server, known)), "{name}");
        }
        assert!(TABLE.rows.values().flatten().all(|row| row.least.is_none() || row.most.is_none()));
    }
}

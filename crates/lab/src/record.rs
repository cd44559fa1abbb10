//! The study as it was run, in words that a person can read: `study.toml` in the folder of a run. The store is
//! what a resumed run reads.

use kqps_observation::{Cell, Run};
use serde::Serialize;

#[derive(Serialize)]
struct Study<'a> {
    name: &'a str,
    kqps: &'a str,
    command: String,
    goal: &'a str,
    blocks: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_s: Option<f64>,
    seed: u64,
    cells: &'a [Cell],
}

/// The text of `study.toml`.
pub(crate) fn of(run: &Run) -> String {
    let study = Study {
        name: &run.study,
        kqps: &run.kqps_version,
        command: run.command.join(" "),
        goal: &run.goal,
        blocks: run.blocks,
        budget_s: run.budget_s,
        seed: run.seed,
        cells: &run.cells,
    };
    let text =
        toml::to_string_pretty(&study).unwrap_or_else(|error| format!("# it cannot be written: {error}\n"));
    format!("# What this run measured. Resuming reads run.sqlite, not this file.\n{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_toml() {
        let run = Run { cells: vec![Cell { name: "nsd".into(), ..Cell::default() }], ..Run::default() };
        let table: toml::Table = of(&run).parse().unwrap();
        assert_eq!(table["cells"][0]["name"].as_str(), Some("nsd"));
    }
}

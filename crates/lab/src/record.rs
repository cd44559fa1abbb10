//! The text of `study.toml` in the folder of a run: the study as it was run, for a reader. A resumed run reads
//! the store instead.

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

/// Quotes words as a shell command.
fn typed(words: &[String]) -> String {
    // A zero byte is the only thing that cannot be quoted, and no word of a command line has one.
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_default()
}

pub(crate) fn study_text(run: &Run) -> String {
    let study = Study {
        name: &run.study,
        kqps: &run.kqps_version,
        command: typed(&run.command),
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
        let command = ["kqps", "run", "--command", "x -p {port}"].map(String::from).into();
        let cells = vec![Cell { name: "nsd".into(), ..Cell::default() }];
        let run = Run { cells, command, ..Run::default() };
        let table: toml::Table = study_text(&run).parse().unwrap();
        let typed = shlex::split(table["command"].as_str().unwrap());
        assert_eq!(typed, Some(run.command), "it can be typed again");
        assert_eq!(table["cells"][0]["name"].as_str(), Some("nsd"));
    }
}

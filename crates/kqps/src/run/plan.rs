//! `kqps run --dry-run`: prints the cells, the order of the blocks, and the duration.

use std::fmt::Write as _;

use kqps_lab::layout::LaidOut;
use kqps_lab::request::RunRequest;
use kqps_lab::study_file::StudyFile;
use kqps_lab::{canary, order};
use kqps_observation::run::Role;
use kqps_observation::visible::visible_line;
use kqps_observation::{Cell, CellLoad, cpu_list};
use kqps_testbed::words::counted;
use kqps_verdict::search::{Goal, Preset};
use schemars::JsonSchema;
use serde::Serialize;

use super::announce::about;
use super::left_out;
use super::words::{goal, wrapped};
use crate::print;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Plan<'a> {
    schema: u32,
    kind: &'static str,
    seed: u64,
    blocks: u32,
    goal: &'a str,
    estimate_s: f64,
    cells: &'a [Cell],
    skipped: &'a std::collections::BTreeMap<String, String>,
    /// For every block, the indices of its cells in order.
    order: Vec<Vec<usize>>,
}

/// The whole output, as text or as JSON.
pub(super) fn output(request: &RunRequest, laid_out: &LaidOut, json: bool) -> anyhow::Result<String> {
    let LaidOut { cells, skipped, spending, .. } = laid_out;
    let canary = cells.iter().position(|cell| cell.role == Role::Canary);
    let of_block = |block| {
        let order = order::of_block(request.seed, block, cells.len());
        let is_last = block + 1 == spending.blocks;
        canary.map_or_else(|| order.clone(), |canary| canary::played_order(&order, canary, is_last))
    };
    let order: Vec<Vec<usize>> = (0..spending.blocks).map(of_block).collect();
    if json {
        let plan = Plan {
            schema: kqps_observation::SCHEMA,
            kind: "plan",
            seed: request.seed,
            blocks: spending.blocks,
            goal: spending.goal,
            estimate_s: spending.estimate_s,
            cells,
            skipped,
            order,
        };
        return Ok(print::to_json(&plan)? + "\n");
    }
    Ok(in_words(request, laid_out, &order))
}

/// The question, the cells, what is left out, the order of each block, and the duration.
fn in_words(request: &RunRequest, laid_out: &LaidOut, order: &[Vec<usize>]) -> String {
    let LaidOut { cells, skipped, question, spending, .. } = laid_out;
    let mut text = String::new();
    if let Some(question) = question {
        text += &wrapped("", &question.title);
        text += &wrapped("", &question.question);
        text.push('\n');
    }
    for cell in cells {
        let _ = writeln!(text, "  {}: {}; {}", visible_line(&cell.name), load(cell), places(cell));
    }
    for line in left_out::all(skipped) {
        let _ = writeln!(text, "{}", visible_line(&line));
    }
    text.push('\n');
    for (block, of_block) in order.iter().enumerate() {
        let names: Vec<&str> = of_block.iter().map(|&cell| cells[cell].name.as_str()).collect();
        text += &wrapped(&format!("block {}: ", block + 1), &names.join(" · "));
    }
    if cells.iter().any(|cell| matches!((cell.role, &cell.load), (Role::Subject, CellLoad::Search)))
        && let Ok(preset) = spending.goal.parse::<Preset>()
    {
        let of_preset = preset.goal();
        let loss = request.study.as_ref().and_then(StudyFile::loss).unwrap_or(of_preset.loss);
        let _ = writeln!(text, "\nThe goal of a search is {}.", goal(&Goal { loss, ..of_preset }));
    }
    let _ = writeln!(
        text,
        "\n{}, {}, goal `{}`, seed {}: {}.",
        counted(cells.len() as u64, "cell"),
        counted(spending.blocks.into(), "block"),
        spending.goal,
        request.seed,
        about(spending.estimate_s, request.budget_s)
    );
    text
}

/// The places of a cell's two sides.
fn places(cell: &Cell) -> String {
    let player = cpus(&cell.player_cpus);
    match cell.target {
        Some(target) => {
            let host = if target.on_this_host { "this host" } else { "another host" };
            format!("running at {} on {host}, player on {player}", target.address)
        }
        None => format!("on {}, player on {player}", cpus(&cell.subject_cpus)),
    }
}

fn cpus(cpus: &[u32]) -> String {
    let list = cpu_list::write(cpus);
    if cpus.len() == 1 { format!("core {list}") } else { format!("cores {list}") }
}

fn load(cell: &Cell) -> String {
    match (cell.role, &cell.load) {
        (Role::PlayerCeiling | Role::EchoCeiling, _) => "ceiling".into(),
        (Role::Canary, _) => "canary".into(),
        (_, CellLoad::Search) => "search for the highest rate that meets the goal".into(),
        (_, CellLoad::Closed(seconds)) => format!("closed loop, {seconds} s"),
        (_, CellLoad::Rates { rates_qps, duration_s }) => {
            format!("{}, {duration_s} s each", counted(rates_qps.len() as u64, "rate"))
        }
    }
}

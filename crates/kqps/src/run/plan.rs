//! `kqps run --dry-run`: the cells, the order of the blocks, and how long it takes.

use std::fmt::Write as _;

use kqps_lab::layout::LaidOut;
use kqps_lab::session::Wish;
use kqps_lab::{canary, order};
use kqps_observation::run::Role;
use kqps_observation::{Cell, CellLoad};
use serde::Serialize;

use crate::print;

/// Cells of a block on a line, of which there may be hundreds.
const ON_A_LINE: usize = 20;

/// What `--json` prints.
#[derive(Serialize)]
struct Plan<'a> {
    schema: u32,
    kind: &'static str,
    seed: u64,
    blocks: u32,
    goal: &'a str,
    estimate_s: f64,
    cells: &'a [Cell],
    skipped: &'a std::collections::BTreeMap<String, String>,
    /// Of every block, indices of cells.
    order: Vec<Vec<usize>>,
}

/// Everything that is printed.
pub(super) fn of(wish: &Wish, laid_out: &LaidOut, json: bool) -> anyhow::Result<String> {
    let LaidOut { cells, skipped, spending, .. } = laid_out;
    let canary = cells.iter().position(|cell| cell.role == Role::Canary);
    let of_block = |block| {
        let order = order::of_block(wish.seed, block, cells.len());
        let is_last = block + 1 == spending.blocks;
        canary.map_or_else(|| order.clone(), |canary| canary::played_order(&order, canary, is_last))
    };
    let order: Vec<Vec<usize>> = (0..spending.blocks).map(of_block).collect();
    if json {
        let plan = Plan {
            schema: kqps_observation::SCHEMA,
            kind: "plan",
            seed: wish.seed,
            blocks: spending.blocks,
            goal: spending.goal,
            estimate_s: spending.estimate_s,
            cells,
            skipped,
            order,
        };
        return Ok(print::to_json(&plan)? + "\n");
    }
    let mut text = String::new();
    for (number, cell) in cells.iter().enumerate() {
        let on = cpus(&cell.subject_cpus);
        let player = cpus(&cell.player_cpus);
        let _ =
            writeln!(text, "{:>4}  {}: {}; on {on}, player on {player}", number + 1, cell.name, load(cell));
    }
    for (what, why) in skipped {
        let _ = writeln!(text, "Left out: {what}: {why}");
    }
    for (block, cells) in order.iter().enumerate() {
        let numbers: Vec<String> = cells.iter().map(|cell| (cell + 1).to_string()).collect();
        let lines: Vec<String> = numbers.chunks(ON_A_LINE).map(|some| some.join(" ")).collect();
        let _ = writeln!(text, "block {}: {}", block + 1, lines.join("\n    "));
    }
    let _ = writeln!(
        text,
        "{} cells, {} {}, seed {}: about {:.0} s.{}",
        cells.len(),
        spending.blocks,
        if spending.blocks == 1 { "block" } else { "blocks" },
        wish.seed,
        spending.estimate_s,
        if spending.over_budget { " That is more than the budget allows." } else { "" }
    );
    Ok(text)
}

fn cpus(cpus: &[u32]) -> String {
    let list = cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    if cpus.len() == 1 { format!("core {list}") } else { format!("cores {list}") }
}

fn load(cell: &Cell) -> String {
    match (cell.role, &cell.load) {
        (Role::PlayerCeiling | Role::EchoCeiling, _) => "ceiling".into(),
        (Role::Canary, _) => "canary".into(),
        (_, CellLoad::Search) => "rate search".into(),
        (_, CellLoad::Closed(seconds)) => format!("closed loop, {seconds} s"),
        (_, CellLoad::Rates { rates_qps, duration_s }) => {
            format!("{} rates, {duration_s} s each", rates_qps.len())
        }
    }
}

//! The report: one table for people, one JSON file for programs.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use comfy_table::Table;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use serde_json::{Value, json};

use super::Bench;
use super::block::{Block, Compared, Spread};
use super::figure::Figure;
use super::players::Player;
use super::precision::{Precision, SECOND_WITHIN, TENTH_WITHIN};
use super::rows::Skipped;
use super::side::{Measured, Side};
use super::single::Single;

const SCHEMA: u32 = 1;

/// CPU time of other programs, in cores. More than this is worth a note.
const FOREIGN_CORES: f64 = 0.05;

/// The cores of a name server that is asked for all that it can answer. With less it waits for the player or the path.
const BUSY_CORES: f64 = 0.8;

/// All that a run found.
pub(super) struct Measurements<'a> {
    pub(super) found: &'a [Compared],
    pub(super) precise: &'a [Precision],
    pub(super) singles: &'a [Single],
    pub(super) skipped: &'a [Skipped],
}

/// Prints a row for every comparison and every rate.
pub(super) fn print(measured: &Measurements<'_>) {
    let &Measurements { found: compared, precise, singles, skipped } = measured;
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header([
        "what",
        "median",
        "interval",
        "target",
        "",
        "A: kqps, CPU s/M player, server",
        "B: the same",
    ]);
    for one in compared {
        let found = one.found();
        table.add_row([
            what(one),
            format!("{:.3}", found.median),
            format!("{:.3} to {:.3}", found.low, found.high),
            one.row.target.words(),
            verdict(one.is_met()),
            figures(&all(one, |block| block.a)),
            figures(&all(one, |block| block.b)),
        ]);
    }
    for one in precise {
        for (bin, off, within) in
            [("1 s", one.second_off, SECOND_WITHIN), ("100 ms", one.tenth_off, TENTH_WITHIN)]
        {
            table.add_row([
                format!("{} at {} q/s: worst {bin} bin", one.over.words(), one.rate_qps),
                percent(off.median),
                format!("{} to {}", percent(off.low), percent(off.high)),
                format!("every ≤ {}", percent(within)),
                verdict(Some(off.high <= within)),
            ]);
        }
    }
    for one in singles {
        let words = |value| one.unit.words(value);
        table.add_row([
            one.what.clone(),
            words(one.found.median),
            format!("{} to {}", words(one.found.low), words(one.found.high)),
            one.target_words(),
            verdict(one.is_met()),
        ]);
    }
    println!("{table}");
    for player in players(compared) {
        println!("{} counts {}.", player.name, player.counts);
    }
    for one in compared {
        for (side, cores) in idle_servers(one) {
            println!(
                "{}: {} used {cores:.2} of its core: the player or the path was the limit there.",
                one.row.what,
                side.server.words()
            );
        }
    }
    for row in skipped {
        println!("skipped: {}: {}", row.what, row.reason);
    }
    let repeated: u32 = precise.iter().map(|one| one.repeated).sum();
    if !precise.is_empty() {
        println!("Trials of the open loop that were made again because the host was noisy: {repeated}.");
    }
    let each = compared.iter().flat_map(|one| &one.blocks).flat_map(|block| block.a.iter().chain(&block.b));
    let foreign: Vec<f64> = each.filter_map(|one| one.foreign_cores).collect();
    if foreign.iter().any(|&cores| cores > FOREIGN_CORES) {
        let foreign = Spread::from_values(foreign.into_iter());
        println!(
            "The host was busy: meanwhile other programs used {:.2} cores in the median, {:.2} at most.",
            foreign.median, foreign.high
        );
    }
}

/// The players of all rows, each once.
fn players(compared: &[Compared]) -> Vec<&'static Player> {
    let mut players: Vec<&Player> = Vec::new();
    for player in compared.iter().flat_map(|one| [one.row.a.player, one.row.b.player]) {
        if !players.iter().any(|known| std::ptr::eq(*known, player)) {
            players.push(player);
        }
    }
    players
}

/// The sides of a row about rates whose name server had time left, with the cores that it used.
fn idle_servers(one: &Compared) -> Vec<(Side, f64)> {
    let sides = [(one.row.a, all(one, |block| block.a)), (one.row.b, all(one, |block| block.b))];
    let of_side = |(side, measured): (Side, Vec<Measured>)| {
        let cores: Vec<f64> = measured.iter().filter_map(Measured::server_cores).collect();
        let is_asked_for_all = one.row.figure == Figure::AnsweredRate && side.server.data().is_some();
        if !is_asked_for_all || cores.is_empty() {
            return None;
        }
        let cores = Spread::from_values(cores.into_iter()).median;
        (cores < BUSY_CORES).then_some((side, cores))
    };
    sides.into_iter().filter_map(of_side).collect()
}

/// A row's words, with its load if it is lower than planned.
fn what(one: &Compared) -> String {
    match one.equal_qps {
        Some(qps) if one.row.figure.equal_qps() != Some(qps) => {
            format!("{}; at {} kqps, since one side does not carry more here", one.row.what, qps / 1000)
        }
        _ => one.row.what.to_owned(),
    }
}

pub(super) fn write(path: &Path, bench: &Bench<'_>, blocks: u32, measured: &Measurements<'_>) -> Result<()> {
    let rows: Vec<Value> = measured.found.iter().map(|one| row(bench, one)).collect();
    let open_loop: Vec<Value> =
        measured.precise.iter().map(|one| json!({"open_loop": one, "pass": one.is_met()})).collect();
    let record = json!({
        "schema": SCHEMA,
        "kind": "peers",
        "blocks": blocks,
        "seconds": bench.seconds,
        "player_cpu": bench.kqps.player_cpu,
        "server_cpu": bench.kqps.subject_cpu,
        "rows": rows,
        "open_loop": open_loop,
        "singles": measured.singles.iter().map(Single::record).collect::<Vec<_>>(),
        "skipped": measured.skipped,
    });
    fs::write(path, format!("{record:#}\n")).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("the figures are in {}", path.display());
    Ok(())
}

fn row(bench: &Bench<'_>, one: &Compared) -> Value {
    let side = |side: Side| {
        json!({
            "player": side.player.name,
            "counts": side.player.counts,
            "flags": side.flags(bench, one.equal_qps),
            "server": side.server.words(),
            "settings": side.server.settings(),
            "data": side.server.data().map(|data| format!("{data:?}")),
        })
    };
    let key = if one.row.figure.is_difference() { "difference_us" } else { "ratio" };
    json!({
        "what": one.row.what,
        "target": one.row.target.words(),
        "pass": one.is_met(),
        "equal_qps": one.equal_qps,
        (key): one.found(),
        "a": side(one.row.a),
        "b": side(one.row.b),
        "blocks": one.blocks,
    })
}

/// All measurements of one side.
fn all(one: &Compared, side: fn(&Block) -> [Measured; 2]) -> Vec<Measured> {
    one.blocks.iter().flat_map(side).collect()
}

/// Medians of a side: its rate in thousands a second, and CPU seconds of player and server per million. Those
/// of a front do not include the servers behind it.
fn figures(side: &[Measured]) -> String {
    let median = |figure: fn(&Measured) -> f64| Spread::from_values(side.iter().map(figure)).median;
    let servers_cpu_s: Vec<f64> = side.iter().filter_map(|one| one.server_cpu_s_per_million).collect();
    let servers_cpu_s = if servers_cpu_s.is_empty() {
        "not seen".to_owned()
    } else {
        format!("{:.2}", Spread::from_values(servers_cpu_s.into_iter()).median)
    };
    let kqps = median(|one| one.answered_qps) / 1000.0;
    let digits = usize::from(kqps < 10.0);
    format!("{kqps:.digits$}, {:.2}, {servers_cpu_s}", median(|one| one.player_cpu_s_per_million))
}

fn percent(share: f64) -> String {
    format!("{:.3} %", share * 100.0)
}

fn verdict(is_met: Option<bool>) -> String {
    match is_met {
        Some(true) => "pass",
        Some(false) => "short",
        None => "",
    }
    .to_owned()
}

//! The hosts of a run, and each player's part in one trial of every cell.

use kqps_observation::run::Role;
use kqps_observation::{HostRole, PlayerPart, Run, RunTrial, Trial};

use super::host;
use super::separation::Apart;
use crate::format;

/// The hosts of a run that names them.
#[derive(Debug)]
pub(crate) struct Hosts {
    pub(crate) rows: Vec<HostRow>,
    /// Where each player was, as the end of a sentence.
    pub(crate) place: &'static str,
    /// How far apart players began, over all trials; empty if no trial had several.
    pub(crate) skew: String,
    /// The players' parts in a trial of every cell that has one.
    pub(crate) parts: Vec<Parts>,
}

/// A host.
#[derive(Debug)]
pub(crate) struct HostRow {
    pub(crate) name: String,
    pub(crate) role: &'static str,
    pub(crate) address: String,
    /// Processor, number of cores, kernel.
    pub(crate) machine: String,
    pub(crate) kqps: String,
}

/// The players' parts in one trial.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) cell: String,
    /// The trial, and how far apart the players began.
    pub(crate) caption: String,
    pub(crate) rows: Vec<PartRow>,
}

/// The part of one player.
#[derive(Debug)]
pub(crate) struct PartRow {
    pub(crate) host: String,
    pub(crate) offered: String,
    pub(crate) answered: String,
    pub(crate) bad: String,
    pub(crate) p50: String,
    pub(crate) p99: String,
    pub(crate) late: String,
    /// How well its clock is known.
    pub(crate) clock: String,
}

/// The hosts of a run; `None` if all of it ran on one.
pub(crate) fn of_run(run: &Run) -> Option<Hosts> {
    if run.hosts.is_empty() {
        return None;
    }
    let rows = run.hosts.iter().map(|one| HostRow {
        name: one.name.clone(),
        role: match one.role {
            HostRole::Server => "server",
            HostRole::Player => "player",
        },
        address: one.address.to_string(),
        machine: host::line(&one.fingerprint),
        kqps: one.kqps.version.clone().unwrap_or_else(|| format::NONE.to_owned()),
    });
    Some(Hosts {
        rows: rows.collect(),
        place: Apart::of_run(run).place(),
        skew: skew(run),
        parts: parts(run),
    })
}

/// How far apart the players began at most.
fn skew(run: &Run) -> String {
    let measured = run.trials.iter().filter_map(RunTrial::measured);
    let most_us = measured.filter_map(|trial| trial.start_skew_us).reduce(f64::max);
    most_us.map_or(String::new(), |most_us| {
        format!(
            "In no trial did players begin more than {} apart, the uncertainty of their clocks included.",
            format::time_us(most_us)
        )
    })
}

/// The parts in the heaviest trial of every subject's cell, and of these the last.
fn parts(run: &Run) -> Vec<Parts> {
    let of_cell = |index: usize| {
        let played = run.trials_of(index).filter_map(|one| Some((one.number, one.measured()?)));
        let played = played.filter(|(_, trial)| !trial.parts.is_empty());
        let heaviest = played.max_by(|(_, a), (_, b)| a.load.offered_qps.total_cmp(&b.load.offered_qps));
        heaviest.map(|(number, trial)| of_trial(run.cells[index].name.clone(), number, trial))
    };
    let subjects = (0..run.cells.len()).filter(|index| run.cells[*index].role == Role::Subject);
    subjects.filter_map(of_cell).collect()
}

fn of_trial(cell: String, number: u64, trial: &Trial) -> Parts {
    let apart = trial.start_skew_us.map_or(String::new(), |skew_us| {
        format!("; the players began at most {} apart", format::time_us(skew_us))
    });
    let caption = format!("Trial {number}, at {}{apart}.", format::rate(trial.load.offered_qps));
    Parts { cell, caption, rows: trial.parts.iter().map(row).collect() }
}

fn row(part: &PlayerPart) -> PartRow {
    PartRow {
        host: part.host.clone(),
        offered: format::rate(part.offered_qps),
        answered: format::rate(part.answered_qps),
        bad: format::percent(part.accounts.bad_ratio()),
        p50: format::known_us(part.latency_us.p50),
        p99: format::percentile(part.latency_us.p99()),
        late: format::time_us(part.start.late_ns as f64 / 1e3),
        clock: format!("±\u{a0}{}", format::time_us(part.start.uncertainty_ns as f64 / 1e3)),
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::fingerprint::BinaryFacts;
    use kqps_observation::run::{Cell, Outcome, Purpose};
    use kqps_observation::{Accounts, Fingerprint, Quantiles, RunHost, StartFacts};

    use super::*;

    #[test]
    fn every_host_and_every_players_part_has_a_row() {
        let host = |name: &str, role, last| RunHost {
            name: name.into(),
            role,
            address: [192, 0, 2, last].into(),
            fingerprint: Fingerprint { cpu_model: "EPYC".into(), ..Fingerprint::default() },
            kqps: BinaryFacts { version: Some("0.1.0".into()), ..BinaryFacts::default() },
        };
        let part = |name: &str, correct| PlayerPart {
            host: name.into(),
            accounts: Accounts {
                intended: 100,
                sent: 100,
                correct,
                lost: 100 - correct,
                ..Accounts::default()
            },
            offered_qps: 100.0,
            answered_qps: correct as f64,
            latency_us: Quantiles { p50: Some(80), ..Quantiles::default() },
            start: StartFacts { late_ns: 20_000, uncertainty_ns: 40_000, ..StartFacts::default() },
            ..PlayerPart::default()
        };
        let trial = Trial {
            parts: vec![part("p1", 100), part("p2", 90)],
            start_skew_us: Some(120.0),
            ..Trial::default()
        };
        let outcome = Outcome::Measured(Box::new(trial));
        let run = Run {
            hosts: vec![host("ns1", HostRole::Server, 1), host("p1", HostRole::Player, 2)],
            cells: vec![Cell { name: "nsd".into(), ..Cell::default() }],
            trials: vec![RunTrial {
                number: 3,
                cell: 0,
                block: 0,
                start: 1,
                purpose: Purpose::Search,
                outcome,
            }],
            ..Run::default()
        };
        let plain = |text: &str| text.replace('\u{a0}', " ");
        let hosts = of_run(&run).unwrap();
        let roles: Vec<(&str, &str, &str)> =
            hosts.rows.iter().map(|row| (&*row.name, row.role, &*row.address)).collect();
        assert_eq!(roles, [("ns1", "server", "192.0.2.1"), ("p1", "player", "192.0.2.2")]);
        assert!(plain(&hosts.skew).contains("more than 120 µs apart"), "{}", hosts.skew);
        let parts = &hosts.parts[0];
        assert_eq!(plain(&parts.caption), "Trial 3, at 0 q/s; the players began at most 120 µs apart.");
        let second = &parts.rows[1];
        let figures = [&second.answered, &second.bad, &second.p50, &second.p99];
        assert_eq!(figures.map(|text| plain(text)), ["90 q/s", "10 %", "80 µs", "–"]);
        let begun = [&second.host, &second.late, &second.clock];
        assert_eq!(begun.map(|text| plain(text)), ["p2", "20 µs", "± 40 µs"]);
        assert!(of_run(&Run::default()).is_none(), "a run on one host has no such section");
    }
}

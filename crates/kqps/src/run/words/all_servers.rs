//! Sentences about all servers of a run together: what holds for each of them, and the advice.

use std::fmt::Write as _;
use std::path::Path;

use kqps_observation::{Run, RunTrial};
use kqps_verdict::advice::Action;
use kqps_verdict::advice::summary::of_subjects;
use kqps_verdict::caveats;
use kqps_verdict::interval::Interval;
use kqps_verdict::judge::{CellVerdict, RunVerdict};
use kqps_verdict::speed::{Spoiled, is_gauged};
use kqps_verdict::warning::Code;

use super::goal;
use crate::advice::{self, Reasons};

/// A line for a player and servers that shared one host; empty if they did not.
pub(super) fn one_host(subjects: &[CellVerdict]) -> String {
    let text = "One host ran both the player and the servers: compare these rates with each other only.\n";
    if is_one_host(subjects) { text.to_owned() } else { String::new() }
}

/// The goal, the starts, the hosts, and the trials that the host spoiled.
pub(super) fn holds(run: &Run, verdict: &RunVerdict) -> String {
    let subjects = verdict.subjects.as_slice();
    let is_searched = subjects.iter().flat_map(|subject| &subject.starts).any(|start| start.is_searched);
    let rows = [
        ("goal", is_searched.then(|| goal(&verdict.goal))),
        ("starts", starts(subjects)),
        ("hosts", hosts(run)),
        ("spoiled", spoiled(run, subjects)),
    ];
    let rows: Vec<_> = rows.iter().filter_map(|(label, value)| Some((label, value.as_ref()?))).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut text = String::from(if subjects.len() > 1 { "For all of them:\n" } else { "Beside that:\n" });
    for (label, value) in rows {
        text += &super::wrapped(&format!("  {label:<12} "), value);
    }
    text + "\n"
}

/// The number of starts behind the figures, and the coverage of their ranges.
fn starts(subjects: &[CellVerdict]) -> Option<String> {
    let figures: Vec<Interval> = subjects.iter().filter_map(|subject| subject.figure_qps).collect();
    let (first, last) =
        (figures.iter().map(|one| one.count).min()?, figures.iter().map(|one| one.count).max()?);
    let mut text = if first == last { first.to_string() } else { format!("{first} to {last}") };
    text += if subjects.len() > 1 { " of each server" } else { " of the server" };
    let covers = figures.iter().map(|one| one.coverage).reduce(f64::min)?;
    if covers > 0.0 {
        let _ = write!(text, "; its range covers the truth with {:.0} %", covers * 100.0);
    }
    Some(text)
}

/// Players up to this number are named.
const NAMED: usize = 4;

/// The hosts of the run and how far apart players began; `None` if all of it ran on one host.
fn hosts(run: &Run) -> Option<String> {
    let server = run.server_host()?;
    let names: Vec<&str> = run.player_hosts().map(|host| host.name.as_str()).collect();
    let players = match names.as_slice() {
        [one] => format!("player {one}"),
        few if few.len() <= NAMED => format!("players {}", few.join(", ")),
        many => format!("{} players", many.len()),
    };
    let skews_us = run.trials.iter().filter_map(RunTrial::measured).filter_map(|trial| trial.start_skew_us);
    let apart = skews_us.reduce(f64::max).map_or(String::new(), |most_us| {
        format!("; in no trial did they begin more than {:.2} ms apart", most_us / 1e3)
    });
    Some(format!("server {} at {}, {players}{apart}", server.name, server.address))
}

/// Whether player and server were on one host, for every server.
fn is_one_host(subjects: &[CellVerdict]) -> bool {
    let is_warned =
        |subject: &CellVerdict| subject.warnings.iter().any(|warning| warning.code == Code::SingleHost);
    !subjects.is_empty() && subjects.iter().all(is_warned)
}

/// The trials that the host spoiled; `None` if no speed was measured and none was spoiled.
fn spoiled(run: &Run, subjects: &[CellVerdict]) -> Option<String> {
    let is_seen = subjects.iter().any(|subject| is_gauged(run, subject.cell as usize));
    let spoiled: Spoiled = subjects.iter().map(|subject| subject.spoiled).sum();
    Some(match spoiled.reasons() {
        Some(reasons) => reasons,
        None if is_seen => format!("none of {} trials", spoiled.of),
        None => return None,
    })
}

/// The advice, and the command that prints all reasons of the run in this folder, unless `is_why` prints them
/// already.
pub(super) fn advice(run: &Run, verdict: &RunVerdict, folder: Option<&Path>, is_why: bool) -> String {
    let mut advised = of_subjects(&verdict.subjects);
    if is_one_host(&verdict.subjects) {
        advised.retain(|one| one.action != Action::SecondHost);
    }
    let caveats = caveats::of_run(run, verdict);
    let mut reasons = reasons_unprinted(verdict);
    reasons.extend(caveats.iter().map(|reason| (reason.as_str(), None)));
    let command = match folder {
        Some(folder) => format!("`kqps report {} --why`", folder.display()),
        None => "`kqps run --why`".to_owned(),
    };
    advice::text(&advised, verdict.subjects.len(), &reasons, Some(command.as_str()).filter(|_| !is_why))
}

/// The reasons that are not printed elsewhere. The first reason of a refused figure stands in its place, and
/// the shared host is reported for all servers at once.
fn reasons_unprinted(verdict: &RunVerdict) -> Reasons<'_> {
    let is_said = |action| action == Some(Action::SecondHost) && is_one_host(&verdict.subjects);
    let mut unprinted = Vec::new();
    for subject in &verdict.subjects {
        let actions = subject.advice.iter().map(|advice| advice.map(|advice| advice.action));
        let reasons = subject.reasons.iter().map(String::as_str).zip(actions);
        let in_place = usize::from(subject.grade.refuses());
        unprinted.extend(reasons.skip(in_place).filter(|(_, action)| !is_said(*action)));
    }
    unprinted
}

#[cfg(test)]
mod tests {
    use kqps_observation::fingerprint::BinaryFacts;
    use kqps_observation::run::{Outcome, Purpose};
    use kqps_observation::{Fingerprint, HostRole, RunHost, Trial};

    use super::*;

    #[test]
    fn a_run_over_several_hosts_says_which_and_how_far_apart_players_began() {
        let host = |name: &str, role| RunHost {
            name: name.into(),
            role,
            address: [192, 0, 2, 1].into(),
            fingerprint: Fingerprint::default(),
            kqps: BinaryFacts::default(),
        };
        let trial = Trial { start_skew_us: Some(123.4), ..Trial::default() };
        let outcome = Outcome::Measured(Box::new(trial));
        let mut run = Run {
            hosts: vec![host("ns1", HostRole::Server), host("p1", HostRole::Player)],
            trials: vec![RunTrial {
                number: 1,
                cell: 0,
                block: 0,
                start: 1,
                purpose: Purpose::Search,
                outcome,
            }],
            ..Run::default()
        };
        let apart = "; in no trial did they begin more than 0.12 ms apart";
        assert_eq!(hosts(&run), Some(format!("server ns1 at 192.0.2.1, player p1{apart}")));
        run.hosts.push(host("p2", HostRole::Player));
        assert_eq!(hosts(&run), Some(format!("server ns1 at 192.0.2.1, players p1, p2{apart}")));
        run.hosts.extend(["p3", "p4", "p5"].map(|name| host(name, HostRole::Player)));
        run.trials.clear();
        assert_eq!(hosts(&run).as_deref(), Some("server ns1 at 192.0.2.1, 5 players"));
        assert_eq!(hosts(&Run::default()), None);
    }
}

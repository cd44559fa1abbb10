//! The time of a packet and of an answer in the trials of a run.

use std::path::Path;

use kqps_observation::run::{Purpose, Role};
use kqps_observation::{Cell, Run, Trial};

use crate::exit::bad_input;
use crate::stored;

/// Trials that answered less than this share of the best are left out: at low load a packet takes longer, since few
/// are handled at once.
const LOADED: f64 = 0.5;

/// The costs of a server, as a run shows them.
pub(super) struct Measured {
    /// Seconds of softirq for a packet.
    pub(super) softirq_s_per_packet: f64,
    /// Seconds of the server's CPU for an answer.
    pub(super) server_s_per_answer: f64,
    /// How many trials show it.
    trials: usize,
    /// Whether player and server were on one host.
    on_one_host: bool,
}

impl Measured {
    /// Where the figures come from, and what they lack.
    pub(super) fn notes(&self) -> Vec<String> {
        let us = |seconds: f64| seconds * 1e6;
        let mut notes = vec![format!(
            "A packet took {:.2} µs of softirq and an answer {:.2} µs of the server, the medians of {} trials.",
            us(self.softirq_s_per_packet),
            us(self.server_s_per_answer),
            self.trials
        )];
        if self.on_one_host {
            notes.push(
                "Player and server were on one host in that run. Packets of a network device take longer than those: \
                 measure with a player on another host (kqps run --hosts)."
                    .into(),
            );
        }
        notes
    }
}

/// Reads the run in a folder, and the trials of the subject that is named, or of the only one.
pub(super) fn read(folder: &Path, subject: Option<&str>) -> anyhow::Result<Measured> {
    let run = stored::run_in(folder)?;
    let cells = cells_of(&run, subject)?;
    medians(&run, &cells).ok_or_else(|| {
        bad_input(format!(
            "{}: no trial shows the time of a packet and of an answer. Both are known if kqps watched the server, and \
             if its host counts the time of softirqs",
            folder.display()
        ))
    })
}

/// The subject's cells, by number.
fn cells_of(run: &Run, subject: Option<&str>) -> anyhow::Result<Vec<usize>> {
    let of_subjects = run.cells.iter().enumerate().filter(|(_, cell)| cell.role == Role::Subject);
    let of_subjects: Vec<(usize, &Cell)> = of_subjects.collect();
    let mut names: Vec<&str> = of_subjects.iter().map(|(_, cell)| cell.subject.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let Some(subject) = subject else {
        return match names[..] {
            [] => Err(bad_input("the run has no subject")),
            [_] => Ok(of_subjects.iter().map(|(number, _)| *number).collect()),
            _ => Err(bad_input(format!(
                "the run has several subjects; name one: --for {}",
                names.join(" or ")
            ))),
        };
    };
    let numbers = |is_it: &dyn Fn(&Cell) -> bool| -> Vec<usize> {
        of_subjects.iter().filter(|(_, cell)| is_it(cell)).map(|(number, _)| *number).collect()
    };
    // The cell of exactly these words, or else all cells of the subject.
    let mut found = numbers(&|cell| cell.name == subject);
    if found.is_empty() {
        let first = subject.split_whitespace().next();
        found = numbers(&|cell| Some(cell.subject.as_str()) == first);
    }
    if found.is_empty() {
        return Err(bad_input(format!("the run has no subject `{subject}` (it has {})", names.join(", "))));
    }
    Ok(found)
}

/// The medians of the loaded trials; `None` if no trial shows both figures.
fn medians(run: &Run, cells: &[usize]) -> Option<Measured> {
    let trials = run.trials.iter().filter(|one| cells.contains(&(one.cell as usize)));
    let trials = trials.filter(|one| !one.purpose.is_extra() && one.purpose != Purpose::WarmUp);
    let trials = trials.filter_map(|one| Some((&run.cells[one.cell as usize], one.measured()?)));
    let seen: Vec<(f64, Costs)> = trials
        .filter(|(_, trial)| !trial.disturbed && !trial.interrupted)
        .filter_map(|(cell, trial)| Some((trial.load.answered_qps, costs(cell, trial)?)))
        .collect();
    let best_qps = seen.iter().map(|(qps, _)| *qps).fold(0.0, f64::max);
    let loaded: Vec<Costs> =
        seen.into_iter().filter(|(qps, _)| *qps >= LOADED * best_qps).map(|(_, costs)| costs).collect();
    Some(Measured {
        softirq_s_per_packet: median(loaded.iter().map(|costs| costs.softirq_s))?,
        server_s_per_answer: median(loaded.iter().map(|costs| costs.server_s))?,
        trials: loaded.len(),
        on_one_host: loaded.iter().any(|costs| costs.on_one_host),
    })
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Costs {
    softirq_s: f64,
    server_s: f64,
    on_one_host: bool,
}

/// The costs in one trial. `None` if the server or its host was not watched, or if the kernel counts no softirq time.
fn costs(cell: &Cell, trial: &Trial) -> Option<Costs> {
    let several = trial.hosts.others.last();
    let on_one_host = several.is_none();
    if on_one_host && cell.is_elsewhere() {
        return None;
    }
    // The server's host stands last.
    let host = several.unwrap_or(&trial.hosts.first);
    let subject = trial.subject.as_ref().filter(|subject| subject.was_seen())?;
    let accounts = &trial.accounts;
    let answers = accounts.correct + accounts.wrong + accounts.late;
    // On one host the replies are received by softirqs, too.
    let packets = accounts.sent + if on_one_host { answers } else { 0 };
    let shares: f64 = host.cpus.iter().map(|cpu| cpu.irq + cpu.softirq).sum();
    let softirq_s = shares * host.wall_s / packets as f64;
    let server_s = (subject.cpu_user_s + subject.cpu_system_s) / answers as f64;
    let is_known = |cost: f64| cost.is_finite() && cost > 0.0;
    (is_known(softirq_s) && is_known(server_s)).then_some(Costs { softirq_s, server_s, on_one_host })
}

fn median(figures: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_observation::host::{CpuFacts, HostFacts};
    use kqps_observation::non_empty::NonEmpty;
    use kqps_observation::run::Outcome;
    use kqps_observation::subject::SubjectFacts;
    use kqps_observation::{Accounts, RunTrial};

    /// A second in which 100,000 queries were answered. One core spent a fifth of it in softirqs, and the server
    /// 0.3 s.
    fn trial(answers: u64) -> Trial {
        let subject =
            SubjectFacts { alive: true, cpu_user_s: 0.1, cpu_system_s: 0.2, ..SubjectFacts::default() };
        let cpu = CpuFacts { softirq: 0.2, ..CpuFacts::default() };
        let host = HostFacts { wall_s: 1.0, cpus: vec![cpu], ..HostFacts::default() };
        let mut trial = Trial { subject: Some(subject), hosts: NonEmpty::one(host), ..Trial::default() };
        trial.accounts = Accounts { sent: answers, correct: answers, ..Accounts::default() };
        trial.load.answered_qps = answers as f64;
        trial
    }

    fn run(trials: Vec<(u32, Trial)>) -> Run {
        let cell = |name: &str, subject: &str| Cell {
            name: name.into(),
            subject: subject.into(),
            ..Cell::default()
        };
        let trials = (1..).zip(trials).map(|(number, (cell, trial))| RunTrial {
            number,
            cell,
            block: 0,
            start: 1,
            purpose: Purpose::Search,
            outcome: Outcome::Measured(Box::new(trial)),
        });
        let cells = vec![cell("nsd", "nsd"), cell("knot workers=2", "knot"), cell("knot", "knot")];
        Run { cells, trials: trials.collect(), ..Run::default() }
    }

    fn in_us(seconds: f64) -> u64 {
        (seconds * 1e7).round() as u64
    }

    #[test]
    fn a_trial_shows_the_time_of_a_packet_and_of_an_answer() {
        let (cell, alone) = (Cell::default(), trial(100_000));
        let here = costs(&cell, &alone).unwrap();
        // 0.2 s for 200,000 packets, and 0.3 s for 100,000 answers, in tenths of a microsecond.
        assert_eq!((in_us(here.softirq_s), in_us(here.server_s), here.on_one_host), (10, 30, true));
        let mut apart = alone.clone();
        apart.hosts.others = vec![alone.hosts.first.clone()];
        let there = costs(&cell, &apart).unwrap();
        assert_eq!((in_us(there.softirq_s), there.on_one_host), (20, false));
        let unseen = Trial { subject: None, ..alone };
        assert_eq!(costs(&cell, &unseen), None);
        assert_eq!(costs(&cell, &trial(0)), None);
    }

    #[test]
    fn loaded_trials_count_and_the_subject_is_named_if_there_are_several() {
        let run = run(vec![(0, trial(100_000)), (0, trial(100_000)), (0, trial(10_000)), (2, trial(50_000))]);
        let measured = medians(&run, &[0]).unwrap();
        assert_eq!((in_us(measured.server_s_per_answer), measured.trials), (30, 2));
        assert!(medians(&run, &[1]).is_none());
        let mut profiled = run.clone();
        profiled.trials[1].purpose = Purpose::Profile { sampled: false };
        assert_eq!(medians(&profiled, &[0]).unwrap().trials, 1, "trials of a profile are in no figure");
        assert_eq!(cells_of(&run, Some("knot")).unwrap(), [2]);
        assert_eq!(cells_of(&run, Some("knot workers=2")).unwrap(), [1]);
        assert_eq!(cells_of(&run, Some("knot workers=9")).unwrap(), [1, 2]);
        let error = |subject| cells_of(&run, subject).unwrap_err().to_string();
        assert_eq!(error(None), "the run has several subjects; name one: --for knot or nsd");
        assert_eq!(error(Some("bind")), "the run has no subject `bind` (it has knot, nsd)");
    }
}

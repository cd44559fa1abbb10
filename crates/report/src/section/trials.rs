//! The trials behind every figure: a table per cell, the failed trials with the subject's last output.

use std::collections::{BTreeMap, BTreeSet};

use kqps_observation::run::{Outcome, Purpose, Role};
use kqps_observation::trial::{LoadMode, PlayerFacts};
use kqps_observation::{Cell, ConnectionFacts, Replay, Run, RunTrial, Trial};
use kqps_verdict::judge::RunVerdict;
use kqps_verdict::warning::{self, Code, Surroundings};

use crate::format;

#[derive(Debug)]
pub(crate) struct OfCell {
    /// Index of the cell in the run.
    pub(crate) cell: usize,
    pub(crate) name: String,
    /// The cell and its number of trials.
    pub(crate) summary: String,
    pub(crate) factors: String,
    /// The trials behind the figure, and the others, each with what they are. Parts without a trial are left out.
    pub(crate) parts: Vec<Part>,
}

/// Trials of a cell that belong together.
#[derive(Debug)]
pub(crate) struct Part {
    /// The title that tells them from the others; empty if all trials of the cell are in one part.
    pub(crate) title: &'static str,
    pub(crate) rows: Vec<Row>,
}

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) number: u64,
    /// Counted from 1, unlike in the record.
    pub(crate) block: u32,
    pub(crate) start: u64,
    pub(crate) purpose: &'static str,
    pub(crate) outcome: ShownOutcome,
}

/// The result of a trial.
#[derive(Debug)]
pub(crate) enum ShownOutcome {
    Measured(Box<Measured>),
    Failed { reason: String, output: String },
}

#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) load: String,
    pub(crate) answered: String,
    pub(crate) duration: String,
    pub(crate) bad: String,
    pub(crate) p50: String,
    pub(crate) p99: String,
    pub(crate) notes: String,
}

/// An entry per cell that has trials, in the order of the run's cells.
pub(crate) fn of_run(run: &Run, verdict: &RunVerdict) -> Vec<OfCell> {
    let behind = behind(verdict);
    let of_cell = |(index, cell): (usize, &Cell)| {
        let trials: Vec<&RunTrial> = run.trials.iter().filter(|trial| trial.cell as usize == index).collect();
        let (counting, others): (Vec<&RunTrial>, Vec<&RunTrial>) =
            trials.iter().copied().partition(|trial| behind.contains(&trial.number));
        let parts = match (counting.as_slice(), others.as_slice()) {
            ([], others) => vec![("", others)],
            (counting, []) => vec![("All of them count", counting)],
            (counting, others) => {
                vec![("Those that count", counting), ("Others: warm-ups, further loads, what failed", others)]
            }
        };
        let part = |(title, trials): (&'static str, &[&RunTrial])| Part {
            title,
            rows: trials.iter().map(|trial| row(cell, trial)).collect(),
        };
        let parts = parts.into_iter().map(part).collect();
        let (name, summary, factors) = (cell.name.clone(), summary(cell, &trials), factors(cell));
        (!trials.is_empty()).then_some(OfCell { cell: index, name, summary, factors, parts })
    };
    run.cells.iter().enumerate().filter_map(of_cell).collect()
}

/// The numbers of the trials behind the figures of all cells.
pub(crate) fn behind(verdict: &RunVerdict) -> BTreeSet<u64> {
    let ceilings = &verdict.ceilings;
    let echoes = ceilings.players.iter().chain(&ceilings.echoes).flat_map(|echo| &echo.trials);
    let subjects = verdict.subjects.iter().flat_map(|subject| &subject.trials);
    echoes.chain(subjects).copied().collect()
}

fn summary(cell: &Cell, trials: &[&RunTrial]) -> String {
    let mut starts: Vec<u64> = trials.iter().map(|trial| trial.start).collect();
    starts.sort_unstable();
    starts.dedup();
    let failed = trials.iter().filter(|trial| trial.measured().is_none()).count();
    let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    let (trials, starts) = (format::counted(trials.len(), "trial"), format::counted(starts.len(), "start"));
    format!("{}, {trials} in {starts}{failed}", super::role(cell.role))
}

fn factors(cell: &Cell) -> String {
    let mut list = match &cell.target {
        Some(target) => {
            let host = if target.on_this_host { "this host" } else { "another host" };
            vec![format!("running at {} on {host}", target.address)]
        }
        None => vec![
            format!("I/O {}", cell.io),
            match cell.workers {
                0 => "workers unknown".to_owned(),
                workers => format::counted(workers as usize, "worker"),
            },
            format!("subject on {}", format::cpus(&cell.subject_cpus)),
        ],
    };
    list.push(format!("player on {}", format::cpus(&cell.player_cpus)));
    list.extend(
        cell.factors.words().iter().map(|(name, value)| format!("{} {value}", name.replace('_', " "))),
    );
    list.join(" · ")
}

fn row(cell: &Cell, trial: &RunTrial) -> Row {
    Row {
        number: trial.number,
        block: trial.block + 1,
        start: trial.start,
        purpose: trial.purpose.word(),
        outcome: match &trial.outcome {
            Outcome::Measured(measured) => {
                ShownOutcome::Measured(Box::new(figures(cell, measured, trial.purpose)))
            }
            Outcome::Failed { reason, output } => {
                ShownOutcome::Failed { reason: reason.clone(), output: output.join("\n") }
            }
        },
    }
}

/// Further notes on a trial; may be empty.
pub(crate) fn notes(cell: &Cell, trial: &Trial, purpose: Purpose) -> String {
    let mut notes = Vec::new();
    if let Purpose::Reasons { of } = purpose {
        let disturbed = if trial.disturbed { ", disturbed" } else { "" };
        notes.push(format!("repeats trial {of}{disturbed}; in no figure"));
    }
    if let Purpose::Profile { sampled } = purpose {
        notes.push(if sampled { "sampled; in no figure" } else { "in no figure" }.to_owned());
    }
    if purpose == Purpose::Residence {
        notes.push("packets stamped; in no figure".to_owned());
    }
    if trial.interrupted {
        notes.push("interrupted".to_owned());
    }
    notes.extend(warned(cell, trial));
    notes.extend(trial.replay.as_ref().map(replayed));
    notes.extend(trial.connections.as_ref().and_then(broken));
    notes.extend(dropped(trial));
    notes.extend(begun(trial));
    notes.extend(players_notes(trial));
    notes.join("; ")
}

fn figures(cell: &Cell, trial: &Trial, purpose: Purpose) -> Measured {
    Measured {
        load: load(trial),
        answered: format::rate(trial.load.answered_qps),
        duration: format::duration_s(trial.load.duration_s),
        bad: format::percent(trial.accounts.bad_ratio()),
        p50: format::known_us(trial.latency_us.p50),
        p99: format::percentile(trial.latency_us.p99()),
        notes: notes(cell, trial, purpose),
    }
}

/// How far apart several players began.
fn begun(trial: &Trial) -> Option<String> {
    trial.start_skew_us.map(|skew_us| format!("players began at most {} apart", format::time_us(skew_us)))
}

/// The notes of all players; of several, each with its host.
fn players_notes(trial: &Trial) -> Vec<String> {
    let hosts = trial.parts.iter().map(|part| Some(&part.host)).chain(std::iter::repeat(None));
    let with_host = |(player, host): (&PlayerFacts, Option<&String>)| -> Vec<String> {
        let note = |note: &String| host.map_or_else(|| note.clone(), |host| format!("{host}: {note}"));
        player.notes.iter().map(note).collect()
    };
    trial.players.iter().zip(hosts).flat_map(with_host).collect()
}

/// The clients of a replayed capture, and the number of its queries that were not played.
fn replayed(replay: &Replay) -> String {
    let clients = format::counted(replay.clients as usize, "client");
    let not_played: u64 = replay.not_played.values().sum();
    let not_played = match not_played {
        0 => String::new(),
        count => format!(", {} queries not played", format::count(count)),
    };
    let sharing = match replay.clients_sharing {
        0 => String::new(),
        count => format!(", {} of them share an address and port", format::count(count)),
    };
    format!("capture of {clients}{sharing}{not_played}")
}

/// The connections that failed, or that the server ended before the player did, by cause; `None` if all went well.
fn broken(connections: &ConnectionFacts) -> Option<String> {
    let by_cause = |counts: &BTreeMap<String, u64>, is_shown: fn(&str) -> bool| {
        let shown = counts.iter().filter(|(cause, count)| is_shown(cause) && **count > 0);
        shown
            .map(|(cause, count)| format!("{cause}: {}", format::count(*count)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let again = match connections.connections_with_retransmitted_syn {
        0 => String::new(),
        count => format::count(count),
    };
    let kinds = [
        ("connections asked for again (SYN)", again),
        ("connections failed", by_cause(&connections.failed, |_| true)),
        ("connections ended by the server", by_cause(&connections.closed, |cause| cause != "player")),
    ];
    let parts = kinds.iter().filter(|(_, causes)| !causes.is_empty());
    let parts: Vec<String> = parts.map(|(what, causes)| format!("{what} ({causes})")).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Handshakes that the kernel on the subject's side dropped, and segments that were sent again for them; `None` if
/// there are none.
fn dropped(trial: &Trial) -> Option<String> {
    trial.connections.as_ref()?;
    let tcp = trial.subject_network()?.tcp?;
    let counts = [
        ("listen queue overflows", tcp.listen_overflows),
        ("requests dropped for unfinished handshakes", tcp.request_drops),
        ("SYN cookies", tcp.syn_cookies_sent),
        ("segments of handshakes sent again", tcp.syn_retransmitted),
    ];
    let found = counts.iter().filter(|(_, count)| *count > 0);
    let parts: Vec<String> =
        found.map(|(what, count)| format!("{what}: {}", format::count(*count))).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The names of a trial's own warnings. The warning about a single host is left out, since the answer has it
/// once.
fn warned(cell: &Cell, trial: &Trial) -> Vec<String> {
    let surroundings = Surroundings { ceiling: cell.role != Role::Subject, ..Surroundings::from_cell(cell) };
    let warnings = warning::of_trial(trial, &surroundings);
    let shown = warnings.iter().filter(|warning| warning.code != Code::SingleHost);
    shown.map(|warning| warning.code.to_string()).collect()
}

/// The load of the trial: the rate of a schedule, or the window of a closed loop, with its highest rate if it has one.
fn load(trial: &Trial) -> String {
    let load = &trial.load;
    match (load.mode, load.intended_qps, load.outstanding) {
        (LoadMode::Closed, Some(rate), Some(window)) => {
            format!("window {}, at most {}", format::count(window), format::rate(rate))
        }
        (_, Some(rate), _) => format::rate(rate),
        (_, None, Some(window)) => format!("window {}", format::count(window)),
        (_, None, None) => format::rate(load.offered_qps),
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::PlayerPart;
    use kqps_observation::network::TcpFacts;

    use super::*;

    #[test]
    fn a_replay_is_noted_with_what_was_not_played() {
        let replay = Replay { clients: 12, clients_sharing: 3, ..Replay::default() };
        assert_eq!(replayed(&replay), "capture of 12 clients, 3 of them share an address and port");
        let replay = Replay { not_played: [("tls".to_owned(), 7)].into(), clients: 1, ..Replay::default() };
        assert_eq!(replayed(&replay), "capture of 1 client, 7 queries not played");
    }

    #[test]
    fn the_notes_of_several_players_name_their_hosts() {
        let mut trial = Trial::default();
        trial.players.first.notes = vec!["fell back".into()];
        assert_eq!(players_notes(&trial), ["fell back"]);
        trial.players.others = vec![PlayerFacts { notes: vec!["was slow".into()], ..PlayerFacts::default() }];
        trial.parts =
            ["p1", "p2"].map(|host| PlayerPart { host: host.into(), ..PlayerPart::default() }).into();
        trial.start_skew_us = Some(90.0);
        assert_eq!(players_notes(&trial), ["p1: fell back", "p2: was slow"]);
        assert_eq!(begun(&trial).unwrap().replace('\u{a0}', " "), "players began at most 90 µs apart");
    }

    #[test]
    fn connections_that_failed_or_were_ended_are_noted() {
        let counts =
            |pairs: &[(&str, u64)]| pairs.iter().map(|(cause, count)| ((*cause).into(), *count)).collect();
        let mut trial = Trial::default();
        let notes = |trial: &Trial| notes(&Cell::default(), trial, Purpose::Search);
        let silent = notes(&trial);
        let well = ConnectionFacts { closed: counts(&[("player", 9)]), ..ConnectionFacts::default() };
        trial.connections = Some(well.clone());
        assert_eq!(notes(&trial), silent, "the player may close what it opened");
        trial.connections = Some(ConnectionFacts {
            failed: counts(&[("connect-timeout", 2), ("refused", 1), ("reset", 0)]),
            closed: counts(&[("closed", 3), ("player", 9)]),
            ..well
        });
        let said = notes(&trial);
        let expected = "connections failed (connect-timeout: 2, refused: 1), connections ended by the server (closed: 3)";
        assert!(said.ends_with(expected), "{said}");
        trial.target = "127.0.0.1:53".into();
        let tcp = TcpFacts { listen_overflows: 5, syn_retransmitted: 7, ..TcpFacts::default() };
        trial.hosts.first.network.tcp = Some(tcp);
        let said = notes(&trial);
        let expected = "(closed: 3); listen queue overflows: 5, segments of handshakes sent again: 7";
        assert!(said.ends_with(expected), "{said}");
    }
}

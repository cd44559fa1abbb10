//! Objections to a comparison with a cell, from its trials. A refusal rules out a verdict, because the ratios are not
//! those of the subjects. A doubt is only reported. Every warning of the cell becomes one of the two, once.

use kqps_observation::run::{Role, RunTrial};
use kqps_observation::{Cell, Run, Trial};

use super::trials::{figure_trials, is_compared};
use super::{Case, Figure};
use crate::disturbed::rounds_with;
use crate::evidence::is_spoiled;
use crate::judge::{CellVerdict, judge_cell_of};
use crate::lack::SATURATED;
use crate::narrow::narrow;
use crate::warning::{BUSY, Code, Effect, Warning, busiest_player, busiest_thread};

/// If the player was busy in more than this share of a cell's trials, the player was what they measured.
const OFTEN: f64 = 0.5;

/// The doubt about a side that the comparison did not start.
const RAN_BEFORE: &str = "a server that already ran was not started for this: its starts are sessions with one process, and \
     neither the interval nor the MDE covers how restarts differ";

/// The way out if the player was the limit. kqps cannot change the configuration of a server that already ran.
fn way_out(cell: &Cell, name: &str) -> String {
    match cell.target {
        Some(_) => "Give the player more threads (--senders)".to_owned(),
        None => format!("Give the player more cores, or {name} fewer workers or more work"),
    }
}

/// Why a comparison cannot be made, and the doubts about it; each a sentence without its full stop.
#[derive(Debug, Default)]
pub(super) struct Objections {
    pub(super) refusals: Vec<String>,
    pub(super) doubts: Vec<String>,
}

impl Objections {
    /// The objections to comparing a cell's figure. `name` is the cell's name in the sentences.
    pub(super) fn to((run, cell): (&Run, usize), figure: Figure, name: &str) -> Self {
        let verdict = judge_cell_of(run, cell);
        let mut objections = match figure {
            Figure::ReliableRate => Self::to_search(&verdict, name),
            Figure::AnsweredRate | Figure::CpuPerAnswer | Figure::P99Latency => {
                Self::to_given(run, cell, &verdict, name)
            }
        };
        if run.cells[cell].target.is_some() {
            objections.doubts.push(RAN_BEFORE.into());
        }
        let name_in_run = &run.cells[cell].name;
        if let Some(why) = run.skipped.get(&rounds_with(name_in_run)) {
            objections
                .doubts
                .push(format!("{name_in_run} was not measured side by side with the others: {why}"));
        }
        let failures: Vec<&str> = run.trials_of(cell).filter_map(RunTrial::failure).collect();
        if let Some(first) = failures.first() {
            let failed = failures.len();
            objections.doubts.push(format!("{failed} of the starts of {name} failed, the first: {first}"));
        }
        objections
    }

    /// Inserts the objections among the doubts of a case, refusals first.
    pub(super) fn join(self, case: &mut Case) {
        let refusals = case.refusals as usize;
        case.refusals += narrow(self.refusals.len());
        case.doubts.splice(refusals..refusals, self.refusals);
        case.doubts.extend(self.doubts);
    }

    /// A search names its own bottleneck, and has a grade.
    fn to_search(verdict: &CellVerdict, name: &str) -> Self {
        let mut objections = Self::default();
        let is_players = verdict.bottleneck.resource.is_of_player();
        if is_players {
            objections.refusals.push(format!(
                "the searches of {name} were ended by {}, and not by {name}",
                verdict.bottleneck
            ));
        }
        let is_covered =
            |warning: &Warning| warning.code == Code::PlayerLimited && is_players && !refuses(warning);
        objections.add(&verdict.warnings, is_covered, name);
        objections
    }

    /// Adds the warnings of a cell that no other objection covers. A warning that refuses the cell's figure
    /// rules out a verdict; any other is a doubt. The warning that both sides ran on one host is left out,
    /// since such a figure is good for comparisons.
    fn add(&mut self, warnings: &[Warning], is_covered: impl Fn(&Warning) -> bool, name: &str) {
        for warning in warnings.iter().filter(|one| one.code != Code::SingleHost && !is_covered(one)) {
            let (of_what, to) = if refuses(warning) {
                ("no figure", &mut self.refusals)
            } else {
                ("a doubtful figure", &mut self.doubts)
            };
            let advice = warning.advice.trim_end_matches('.');
            to.push(format!("{name} has {of_what}, {}: {advice}", warning.code));
        }
    }

    /// The objections to a closed loop or to fixed rates, from the trials behind the figures.
    fn to_given(run: &Run, cell: usize, verdict: &CellVerdict, name: &str) -> Self {
        let Self { mut refusals, mut doubts } = Self::default();
        let starts: Vec<Vec<&Trial>> = figure_trials(run, cell).into_values().collect();
        let trials: Vec<&Trial> = starts.concat();
        let often = |is_so: fn(&Trial) -> bool| {
            let count = trials.iter().filter(|trial| is_so(trial)).count();
            (count as f64 > trials.len() as f64 * OFTEN).then_some((count, trials.len()))
        };
        // A ceiling (a) measures the player itself.
        let is_player = run.cells[cell].role == Role::PlayerCeiling;
        let (busy, full) = (often(is_players_limit), often(is_cores_limit));
        if !is_player {
            if let Some((busy, all)) = busy {
                refusals.push(format!(
                    "the player was the limit in {busy} of {all} trials of {name}: it was busy all the time and {name} \
                     was not, so a difference would not show. {}",
                    way_out(&run.cells[cell], name)
                ));
            } else if let Some((full, all)) = full {
                doubts.push(format!(
                    "the player's core was full in {full} of {all} trials of {name} while {name} was less busy: \
                     other programs on that core hide differences"
                ));
            }
        }
        let wrong = run.trials_of(cell).filter(|one| is_compared(one.purpose)).filter_map(RunTrial::measured);
        let wrong = wrong.map(|trial| trial.accounts.wrong).sum::<u64>();
        if wrong > 0 {
            refusals
                .push(format!("{name} gave {wrong} wrong answers: a server with wrong answers has no rate"));
        }
        let spoiled = starts.iter().filter(|trials| trials.iter().all(|trial| is_spoiled(trial))).count();
        if spoiled > 0 {
            refusals.push(format!(
                "the player spoiled {spoiled} of {} starts of {name} each time they were tried: it lagged, or its own \
                 sockets dropped replies",
                starts.len()
            ));
        }
        let is_covered = |warning: &Warning| match warning.code {
            Code::PlayerLimited => is_player || ((busy.is_some() || full.is_some()) && !refuses(warning)),
            Code::WrongAnswers => wrong > 0,
            // Trials that the player spoiled are left out if a start has others; if not, the refusal above
            // names them. And these loads are no search for the greatest one.
            Code::Lagging
            | Code::ClientDrops
            | Code::SendFailed
            | Code::LatePlayer
            | Code::SkewedStart
            | Code::ClockStep
            | Code::Irregular => true,
            _ => false,
        };
        let mut objections = Self { refusals, doubts };
        objections.add(&verdict.warnings, is_covered, name);
        objections
    }
}

/// Whether a warning refuses the figure of its cell.
fn refuses(warning: &Warning) -> bool {
    matches!(warning.effect(), Effect::Refuse | Effect::RedoThenRefuse)
}

/// Whether the player's busiest thread was at its limit and no thread of the subject was.
fn is_players_limit(trial: &Trial) -> bool {
    has_rest(trial) && busiest_player(trial).is_some_and(|player| player >= BUSY)
}

/// Whether the player's core was full, perhaps with work of other programs, while the subject was not at its
/// limit.
fn is_cores_limit(trial: &Trial) -> bool {
    has_rest(trial) && busiest_thread(trial).is_some_and(|core| core >= BUSY)
}

/// Whether no thread of the subject was at its limit, as far as is known.
fn has_rest(trial: &Trial) -> bool {
    trial.subject.iter().flat_map(|subject| &subject.threads).all(|thread| thread.busy < SATURATED)
}

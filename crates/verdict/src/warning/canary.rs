//! The canary: the echo at a fixed rate, every few cells of a run. Any server could answer this rate, so
//! nothing about the canary changes unless the host does. If it shifts, the trials in between are in doubt.
//!
//! Two figures are compared. The answered rate shows a host that no longer keeps up at all. The subject's CPU
//! time per answer shows a slower clock, a colder cache or another program that takes cycles, long before.
//! Latency is not compared: a median of some tens of microseconds, recorded to one microsecond, moves by more
//! than the limit without any cause.

use kqps_observation::run::{Purpose, RunTrial};
use kqps_observation::{Run, Trial};

use super::{Code, Effect, Warning};
use crate::change::difference;
use crate::evidence::is_spoiled;
use crate::percent;

/// A shift by more than this share of the first good canary's figure raises a doubt.
const SHIFT_MOST: f64 = 0.02;

/// A stretch of a run, between two good canaries, with a canary that had shifted.
#[derive(Clone, Debug, PartialEq)]
struct Doubtful {
    /// The number of the last good canary before it.
    after: u64,
    /// The number of the next good canary; `None` at the end of the run.
    before: Option<u64>,
    /// The greatest shift, as a share.
    shift: f64,
    /// The figure that shifted.
    what: &'static str,
}

/// The doubt that the canaries raise about the trials of one cell.
pub fn canary(run: &Run, cell: usize) -> Option<Warning> {
    let is_judged = |one: &&RunTrial| one.purpose != Purpose::WarmUp && one.measured().is_some();
    let judged: Vec<u64> = run.trials_of(cell).filter(is_judged).map(|one| one.number).collect();
    let is_in = |stretch: &Doubtful, number: u64| {
        number > stretch.after && stretch.before.is_none_or(|before| number < before)
    };
    let touched = doubtful(run);
    let touched: Vec<&Doubtful> =
        touched.iter().filter(|stretch| judged.iter().any(|number| is_in(stretch, *number))).collect();
    let worst = touched.iter().max_by(|a, b| a.shift.total_cmp(&b.shift))?;
    let many = judged.iter().filter(|number| touched.iter().any(|stretch| is_in(stretch, **number))).count();
    // A measure that falls to nothing shifts by 100 %.
    let shifted = if worst.shift > 1.0 {
        difference(worst.shift, 1)
    } else {
        format!("{} %", percent::fixed(worst.shift, 1))
    };
    let advice = format!(
        "The canary's {} shifted by {shifted} while {many} of {} trials were made (the limit is 2 %): the host \
         changed meanwhile. Stop what else runs, fix the clock's frequency, and run again.",
        worst.what,
        judged.len()
    );
    Some(Warning::new(Code::Canary, Effect::DownOne, worst.shift, advice))
}

/// The stretches in which the host differed from the first good canary. A canary that could not be played, or
/// that the player spoiled, shows nothing.
fn doubtful(run: &Run) -> Vec<Doubtful> {
    let is_canary = |one: &&RunTrial| one.purpose == Purpose::Canary;
    let played = run.trials.iter().filter(is_canary).filter_map(|one| Some((one.number, one.measured()?)));
    let mut played = played.filter(|(_, trial)| !is_spoiled(trial));
    let Some((mut last_good, first)) = played.next() else { return Vec::new() };
    let mut stretches: Vec<Doubtful> = Vec::new();
    for (number, trial) in played {
        let (what, shift) = shift(first, trial);
        let open = stretches.last_mut().filter(|stretch| stretch.before.is_none());
        match (open, shift > SHIFT_MOST) {
            (None, true) => stretches.push(Doubtful { after: last_good, before: None, shift, what }),
            (Some(open), true) if shift > open.shift => (open.shift, open.what) = (shift, what),
            (Some(_), true) => {}
            (open, false) => {
                if let Some(open) = open {
                    open.before = Some(number);
                }
                last_good = number;
            }
        }
    }
    stretches
}

/// The greatest shift of a canary against the first: the figure that shifted, and by which share.
fn shift(first: &Trial, other: &Trial) -> (&'static str, f64) {
    let by = |first: f64, other: f64| if first > 0.0 { (other / first - 1.0).abs() } else { 0.0 };
    let rate = by(first.load.answered_qps, other.load.answered_qps);
    let cpu = cpu_per_answer_s(first).zip(cpu_per_answer_s(other)).map_or(0.0, |(a, b)| by(a, b));
    if rate >= cpu { ("answered rate", rate) } else { ("CPU time per answer", cpu) }
}

fn cpu_per_answer_s(trial: &Trial) -> Option<f64> {
    let subject = trial.subject.as_ref()?;
    let answers = trial.accounts.correct;
    (answers > 0).then(|| subject.cpu_s() / answers as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kqps_observation::run::Outcome;
    use kqps_observation::{Accounts, SubjectFacts, trial};

    /// A trial of cell 0 for a letter, or a canary (of cell 1) with this CPU time per answer.
    fn run(trials: &[Result<f64, char>]) -> Run {
        let one = |(number, what): (u64, &Result<f64, char>)| {
            let cpu_s = what.unwrap_or(1.0);
            let trial = Trial {
                load: trial::LoadFacts { answered_qps: 1000.0, ..trial::LoadFacts::default() },
                accounts: Accounts { correct: 1000, ..Accounts::default() },
                subject: Some(SubjectFacts { cpu_user_s: cpu_s, ..SubjectFacts::default() }),
                ..Trial::default()
            };
            let purpose = match what {
                Ok(_) => Purpose::Canary,
                Err('w') => Purpose::WarmUp,
                Err(_) => Purpose::Closed,
            };
            let cell = u32::from(what.is_ok());
            RunTrial {
                number,
                cell,
                block: 0,
                start: 1,
                purpose,
                outcome: Outcome::Measured(Box::new(trial)),
            }
        };
        Run { trials: (1..).zip(trials).map(one).collect(), ..Run::default() }
    }

    #[test]
    fn a_quiet_host_is_not_doubted() {
        assert_eq!(canary(&run(&[Ok(1.0), Err('t'), Ok(1.019), Err('t'), Ok(0.981)]), 0), None);
        assert_eq!(canary(&run(&[Err('t'), Err('t')]), 0), None, "there was no canary");
    }

    #[test]
    fn doubt_reaches_from_the_last_good_canary_to_the_next() {
        let trials =
            [Ok(1.0), Err('a'), Ok(1.0), Err('b'), Ok(1.1), Err('c'), Ok(1.2), Err('d'), Ok(1.0), Err('e')];
        let doubted = doubtful(&run(&trials));
        assert_eq!(doubted.len(), 1);
        assert_eq!((doubted[0].after, doubted[0].before), (3, Some(9)));
        let warning = canary(&run(&trials), 0).unwrap();
        assert_eq!((warning.code, warning.effect()), (Code::Canary, Effect::DownOne));
        assert!((warning.figure.unwrap() - 0.2).abs() < 1e-9);
        assert!(warning.advice.contains("while 3 of 5 trials were made"), "{}", warning.advice);
    }

    #[test]
    fn only_what_lies_within_is_doubted() {
        assert_eq!(canary(&run(&[Ok(1.0), Err('a'), Ok(1.0), Ok(1.1), Ok(1.0)]), 0), None);
        assert_eq!(canary(&run(&[Ok(1.0), Ok(1.0), Err('w'), Ok(1.1)]), 0), None, "a warm-up is not judged");
        assert!(canary(&run(&[Ok(1.0), Err('a'), Ok(0.9)]), 0).is_some(), "nothing good came after it");
    }

    #[test]
    fn a_rate_that_falls_is_a_shift_and_a_spoiled_canary_says_nothing() {
        let mut fell = run(&[Ok(1.0), Err('a'), Ok(1.0)]);
        let change = |run: &mut Run, change: fn(&mut Trial)| match &mut run.trials[2].outcome {
            Outcome::Measured(trial) => change(trial),
            Outcome::Failed { .. } => unreachable!(),
        };
        change(&mut fell, |trial| trial.load.answered_qps = 900.0);
        assert!(canary(&fell, 0).unwrap().advice.contains("answered rate shifted by 10.0 %"));
        change(&mut fell, |trial| trial.players.first.socket_drops = 1);
        assert_eq!(canary(&fell, 0), None);
    }
}

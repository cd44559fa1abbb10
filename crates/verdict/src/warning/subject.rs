//! Warnings about the subject: wrong answers, uneven work, losses that nobody counted, no steady state.

use kqps_observation::Trial;
use kqps_observation::trial::Interval;

use crate::steady::{Steadiness, steadiness};

use super::limit::{had_time, is_many, rate_limited, settings};
use super::{Code, Effect, Setting, Warning};

/// Workers that use less of a core than this are too idle to compare.
const WORKING: f64 = 0.05;

/// The busiest worker had more than 1.25 times the mean work.
pub fn uneven(trial: &Trial, setting: &Setting) -> Option<Warning> {
    let workers = setting.workers?;
    busiest_to_mean(trial, workers).filter(|share| *share > 1.25).map(|share| {
        let advice = format!(
            "The busiest of {workers} workers did {share:.2} times the mean work. Use more sockets so that \
             flows spread, or look at how the subject shares its queries out."
        );
        Warning::new(Code::Uneven, Effect::DownOne, share, advice)
    })
}

/// What the busiest of the subject's workers did as a multiple of their mean, 1 if all did the same. None of a
/// single worker, where the subject was not watched, or where the workers were too idle to compare.
pub fn busiest_to_mean(trial: &Trial, workers: u32) -> Option<f64> {
    let count = Some(workers as usize).filter(|count| *count >= 2)?;
    let threads = &trial.subject.as_ref()?.threads;
    let mut busy: Vec<f64> = threads.iter().map(|thread| thread.busy).collect();
    busy.sort_by(|a, b| b.total_cmp(a));
    // A worker that used no CPU at all is not in the list, and counts as idle.
    busy.resize(count, 0.0);
    let mean = busy.iter().sum::<f64>() / count as f64;
    (mean >= WORKING).then(|| busy[0] / mean)
}

/// Replies that failed the check of ID, question, QR or expected rcode.
pub fn wrong_answers(trial: &Trial) -> Option<Warning> {
    let wrong = trial.accounts.wrong;
    (wrong > 0).then(|| {
        let causes: Vec<String> =
            trial.wrong_in_words().map(|(cause, count)| format!("{cause}: {count}")).collect();
        let causes = if causes.is_empty() { String::new() } else { format!(" ({})", causes.join("; ")) };
        let advice = format!(
            "{wrong} replies were wrong{causes}: a fast wrong answer is no answer. Check the subject's zones \
             and the expectations in the query file."
        );
        Warning::new(Code::WrongAnswers, Effect::Refuse, wrong as f64, advice)
    })
}

/// Queries were lost that no counter accounts for, although the subject had time to spare. Where the subject
/// was not watched, or was busy, it may have dropped them itself, and nothing is said; nor where a limit on its
/// responses is seen to be why.
pub fn unexplained_loss(trial: &Trial) -> Option<Warning> {
    if !had_time(trial) || rate_limited(trial).is_some() {
        return None;
    }
    let lost = u64::try_from(trial.ledger.unexplained).unwrap_or(0);
    is_many(lost, trial).then(|| {
        let advice = format!(
            "{lost} queries vanished and no counter says where, while the subject was not busy. Look for a \
             packet filter on the path, or a rate limit in the subject. {}",
            settings(trial)
        );
        Warning::new(Code::UnexplainedLoss, Effect::DownOne, lost as f64, advice)
    })
}

/// The last ten one-second bins of a warm-up still climbed, fell or jumped by 1 % or more. Fewer bins are not
/// judged.
pub fn no_steady_state(warm_up: &[Interval]) -> Option<Warning> {
    let (change, how) = match steadiness(warm_up) {
        Steadiness::Steady | Steadiness::Unknown => return None,
        Steadiness::Slope(change) => (change.abs(), "changed"),
        Steadiness::Step(change) => (change.abs(), "jumped"),
    };
    let advice = format!(
        "The answered rate still {how} by {:.1} % over the last ten seconds of the warm-up. Warm the subject up \
         for longer.",
        change * 100.0
    );
    Some(Warning::new(Code::NoSteadyState, Effect::DownOne, change, advice))
}

//! Warnings about the subject: wrong answers, uneven work, losses that no counter explains, no steady state.

use kqps_catalogue::cause::Wrong;
use kqps_observation::Trial;
use kqps_observation::trial::Interval;

use crate::steady::{Steadiness, steadiness};

use super::limit::{had_time, held_back, ignored, is_many, rate_limited, settings};
use super::{Code, Effect, Surroundings, Warning};

/// Workers that use less of a core than this are too idle to compare.
const WORKING: f64 = 0.05;

/// The busiest worker did more than 1.25 times the mean work.
pub fn uneven(trial: &Trial, surroundings: &Surroundings) -> Option<Warning> {
    let workers = surroundings.workers?;
    busiest_to_mean(trial, workers).filter(|share| *share > 1.25).map(|share| {
        let advice = format!(
            "The busiest of {workers} workers did {share:.2} times the mean work. Use more sockets so that \
             flows spread, or check how the subject distributes its queries."
        );
        Warning::new(Code::Uneven, Effect::DownOne, share, advice)
    })
}

/// The work of the subject's busiest worker as a multiple of the workers' mean; 1 if all did the same. `None`
/// for a single worker, for a subject that was not watched, and if the workers were too idle to compare.
pub fn busiest_to_mean(trial: &Trial, workers: u32) -> Option<f64> {
    let count = Some(workers as usize).filter(|count| *count >= 2)?;
    let threads = &trial.subject.as_ref()?.threads;
    let mut busy: Vec<f64> = threads.iter().map(|thread| thread.busy).collect();
    busy.sort_by(|a, b| b.total_cmp(a));
    // A worker that used no CPU time is not listed, and counts as idle.
    busy.resize(count, 0.0);
    let mean = busy.iter().sum::<f64>() / count as f64;
    (mean >= WORKING).then(|| busy[0] / mean)
}

/// Replies that failed the check of ID, question, QR or expected rcode: the most frequent cause first, with
/// what to check. SERVFAIL of a resolver counts against its goal alone: so it says that it found no answer in time.
pub fn wrong_answers(trial: &Trial) -> Option<Warning> {
    let wrong = trial.accounts.wrong;
    (refuting(trial) > 0).then(|| {
        let causes: Vec<String> =
            trial.wrong_in_words().map(|(cause, count)| format!("{cause}: {count}")).collect();
        let causes = if causes.is_empty() { String::new() } else { format!(" ({})", causes.join("; ")) };
        let most = most_frequent(trial).map(|most| most + " ").unwrap_or_default();
        let advice = format!(
            "{most}{wrong} replies were wrong{causes}: a fast wrong answer is no answer. Check the subject's zones \
             and the expectations in the query file."
        );
        Warning::new(Code::WrongAnswers, Effect::Refuse, wrong as f64, advice)
    })
}

/// Wrong replies that refute a figure: all of them, but SERVFAIL of a resolver in an Internet in a box.
pub fn refuting(trial: &Trial) -> u64 {
    let of_resolver = trial.upstream.as_ref().map(|_| trial.wrong_rcodes.iter());
    let failed = of_resolver.into_iter().flatten().filter(|(words, _)| words.ends_with(" got SERVFAIL"));
    trial.accounts.wrong.saturating_sub(failed.map(|(_, count)| count).sum())
}

/// From this share of wrong answers on, the share is reported. Below it, causes and counts suffice.
const MANY: f64 = 0.01;

/// The most frequent kind of wrong answer, if they are many:
/// `97 % of the answers were REFUSED instead of NOERROR: does the server have this zone?`
fn most_frequent(trial: &Trial) -> Option<String> {
    let replies = trial.accounts.correct + trial.accounts.wrong;
    let (cause, count) = trial.wrong_in_words().max_by_key(|(_, count)| *count)?;
    let share = count as f64 / replies as f64;
    let most = match share {
        ..MANY => return None,
        1.0.. => "All answers".to_owned(),
        0.995..1.0 => "Over 99 % of the answers".to_owned(),
        _ => format!("{:.0} % of the answers", share * 100.0),
    };
    let pair = cause.strip_prefix("expected ").and_then(|pair| pair.split_once(", got "));
    let status = cause.strip_prefix(Wrong::Status.word()).and_then(|status| status.strip_prefix('-'));
    Some(match (pair, status) {
        (Some((expected, got)), _) => {
            format!("{most} were {got} instead of {expected}: {}", rcode_question(got))
        }
        (None, Some(status)) => {
            format!(
                "{most} had the HTTP status {status}: is the path of the URL right, and may this client ask?"
            )
        }
        (None, None) => format!("{most} {}", Wrong::from_word(cause).unwrap_or(Wrong::Rcode).words()),
    })
}

/// The question to ask about a server that answers with this rcode instead of another.
fn rcode_question(got: &str) -> &'static str {
    match got {
        "SERVFAIL" => "did the server load its zone, and can it reach the servers that it asks?",
        "NOTIMP" | "FORMERR" => "does the server know queries of this kind?",
        "NOERROR" | "NXDOMAIN" => "does the server have the zone that the query file was made for?",
        _ => "does the server have this zone?",
    }
}

/// The least lost share of the sent queries for a subject that was not watched, since it may have been too busy
/// for them.
const UNWATCHED_LEAST: f64 = 0.01;

/// Queries were lost that no counter explains, or that the subject read and did not answer, although it had CPU time
/// left. For a subject that was not watched, the warning says so, and needs many losses. There is no warning if the subject was busy, since
/// it may have dropped them itself, or if a limit on its responses is the cause.
pub fn unexplained_loss(trial: &Trial) -> Option<Warning> {
    if rate_limited(trial).is_some() {
        return None;
    }
    if let Some(ignored) = ignored(trial) {
        let advice = format!(
            "The subject read {ignored} queries and did not answer them, while it was not busy and answered others in \
             time. Why is not known: it may limit the rate of its responses (RRL), or ignore queries for another \
             reason. {}",
            settings(trial)
        );
        return Some(Warning::new(Code::UnexplainedLoss, Effect::DownOne, ignored as f64, advice));
    }
    let is_unwatched = trial.subject.is_none();
    let (lost, least) = if is_unwatched {
        (held_back(trial), trial.accounts.sent as f64 * UNWATCHED_LEAST)
    } else {
        (u64::try_from(trial.ledger.unexplained).unwrap_or(0), 0.0)
    };
    let may_have_had_time = is_unwatched && trial.accounts.correct > 0 || had_time(trial);
    if !may_have_had_time || (lost as f64) < least || !is_many(lost, trial) {
        return None;
    }
    let (seen, look) = if is_unwatched {
        ("the subject was not watched, so it may have been too busy", "If it was not, look")
    } else {
        ("the subject was not busy", "Look")
    };
    let advice = format!(
        "{lost} queries vanished and no counter says where; {seen}. {look} for a packet filter on the path, or a rate \
         limit in the subject. {}",
        settings(trial)
    );
    Some(Warning::new(Code::UnexplainedLoss, Effect::DownOne, lost as f64, advice))
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

#[cfg(test)]
mod tests {
    use kqps_observation::{Accounts, UpstreamFacts};

    use super::*;

    #[test]
    fn a_resolver_may_say_that_it_found_no_answer() {
        let trial = |upstream: Option<UpstreamFacts>, rcodes: &[(&str, u64)]| Trial {
            accounts: Accounts { wrong: rcodes.iter().map(|(_, count)| count).sum(), ..Accounts::default() },
            wrong_rcodes: rcodes.iter().map(|(words, count)| ((*words).to_owned(), *count)).collect(),
            upstream,
            ..Trial::default()
        };
        let resolver = || Some(UpstreamFacts::default());
        let failed = ("expected NOERROR, got SERVFAIL", 3);
        assert_eq!(wrong_answers(&trial(resolver(), &[failed])), None);
        assert!(wrong_answers(&trial(None, &[failed])).is_some(), "a server with the zone has no excuse");
        let wrong = trial(resolver(), &[failed, ("expected NOERROR, got NXDOMAIN", 1)]);
        assert_eq!((refuting(&wrong), wrong_answers(&wrong).unwrap().figure), (1, Some(4.0)));
    }
}

//! The conditions of `kqps load --fail-on`: `loss`, `wrong`, `latency` and `noise`, each with its limit.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use kqps_observation::percentile::samples_least;
use kqps_observation::{Histogram, Percentile, Trial};
use kqps_verdict::rate::rate;
use kqps_verdict::warning::{self, Code, Effect, Surroundings, Warning};

use crate::value::{parse_duration, parse_share};

/// A condition on a trial, with the text that the user typed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Condition {
    wanted: Criterion,
    typed: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Criterion {
    /// More than this share of the sent queries was lost, answered late, or answered by a slip (a truncated
    /// reply of response rate limiting).
    Loss(f64),
    /// More than this share of the sent queries got a wrong answer.
    Wrong(f64),
    /// The 99th percentile of latency was above this.
    Latency(Duration),
    /// The player or the host spoiled the trial.
    Noise,
}

/// Whether a condition holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Passes,
    /// It holds: what the trial shows.
    Holds(String),
    /// The trial does not show it: the reason.
    Unknown(String),
}

impl Condition {
    pub(super) fn judge(&self, trial: &Trial, warnings: &[Warning], surroundings: &Surroundings) -> Outcome {
        let accounts = &trial.accounts;
        match self.wanted {
            Criterion::Loss(_) | Criterion::Wrong(_) if accounts.sent == 0 => {
                Outcome::Unknown("nothing was sent".into())
            }
            Criterion::Loss(most) => loss(trial, most),
            Criterion::Wrong(most) => above(accounts.wrong, accounts.sent, most, "answered wrongly"),
            Criterion::Latency(most) => latency(trial, most),
            Criterion::Noise => noise(trial, warnings, surroundings),
        }
    }
}

/// Queries that the player lost itself do not count as losses of the server; how many of them the server
/// would have lost is unknown. A slip does not answer the query, so slips of a server that limits its
/// responses count like its drops.
fn loss(trial: &Trial, most: f64) -> Outcome {
    let (accounts, own) = (&trial.accounts, trial.lost_by_player());
    let of_server = accounts.late + accounts.lost - own + accounts.slipped;
    let what = if accounts.slipped > 0 { "lost, late or slipped" } else { "lost or late" };
    let outcome = above(of_server, accounts.sent, most, what);
    let with_own = above(of_server + own, accounts.sent, most, what);
    match (outcome, with_own) {
        (Outcome::Holds(seen), _) if own > 0 => {
            Outcome::Holds(format!("{seen}, beside {own} that the player lost itself"))
        }
        (Outcome::Passes, Outcome::Holds(_)) => Outcome::Unknown(format!(
            "the player's own sockets dropped the replies to {own} of {} queries",
            accounts.sent
        )),
        (outcome, _) => outcome,
    }
}

fn above(count: u64, sent: u64, most: f64, what: &str) -> Outcome {
    let share = count as f64 / sent as f64;
    if share <= most {
        return Outcome::Passes;
    }
    Outcome::Holds(format!("{count} of {sent} queries were {what} ({:.3} %)", share * 100.0))
}

fn latency(trial: &Trial, most: Duration) -> Outcome {
    let most_us = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
    let ms = |time_us: u64| time_us as f64 / 1e3;
    let accounts = &trial.accounts;
    let of = format!("of {} queries", rate((accounts.correct + accounts.late + accounts.lost) as f64));
    let seen = trial.latency_us.p99();
    if let Some(Percentile::Is(p99_us)) = seen {
        return if p99_us > most_us {
            Outcome::Holds(format!("p99 of latency was {} ms", ms(p99_us)))
        } else {
            Outcome::Passes
        };
    }
    let histogram = trial.histograms.get("latency").and_then(|text| Histogram::decode(text));
    let least_us = histogram.and_then(|histogram| histogram.at_least_us(P99));
    match (seen, least_us) {
        (Some(Percentile::AtMost(p99_us)), _) if p99_us <= most_us => Outcome::Passes,
        (_, Some(least_us)) if least_us > most_us => {
            Outcome::Holds(format!("p99 of latency was at least {} ms, {of}", ms(least_us)))
        }
        (Some(Percentile::AtMost(p99_us)), _) => Outcome::Unknown(format!(
            "p99 of latency is known to be at most {} ms, {of}; play for longer",
            ms(p99_us)
        )),
        _ => Outcome::Unknown(format!(
            "a bound of p99 takes {} queries, and {} were answered or lost; play for longer",
            samples_least(1.0 - P99),
            accounts.correct + accounts.late + accounts.lost
        )),
    }
}

const P99: f64 = 0.99;

fn noise(trial: &Trial, warnings: &[Warning], surroundings: &Surroundings) -> Outcome {
    let spoils = |warning: &&Warning| {
        let is_grave = matches!(warning.effect(), Effect::Refuse | Effect::RedoThenRefuse);
        let is_of_server = matches!(warning.code, Code::WrongAnswers | Code::RateLimited);
        is_grave && !is_of_server || warning.code == Code::NoisyHost
    };
    match warnings.iter().find(spoils) {
        Some(warning) => Outcome::Holds(warning.to_string()),
        None if warning::is_noise_known(trial, surroundings) => Outcome::Passes,
        None => {
            Outcome::Unknown("it takes a load of more than a second to show what else ran on the host".into())
        }
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, limit) = text.split_once(':').map_or((text, None), |(word, limit)| (word, Some(limit)));
        let share = || limit.map_or(Ok(0.0), parse_share);
        let wanted = match word {
            "loss" => Criterion::Loss(share()?),
            "wrong" => Criterion::Wrong(share()?),
            "latency" => match limit.map(parse_duration).transpose()? {
                Some(most) if most >= Duration::from_micros(1) => Criterion::Latency(most),
                _ => return Err("latency takes a limit of 1us at least, as in latency:10ms".into()),
            },
            "noise" if limit.is_some() => return Err("noise takes no limit".into()),
            "noise" => Criterion::Noise,
            _ => return Err("expected loss, wrong, latency or noise, as in loss:0.1% or latency:10ms".into()),
        };
        Ok(Self { wanted, typed: text.into() })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.typed)
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::Accounts;
    use kqps_observation::ledger::{FoundBy, Place, Placed};

    use super::*;

    fn outcome(condition: &str, trial: &Trial) -> Outcome {
        condition.parse::<Condition>().unwrap().judge(trial, &[], &Surroundings::default())
    }

    fn holds(condition: &str, trial: &Trial) -> bool {
        matches!(outcome(condition, trial), Outcome::Holds(_))
    }

    /// 10 of 1,000 queries were lost, 5 were answered late, and 20 wrongly.
    fn trial() -> Trial {
        let accounts = Accounts {
            intended: 2_000,
            unsent: 1_000,
            sent: 1_000,
            correct: 965,
            wrong: 20,
            late: 5,
            lost: 10,
            ..Accounts::default()
        };
        Trial { accounts, ..Trial::default() }
    }

    #[test]
    fn shares_are_of_what_was_sent_and_must_be_above_the_limit() {
        let trial = trial();
        assert!(holds("loss", &trial) && holds("loss:1.4%", &trial) && !holds("loss:1.5%", &trial));
        assert!(holds("wrong", &trial) && holds("wrong:0.019", &trial) && !holds("wrong:2%", &trial));
        let Outcome::Holds(seen) = outcome("loss:1%", &trial) else { panic!() };
        assert_eq!(seen, "15 of 1000 queries were lost or late (1.500 %)");
        assert!(matches!(outcome("loss", &Trial::default()), Outcome::Unknown(_)));
    }

    #[test]
    fn what_the_player_lost_is_no_loss_of_the_server() {
        let mut trial = trial();
        trial.accounts.late = 0;
        trial.accounts.correct += 5;
        trial.ledger.places =
            vec![Placed { place: Place::PlayerSocketBuffer, count: 10, by: FoundBy::Drops, shared: false }];
        assert!(matches!(outcome("loss", &trial), Outcome::Unknown(_)), "it is not shown that it would pass");
        assert_eq!(outcome("loss:1%", &trial), Outcome::Passes);
        trial.ledger.places[0].count = 9;
        let Outcome::Holds(seen) = outcome("loss", &trial) else { panic!() };
        assert!(
            seen.starts_with("1 of 1000 queries") && seen.contains("9 that the player lost itself"),
            "{seen}"
        );
    }

    #[test]
    fn a_server_that_limits_its_responses_fails_by_its_losses_and_is_no_noise() {
        let accounts = Accounts {
            intended: 1_000,
            sent: 1_000,
            correct: 1_000,
            truncated: 400,
            slipped: 400,
            ..Accounts::default()
        };
        let trial = Trial { accounts, ..Trial::default() };
        let Outcome::Holds(seen) = outcome("loss:30%", &trial) else { panic!() };
        assert_eq!(seen, "400 of 1000 queries were lost, late or slipped (40.000 %)");
        let warnings = warning::of_trial(&trial, &Surroundings::default());
        assert!(warnings.iter().any(|warning| warning.code == Code::RateLimited), "{warnings:?}");
        let noise = "noise".parse::<Condition>().unwrap().judge(&trial, &warnings, &Surroundings::default());
        assert!(matches!(noise, Outcome::Unknown(_)), "{noise:?}");
    }

    #[test]
    fn latency_is_judged_by_p99_alone() {
        let mut trial = trial();
        let why = "a bound of p99 takes 299 queries, and 980 were answered or lost; play for longer";
        assert_eq!(
            outcome("latency:10ms", &trial),
            Outcome::Unknown(why.into()),
            "a record without latencies"
        );
        // A thousand times from 1 to 1,000 ms: p99 is at most the fifth greatest, and at least the 16th greatest.
        let mut histogram = Histogram::default();
        (1..=1_000).for_each(|time_ms| histogram.record_us(time_ms * 1_000));
        trial.latency_us = histogram.quantiles();
        trial.histograms.insert("latency".into(), histogram.encode());
        let at_most_us = trial.latency_us.at_most.unwrap().p99.unwrap();
        assert_eq!(outcome(&format!("latency:{at_most_us}us"), &trial), Outcome::Passes);
        let Outcome::Unknown(why) = outcome("latency:990ms", &trial) else { panic!() };
        assert!(
            why.starts_with("p99 of latency is known to be at most 99") && why.contains("ms, of 980 queries"),
            "{why}"
        );
        let Outcome::Holds(seen) = outcome("latency:984ms", &trial) else { panic!() };
        assert!(seen.starts_with("p99 of latency was at least 98"), "{seen}");
        trial.latency_us.p99 = Some(10_000);
        assert_eq!(outcome("latency:10ms", &trial), Outcome::Passes);
        trial.latency_us.p99 = Some(10_001);
        assert_eq!(outcome("latency:10ms", &trial), Outcome::Holds("p99 of latency was 10.001 ms".into()));
    }

    #[test]
    fn noise_is_a_warning_of_the_player_or_the_host() {
        let of = |trial: &Trial| {
            let warnings = warning::of_trial(trial, &Surroundings::default());
            "noise".parse::<Condition>().unwrap().judge(trial, &warnings, &Surroundings::default())
        };
        // 1,000 of 2,000 queries were not sent, which is noise. Wrong answers alone are not.
        assert!(matches!(of(&trial()), Outcome::Holds(_)));
        let mut quiet = trial();
        (quiet.accounts.intended, quiet.accounts.unsent) = (1_000, 0);
        assert!(matches!(of(&quiet), Outcome::Unknown(_)), "it lasted no time");
    }

    #[test]
    fn slips_are_explained() {
        for text in ["lost", "loss:", "loss:5", "latency", "latency:0", "latency:10", "noise:1%", "wrong:x"] {
            assert!(text.parse::<Condition>().is_err(), "{text}");
        }
    }
}

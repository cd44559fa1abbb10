//! The word of a short check: whether a target carries a rate.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::bottleneck::Resource;
use crate::judge::SearchVerdict;
use crate::rate::rate;

/// The headroom over the needed rate, as a multiple of it.
pub const HEADROOM: f64 = 1.25;

/// A whole core must be worth less than the wanted rate by this factor, before it shows that the target cannot carry it.
const CERTAIN: f64 = 1.1;

/// Answers of this share of a load are all of them: some were still under way at its end.
const ALL: f64 = 0.999;

/// The answer of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
pub enum Word {
    /// The target carries the rate with headroom.
    #[strum(serialize = "fine")]
    Fine,
    /// The target's highest rate is below the needed one with its headroom.
    #[strum(serialize = "limited")]
    Limited,
    /// The trials do not show either.
    #[strum(serialize = "cannot tell")]
    CannotTell,
}

/// The answer in one sentence, and advice if there is no answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The word.
    pub word: Word,
    /// The reason, without the target and the word, and without its full stop.
    pub why: String,
    /// The action that would help; `None` if no action is known or needed.
    pub helps: Option<String>,
}

impl fmt::Display for Word {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.into())
    }
}

impl Finding {
    /// The answer of a search for the highest rate. `need_qps` is the rate that the target should carry.
    pub fn from_search(verdict: &SearchVerdict, need_qps: Option<f64>) -> Self {
        if verdict.interrupted {
            return Self::cannot_tell("the check was cut short".into(), Some("run it again".into()));
        }
        if let Some(least_qps) = verdict.at_least_qps {
            return Self::of_all_answered(least_qps, need_qps);
        }
        let (resource, figure) = (verdict.bottleneck.resource, verdict.figure_qps);
        let wanted_qps = need_qps.map(|need_qps| need_qps * HEADROOM);
        let limited = || Self::of_whole_core(verdict.whole_core_qps?, wanted_qps?);
        let fine = || Self::of_answered(verdict.seen.throughput_qps?, need_qps?);
        let Some(figure) = figure.filter(|_| !verdict.grade.refuses()) else {
            let why = verdict.reasons.first().cloned().unwrap_or_else(|| "no trial was good".into());
            let unknown = || Self::cannot_tell(without_stop(sentence(&why)), advice(verdict));
            return limited().or_else(fine).unwrap_or_else(unknown);
        };
        if let (Some(wanted_qps), Some(need_qps)) = (wanted_qps, need_qps)
            && figure.low >= wanted_qps
        {
            let why = format!("it carries {} q/s with headroom: {}", rate(need_qps), range(verdict));
            return Self { word: Word::Fine, why, helps: None };
        }
        if is_unknown(resource) {
            let why = format!("{}, and the limit was {}", range(verdict), resource.in_short());
            return limited().unwrap_or_else(|| Self::cannot_tell(why, advice(verdict)));
        }
        match wanted_qps {
            Some(wanted_qps) if figure.high >= wanted_qps => {
                let why =
                    format!("{}, and {} q/s with headroom lie within", range(verdict), rate(wanted_qps));
                Self::cannot_tell(why, Some("kqps find measures for longer".into()))
            }
            _ => {
                let why = format!("{}, limited by {}", range(verdict), resource.in_short());
                Self { word: Word::Limited, why, helps: None }
            }
        }
    }

    /// The answer for a target whose CPU time shows that it cannot carry the rate, although other programs or the player
    /// spoiled its figure: even with a core all the time it would answer less. `None` if it might answer more.
    fn of_whole_core(whole_qps: f64, wanted_qps: f64) -> Option<Self> {
        let why = format!(
            "by its CPU time for an answer it would carry about {} q/s with its core to itself",
            rate(whole_qps)
        );
        (whole_qps * CERTAIN < wanted_qps).then_some(Self { word: Word::Limited, why, helps: None })
    }

    /// The answer for a target that answered the rate in time, although the player or the host spoiled its figure: late queries
    /// and other work make a load harder for the target, and never easier. `None` if it answered less.
    fn of_answered(answered_qps: f64, need_qps: f64) -> Option<Self> {
        let why = format!(
            "it carries {} q/s with headroom: {} q/s were answered in time; its highest rate is not known",
            rate(need_qps),
            rate(answered_qps)
        );
        (answered_qps >= need_qps * HEADROOM * ALL).then_some(Self { word: Word::Fine, why, helps: None })
    }

    /// The answer if the target answered even the greatest load, `least_qps`.
    fn of_all_answered(least_qps: f64, need_qps: Option<f64>) -> Self {
        let all = format!("all of {} q/s was answered in time", rate(least_qps));
        match need_qps {
            None => {
                Self { word: Word::Fine, why: format!("{all}, the most that was asked (--max)"), helps: None }
            }
            Some(need_qps) if least_qps >= need_qps * HEADROOM * ALL => {
                let why = format!("it carries {} q/s with headroom: {all}", rate(need_qps));
                Self { word: Word::Fine, why, helps: None }
            }
            Some(need_qps) => {
                let why = format!("{all}, and nothing above it was sent (--max)");
                Self::cannot_tell(
                    why,
                    Some(format!("--max {}", rate((need_qps * HEADROOM).ceil()).replace(',', ""))),
                )
            }
        }
    }

    fn cannot_tell(why: String, helps: Option<String>) -> Self {
        Self { word: Word::CannotTell, why, helps }
    }
}

/// Whether a limit says nothing of the target.
fn is_unknown(resource: Resource) -> bool {
    resource.is_of_player()
        || matches!(resource, Resource::Host | Resource::SubjectCoreShared | Resource::NoneSaturated)
}

/// The figure with its range: `its highest rate is 82,000 q/s (79,000 to 85,000)`.
fn range(verdict: &SearchVerdict) -> String {
    let Some(figure) = verdict.figure_qps else { return "its highest rate is not known".into() };
    format!("its highest rate is {} q/s ({} to {})", rate(figure.median), rate(figure.low), rate(figure.high))
}

/// The gravest action that the verdict advises.
fn advice(verdict: &SearchVerdict) -> Option<String> {
    let advice = verdict.advice.iter().flatten().min_by_key(|advice| advice.gravity)?;
    Some(without_stop(&advice.action.sentence("the target")))
}

/// A reason without the code before it.
fn sentence(reason: &str) -> &str {
    reason.split_once(": ").filter(|(code, _)| !code.contains(' ')).map_or(reason, |(_, sentence)| sentence)
}

fn without_stop(text: &str) -> String {
    text.trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grade::Grade;
    use crate::interval::Interval;
    use crate::judge::{SearchContext, judge_search};
    use crate::search::Preset;

    fn nothing() -> SearchVerdict {
        judge_search(&Preset::Quick.goal(), &[], &SearchContext::default())
    }

    fn verdict(low: f64, high: f64, resource: Resource) -> SearchVerdict {
        let figure = Interval { median: f64::midpoint(low, high), low, high, coverage: 0.95, count: 3 };
        let mut verdict = SearchVerdict { figure_qps: Some(figure), grade: Grade::B, ..nothing() };
        verdict.bottleneck.resource = resource;
        verdict
    }

    fn word(verdict: &SearchVerdict, need_qps: Option<f64>) -> Word {
        Finding::from_search(verdict, need_qps).word
    }

    #[test]
    fn a_rate_with_headroom_is_fine_and_one_without_is_limited() {
        let measured = verdict(79e3, 85e3, Resource::SubjectCpu);
        assert_eq!(word(&measured, Some(60e3)), Word::Fine);
        assert_eq!(word(&measured, Some(70e3)), Word::Limited);
        assert_eq!(word(&measured, Some(65e3)), Word::CannotTell, "81,250 lies within the range");
        assert_eq!(word(&measured, None), Word::Limited);
        let said = Finding::from_search(&measured, None).why;
        assert_eq!(said, "its highest rate is 82,000 q/s (79,000 to 85,000), limited by the subject's CPU");
    }

    #[test]
    fn a_limit_that_is_not_the_targets_says_nothing_of_it() {
        for resource in
            [Resource::Player, Resource::Host, Resource::NoneSaturated, Resource::SubjectCoreShared]
        {
            assert_eq!(word(&verdict(79e3, 85e3, resource), None), Word::CannotTell, "{resource:?}");
            assert_eq!(word(&verdict(79e3, 85e3, resource), Some(10e3)), Word::Fine, "{resource:?}");
        }
        let refused = SearchVerdict { grade: Grade::F, ..verdict(79e3, 85e3, Resource::SubjectCpu) };
        assert_eq!(word(&refused, Some(10e3)), Word::CannotTell);
        let cut = SearchVerdict { interrupted: true, ..verdict(79e3, 85e3, Resource::SubjectCpu) };
        assert_eq!(word(&cut, Some(10e3)), Word::CannotTell);
    }

    #[test]
    fn the_cpu_time_of_a_target_shows_that_it_is_too_slow_although_its_figure_is_refused() {
        let shared = verdict(79e3, 85e3, Resource::SubjectCoreShared);
        let refused = SearchVerdict { grade: Grade::F, figure_qps: None, ..shared.clone() };
        for spoiled in [shared, refused] {
            let spoiled = SearchVerdict { whole_core_qps: Some(100e3), ..spoiled };
            assert_eq!(word(&spoiled, Some(200e3)), Word::Limited);
            assert_eq!(word(&spoiled, Some(86e3)), Word::CannotTell, "107,500 is too close to 100,000");
            assert_eq!(word(&spoiled, None), Word::CannotTell);
        }
    }

    #[test]
    fn a_target_that_answered_the_rate_is_fine_although_the_player_was_late() {
        let shared = verdict(79e3, 85e3, Resource::Player);
        let mut late = SearchVerdict { grade: Grade::F, figure_qps: None, ..shared };
        late.seen.throughput_qps = Some(10e3);
        assert_eq!(word(&late, Some(8e3)), Word::Fine);
        assert_eq!(word(&late, Some(8.1e3)), Word::CannotTell, "10,125 is more than was answered");
        assert_eq!(word(&late, None), Word::CannotTell);
    }

    #[test]
    fn a_target_that_answered_all_is_fine_as_far_as_was_asked() {
        let all = SearchVerdict { at_least_qps: Some(10e3), grade: Grade::B, ..nothing() };
        assert_eq!((word(&all, None), word(&all, Some(8e3))), (Word::Fine, Word::Fine));
        let short = Finding::from_search(&all, Some(9e3));
        assert_eq!((short.word, short.helps.as_deref()), (Word::CannotTell, Some("--max 11250")));
    }
}

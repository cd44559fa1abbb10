//! The tables of a scenario on the page of a load: what events cost each class, and what each class got for what it sent.

use kqps_observation::Silence;
use kqps_verdict::scenario::{ClassFigures, Effect, figures};

use super::LoadInput;
use crate::format;

/// The figures of a load.
pub(super) struct Figures {
    /// The name of the load.
    pub(super) name: String,
    pub(super) effects: Vec<EffectRow>,
    pub(super) classes: Vec<ClassRow>,
}

pub(super) struct EffectRow {
    pub(super) event: String,
    pub(super) class: String,
    pub(super) lost: String,
    pub(super) silent: String,
    pub(super) recovered: String,
    pub(super) p99_before: String,
    pub(super) p99_worst: String,
}

pub(super) struct ClassRow {
    pub(super) class: String,
    pub(super) amplification: String,
    pub(super) truncated: String,
    pub(super) slipped: String,
    pub(super) refused: String,
    pub(super) dropped: String,
    pub(super) limited: String,
    pub(super) silent: String,
}

/// The figures of each load that has some.
pub(super) fn all(inputs: &[LoadInput]) -> Vec<Figures> {
    let of_load = |input: &LoadInput| {
        let figures = figures(&input.trial)?;
        Some(Figures {
            name: input.name.clone(),
            effects: figures.effects.iter().map(effect).collect(),
            classes: figures.classes.iter().map(class).collect(),
        })
    };
    inputs.iter().filter_map(of_load).collect()
}

fn effect(effect: &Effect) -> EffectRow {
    let time = |us: Option<f64>| us.map_or(format::NONE.to_owned(), format::time_us);
    let lost = effect.lost.map(|lost| match effect.lost_share() {
        Some(share) if lost > 0 => format!("{lost} ({})", format::percent(share)),
        _ => lost.to_string(),
    });
    EffectRow {
        event: format!("{} at {}", effect.event, format::time_us(effect.at_s * 1e6)),
        class: effect.class.clone(),
        lost: lost.unwrap_or_else(|| format::NONE.to_owned()),
        silent: time(effect.silence.map(|silence| silence.seconds * 1e6)),
        recovered: effect
            .never_back()
            .unwrap_or_else(|| time(effect.recovered_s.map(|recovered_s| recovered_s * 1e6))),
        p99_before: time(effect.p99_before_us),
        p99_worst: time(effect.p99_worst_us),
    }
}

fn class(class: &ClassFigures) -> ClassRow {
    ClassRow {
        class: class.name.clone(),
        amplification: class.amplification.map_or(format::NONE.to_owned(), |times| format!("{times:.2}")),
        truncated: class.truncated.to_string(),
        slipped: class.slipped.to_string(),
        refused: class.refused.to_string(),
        dropped: class.dropped.to_string(),
        limited: class.wrongly_limited.map_or(format::NONE.to_owned(), |count| count.to_string()),
        silent: class.silence.map_or(format::NONE.to_owned(), silent),
    }
}

fn silent(silence: Silence) -> String {
    let [lasted, at] = [silence.seconds, silence.at_s].map(|seconds| format::time_us(seconds * 1e6));
    format!("{lasted} from {at} on")
}

#[cfg(test)]
mod tests {
    use kqps_observation::trial::ClassTrial;
    use kqps_observation::{Accounts, Trial};

    use super::*;
    use crate::loads_page;

    #[test]
    fn the_page_has_the_figures_of_a_scenario_and_escapes_their_names() {
        let silences = vec![Silence { at_s: 5.0, seconds: 0.298 }];
        let trial = Trial {
            accounts: Accounts { sent: 10, correct: 7, lost: 3, ..Accounts::default() },
            silences,
            ..Trial::default()
        };
        let class =
            |name: &str| ClassTrial { name: name.into(), trial: trial.clone(), ..ClassTrial::default() };
        let load = |trial: Trial| LoadInput {
            name: "attacked".into(),
            command: Vec::new(),
            printed: String::new(),
            trial,
        };
        let classes = vec![class("good"), class("<b>")];
        let page = loads_page(&[load(Trial { classes, ..trial.clone() })], "0");
        assert!(page.contains("<h2>Replies of each class</h2>") && !page.contains("What events cost"));
        assert!(page.contains("298\u{a0}ms from 5.00\u{a0}s on") && !page.contains("<b></th>"), "{page}");
        let page = loads_page(&[load(Trial { silences: Vec::new(), ..trial.clone() })], "0");
        assert!(!page.contains("Replies of each class"));
    }

    #[test]
    fn an_event_shows_its_loss_with_its_share() {
        let row = effect(&Effect {
            event: "reload".into(),
            at_s: 5.0,
            intended: 1_000,
            answered_before: Some(1.0),
            lost: Some(16),
            recovered_s: None,
            span_s: 1.25,
            p99_before_us: Some(400.0),
            ..Effect::default()
        });
        let shown = [row.event, row.lost, row.silent, row.recovered, row.p99_before, row.p99_worst]
            .map(|text| text.replace('\u{a0}', " "));
        assert_eq!(
            shown,
            ["reload at 5.00 s", "16 (1.6 %)", "–", "below 99 % to the end of 1.2 s", "400 µs", "–"]
        );
    }
}

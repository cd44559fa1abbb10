//! The doubts about a figure: its warnings, its starts, its echo and its range.

use super::case::Case;
use super::outer_bounds::OuterBounds;
use super::searches::{failures, hidden_share, of_searches, outlying_starts, why_no_figure};
use super::start::Start;
use crate::advice::{Action, Advice};
use crate::bottleneck::{Bottleneck, Resource};
use crate::change::{Form, times};
use crate::core_time::CoreTime;
use crate::grade::Grade;
use crate::interval::Interval;
use crate::lack::PlayerLack;
use crate::percent;
use crate::unsteady::Unsteady;
use crate::warning::{Effect, Warning};

/// A reason for a grade.
pub(super) struct Doubt {
    pub(super) effect: Option<Effect>,
    pub(super) reason: String,
    action: Option<Action>,
}

/// A verdict should rest on this many starts: fewer cannot reach an interval of 95 %.
const ENOUGH_STARTS: u32 = 6;

/// Fewer trials that went against a figure may be lapses.
const AGAINST_LEAST: usize = 3;

/// A subject whose busiest thread is less busy than this has CPU time left.
const BUSY: f64 = 0.7;

/// Rounding does not explain a share of the ceiling above this.
const ABOVE: f64 = 1.005;

impl Doubt {
    /// The weight of a reason that refuses the figure.
    pub(super) const REFUSES: u8 = 0;

    /// The doubt that a warning gives, beside what the player lacked if it was the bottleneck.
    pub(super) fn of_warning(warning: &Warning, lack: Option<PlayerLack>) -> Self {
        let action = Some(Action::of_warning(warning.code, lack));
        Self { effect: Some(warning.effect()), reason: warning.to_string(), action }
    }

    pub(super) fn advice(&self) -> Option<Advice> {
        Some(Advice { gravity: self.weight(), action: self.action? })
    }

    /// How much a reason weighs: 0 is the gravest. It follows from the best grade that the reason allows.
    pub(super) fn weight(&self) -> u8 {
        match self.effect {
            Some(Effect::Refuse | Effect::RedoThenRefuse | Effect::Cap(Grade::F)) => Self::REFUSES,
            Some(Effect::Cap(Grade::D)) => 1,
            Some(Effect::Cap(Grade::C)) => 2,
            Some(Effect::Cap(Grade::B)) => 3,
            Some(Effect::Cap(Grade::A)) => 4,
            Some(Effect::DownOne) => 5,
            Some(Effect::Mention) | None => 6,
        }
    }

    /// The doubt about a figure that rests on all trials together although no single load is a lower bound.
    pub(super) fn without_bound() -> Self {
        let reason = "No load met the goal often enough to be a lower bound: the figure is an estimate from all trials.";
        Self { effect: Some(Effect::Cap(Grade::C)), action: Some(Action::MoreTime), reason: reason.into() }
    }

    /// The doubt about a figure that rests on spoiled trials.
    pub(super) fn on_spoiled() -> Self {
        let reason = "Too few trials were left undisturbed to bound the rate: the figure rests on spoiled ones too, and may be \
                      far off.";
        Self { effect: Some(Effect::Cap(Grade::D)), action: Some(Action::QuietHost), reason: reason.into() }
    }

    /// The doubt about a subject that waited so long for its core that its trials show no rate.
    pub(super) fn of_waits(case: &Case<'_>, figure: &Interval, core_time: Option<&CoreTime>) -> Option<Self> {
        let core_time = core_time.filter(|core_time| core_time.refuses())?;
        let found = case.rate(figure.median);
        let worth = core_time.whole_qps.map_or_else(
            || "nothing shows what a whole core would be worth".to_owned(),
            |whole_qps| format!("a whole core would be worth {}", case.rate(whole_qps)),
        );
        let reason = format!(
            "The server waited for its core for {} % of the time: its trials show {found}, and {worth}.",
            percent::short(core_time.waited)
        );
        Some(Self { effect: Some(Effect::Refuse), action: Some(Action::QuietHost), reason })
    }

    /// The doubt about trials on a host that is too unsteady.
    pub(super) fn of_unsteady(unsteady: Unsteady) -> Option<Self> {
        let reason = format!(
            "The cores changed their speed during {} % of the trials. The other trials err for the same reason.",
            percent::short(unsteady.shifted)
        );
        let action = Some(Action::QuietHost);
        unsteady.refuses().then_some(Self { effect: Some(Effect::Refuse), action, reason })
    }

    /// The doubt about a range that reaches up, since the subject waited for its core.
    pub(super) fn of_wider_range(core_time: &CoreTime) -> Option<Self> {
        let reason = format!(
            "The server waited for its core for {} % of the time, while other programs had it. The figure's range reaches up \
             to the rate that it might have had without them.",
            percent::short(core_time.waited)
        );
        let action = Some(Action::QuietHost);
        core_time.reaches_up().then_some(Self { effect: Some(Effect::Cap(Grade::C)), action, reason })
    }

    /// The doubt about a range that is wider, since the host is unsteady.
    pub(super) fn of_unsteady_range(unsteady: Unsteady) -> Option<Self> {
        let reason = format!(
            "The cores changed their speed during {} % of the trials, so the figure's range is wider than the others show.",
            percent::short(unsteady.shifted)
        );
        let action = Some(Action::QuietHost);
        unsteady.widens().then_some(Self { effect: None, action, reason })
    }

    /// The doubt about bounds that do not hold the figure.
    pub(super) fn of_bounds(bounds: &OuterBounds, figure: &Interval, case: &Case<'_>) -> Option<Self> {
        let reason = bounds.why_left_out(figure.median, case)?;
        Some(Self { effect: None, action: None, reason })
    }

    /// The doubt about a figure that undisturbed trials of most starts refute: beyond its range, they went the other way.
    pub(super) fn of_trials(case: &Case<'_>, figure: &Interval) -> Option<Self> {
        let is_refuted = |is_beyond: &dyn Fn(f64) -> bool, against: bool| {
            let refutes = |start: &&Start<'_>| {
                let beyond: Vec<bool> = start
                    .outcomes
                    .iter()
                    .filter(|(qps, _)| is_beyond(*qps))
                    .map(|(_, met)| *met == against)
                    .collect();
                let against = beyond.iter().filter(|is_against| **is_against).count();
                against >= AGAINST_LEAST && against * 2 > beyond.len()
            };
            let measured = || case.starts.iter().filter(|start| start.verdict.failure.is_none());
            measured().filter(refutes).count() * 2 > measured().count()
        };
        let found = case.rate(figure.median);
        let reason = if is_refuted(&|qps| qps > figure.high, true) {
            let high = case.rate(figure.high);
            format!(
                "The trials together show {found}, but most of the undisturbed ones above {high} met the goal."
            )
        } else if is_refuted(&|qps| qps < figure.low, false) {
            let low = case.rate(figure.low);
            format!(
                "The trials together show {found}, but most of the undisturbed ones below {low} missed the goal."
            )
        } else {
            return None;
        };
        Some(Self { effect: Some(Effect::Refuse), action: Some(Action::MoreTime), reason })
    }

    /// The doubt about a figure whose limit is not shown.
    pub(super) fn of_limit(bottleneck: &Bottleneck) -> Option<Self> {
        let reason = match bottleneck.resource {
            Resource::Host => "The host disturbed every trial that failed, so nothing shows what the server lacked.".to_owned(),
            Resource::SubjectCoreShared => {
                "Other programs had the server's cores for more than a tenth of the time, so its rate may be higher.".to_owned()
            }
            Resource::SubjectStill | Resource::SubjectSocketBuffer => {
                let busy = bottleneck.thread.as_ref()?.busy;
                (busy < BUSY).then(|| {
                    let busy = percent::short(busy);
                    format!("The server's busiest thread was {busy} % busy when queries were lost, so its CPU was not the limit.")
                })?
            }
            _ => return None,
        };
        let is_of_host = matches!(bottleneck.resource, Resource::Host | Resource::SubjectCoreShared);
        let action = is_of_host.then_some(Action::QuietHost);
        Some(Self { effect: Some(Effect::Cap(Grade::D)), action, reason })
    }

    /// The doubts about a figure. For a refused figure, its precision is left out.
    pub(super) fn of_figure(
        case: &Case<'_>,
        (figure_qps, share): (Option<Interval>, Option<Interval>),
        is_refused: bool,
    ) -> Vec<Self> {
        let Some(interval) = figure_qps else {
            let reason = why_no_figure(case);
            return vec![Self { effect: Some(Effect::Refuse), action: None, reason }];
        };
        let mut doubts = Self::of_starts(case, &interval);
        doubts.extend(Self::of_echo(case, share));
        doubts.extend(Self::of_spread(case, &interval).filter(|_| !is_refused));
        let of_searches = of_searches(case, is_refused).into_iter();
        doubts.extend(of_searches.map(|reason| Self { effect: None, action: None, reason }));
        doubts
    }

    /// The number of starts, the failed ones, and those that stand out.
    pub(super) fn of_starts(case: &Case<'_>, interval: &Interval) -> Vec<Self> {
        let mut doubts = Vec::new();
        let mut note = |reason: String| doubts.push(Self { effect: None, action: None, reason });
        let failures: Vec<&str> = failures(case.starts).collect();
        if let Some(first) = failures.first() {
            note(format!("{} of {} starts failed: {first}", failures.len(), case.starts.len()));
        }
        if let Some(reason) = outlying_starts(case) {
            note(reason);
        }
        if case.was_running && interval.count > 1 {
            let reason = "The server was running before: each start is one session with the same process. The \
                          range shows how sessions differ, not how a restarted server would.";
            note(reason.into());
        }
        let covers = interval.coverage * 100.0;
        let (cap, reason) = match interval.count {
            1 => (Grade::C, "The figure rests on one start, so how much starts differ is not known.".into()),
            starts @ ..ENOUGH_STARTS if case.figured().is_some() => {
                let few = format!(
                    "The figure rests on {starts} starts, too few to know well how much starts differ."
                );
                (Grade::B, few)
            }
            starts @ ..ENOUGH_STARTS => {
                let reason = format!(
                    "The figure rests on {starts} starts: its range covers the truth with {covers:.0} %, and with 97 % \
                     if there were six."
                );
                (Grade::B, reason)
            }
            _ => return doubts,
        };
        // A search has one start, however long it lasts.
        let action = (!case.names_flags).then_some(Action::MoreTime);
        doubts.push(Self { effect: Some(Effect::Cap(cap)), action, reason });
        doubts
    }

    /// An echo that was not measured, or that does not bound the figure.
    fn of_echo(case: &Case<'_>, share: Option<Interval>) -> Vec<Self> {
        let unmeasured = case.player_qps.is_none().then(|| Self {
            effect: Some(Effect::Cap(Grade::C)),
            action: Some(Action::MeasureEcho),
            reason: "The player's own ceiling was not measured, so nothing shows that it was not the limit."
                .into(),
        });
        let share = share.map(|share| share.median).filter(|it| *it > ABOVE);
        let above = share.map(|share| {
            let of_it = match Form::from_ratios(&[share]) {
                Form::Percent => format!("{:.0} % of", share * 100.0),
                Form::Factor => format!("{} times", times(share)),
            };
            Self {
                effect: None,
                action: None,
                reason: format!("It is faster than its echo ({of_it} its rate), so the echo is no ceiling."),
            }
        });
        unmeasured.into_iter().chain(above).collect()
    }

    /// How precisely the figure is known; empty if that is enough.
    fn of_spread(case: &Case<'_>, interval: &Interval) -> impl Iterator<Item = Self> {
        // The estimate accounts for what buffers hid.
        let hidden = if case.figured().is_some() { None } else { hidden_share(case.starts) };
        let (half, hidden) = (interval.half_width(), hidden.unwrap_or(0.0));
        let spread = half.max(hidden);
        let (cap, only) = match spread {
            ..=0.01 => (None, ""),
            ..=0.05 => (Some(Grade::B), ""),
            ..=0.1 => (Some(Grade::C), ""),
            _ => (Some(Grade::D), " only"),
        };
        let reason = if hidden > half {
            format!("Buffers may hide up to {:.1} % of the load.", hidden * 100.0)
        } else {
            format!("The figure is known to ± {:.1} %{only}.", half * 100.0)
        };
        cap.map(|cap| Self { effect: Some(Effect::Cap(cap)), action: Some(Action::MoreTime), reason })
            .into_iter()
    }
}

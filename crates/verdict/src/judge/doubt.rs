//! The doubts about a figure: its warnings, its starts, its echo and its range.

use super::case::Case;
use super::searches::{failures, hidden_share, of_searches, outlying_starts, why_no_figure};
use crate::advice::{Action, Advice};
use crate::change::{Form, times};
use crate::grade::Grade;
use crate::interval::Interval;
use crate::lack::PlayerLack;
use crate::warning::{Code, Effect, Warning};

/// One reason for a grade.
pub(super) struct Doubt {
    pub(super) effect: Option<Effect>,
    pub(super) reason: String,
    action: Option<Action>,
}

/// A verdict should rest on this many starts: fewer cannot reach an interval of 95 %.
const ENOUGH_STARTS: u32 = 6;

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
            Some(Effect::Refuse | Effect::RedoThenRefuse) => Self::REFUSES,
            Some(Effect::Cap(grade)) => 3 - grade as u8,
            Some(Effect::DownOne) => 4,
            Some(Effect::Mention) | None => 5,
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
        let action = Some(Action::of_warning(Code::NoisyHost, None));
        Self { effect: Some(Effect::Cap(Grade::C)), action, reason: reason.into() }
    }

    /// The doubts about a figure. For a refused figure, its precision is left out.
    pub(super) fn of_figure(case: &Case<'_>, figure_qps: Option<Interval>, is_refused: bool) -> Vec<Self> {
        let Some(interval) = figure_qps else {
            let reason = why_no_figure(case);
            return vec![Self { effect: Some(Effect::Refuse), action: None, reason }];
        };
        let mut doubts = Self::of_starts(case, &interval);
        doubts.extend(Self::of_echo(case, &interval));
        doubts.extend(Self::of_spread(case, &interval).filter(|_| !is_refused));
        let of_searches = of_searches(case, is_refused).into_iter();
        doubts.extend(of_searches.map(|reason| Self { effect: None, action: None, reason }));
        doubts
    }

    /// The number of starts, the failed ones, and those that stand out.
    fn of_starts(case: &Case<'_>, interval: &Interval) -> Vec<Self> {
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
    fn of_echo(case: &Case<'_>, interval: &Interval) -> Vec<Self> {
        let unmeasured = case.player_qps.is_none().then(|| Self {
            effect: Some(Effect::Cap(Grade::C)),
            action: Some(Action::MeasureEcho),
            reason: "The player's own ceiling was not measured, so nothing shows that it was not the limit."
                .into(),
        });
        let share = case.echo_qps.map(|echo_qps| interval.median / echo_qps).filter(|it| *it > ABOVE);
        let above = share.map(|share| {
            let of_it = match Form::of(&[share]) {
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
        let spread = interval.half_width().max(hidden.unwrap_or(0.0));
        let (cap, only) = match spread {
            ..=0.01 => (None, ""),
            ..=0.05 => (Some(Grade::B), ""),
            _ => (Some(Grade::C), " only"),
        };
        let reason = format!("The figure is known to ± {:.1} %{only}.", spread * 100.0);
        cap.map(|cap| Self { effect: Some(Effect::Cap(cap)), action: Some(Action::MoreTime), reason })
            .into_iter()
    }
}

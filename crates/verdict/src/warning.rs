//! Warnings about a figure. Every warning has a code, the figure behind it, advice, and an effect on the grade.
//! They are the table of `docs/method/warnings.md`.

mod canary;
mod clock;
mod connections;
mod effect;
mod host;
mod limit;
mod places;
mod player;
mod players;
mod sending;
mod start;
mod subject;
mod upstream;

use std::fmt::{self, Write as _};

use kqps_observation::{Cell, Trial};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{Display, EnumMessage, EnumProperty, IntoStaticStr, VariantArray};

use crate::rate::rate;

pub use canary::canary;
pub use clock::clock_step;
pub use connections::{delayed_ack, listen_overflow, lost_syn};
pub use effect::{Effect, REDOS};
pub use host::{is_noise_known, noisy_host, shared_cores, single_host, subject_cores};
pub use limit::{rate_limited, truncated};
pub use places::few_places;
pub(crate) use player::{BUSY, starved_by};
pub use player::{
    Starved, busiest_player, busiest_thread, client_drops, lagging, player_headroom, player_limited,
    player_without_cpu_time, starved,
};
pub use sending::{most_refused, refusal, send_failed};
pub use start::{late_player, skewed_start};
pub use subject::{busiest_to_mean, no_steady_state, refuting, uneven, unexplained_loss, wrong_answers};
pub use upstream::upstream_limited;

/// The kind of a warning, with the names of METHOD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(Display, EnumMessage, EnumProperty, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Code {
    #[strum(message = "replies were wrong. A fast wrong answer is no answer, so there is no figure.")]
    WrongAnswers,
    #[strum(message = "the server, or a device in front of it, limits the rate of its responses. If the \
                       limit itself was measured, there is no figure.")]
    RateLimited,
    #[strum(message = "many replies were truncated, so clients would ask again over TCP: their answers are \
                       too large for UDP, or the server limits the rate of its responses.")]
    Truncated,
    #[strum(
        message = "the player, and not the server, may have been the limit: it was busy, or its ceiling \
                       is too near to the figure."
    )]
    #[strum(props(flags = "-T, --cpus"))]
    PlayerLimited,
    #[strum(
        message = "the servers of the Internet in a box, and not the resolver, may have been the limit: \
                       they were busy."
    )]
    UpstreamLimited,
    #[strum(message = "the player's window, or every connection of it, was full while the server had time: \
                       the server may be faster.")]
    #[strum(props(flags = "-c, -q"))]
    FewPlaces,
    #[strum(message = "queries left late, or not at all. Such trials are made again, and a figure that \
                       rests on one is refused.")]
    #[strum(props(flags = "-T, --cpus, --subject-cpus"))]
    Lagging,
    #[strum(message = "the kernel refused to send many of the queries, for the reason that is named: they \
                       say nothing about the server.")]
    SendFailed,
    #[strum(message = "the player's own sockets dropped replies. Such trials are made again, and a figure \
                       that rests on one is refused.")]
    #[strum(props(flags = "-b, -c, -T"))]
    ClientDrops,
    #[strum(message = "one of several players began later than asked. Such trials are made again, and a \
                       figure that rests on one is refused.")]
    LatePlayer,
    #[strum(message = "several players may have begun too far apart, as their clocks are not known well \
                       enough. Such trials are made again, and a figure that rests on one is refused.")]
    SkewedStart,
    #[strum(message = "the wall clock was set while a load was played, so that replies had wrong times. \
                       Such trials are made again, and a figure that rests on one is refused.")]
    ClockStep,
    #[strum(message = "player and server ran on a common core.")]
    #[strum(props(flags = "--cpus, --subject-cpus"))]
    SharedCores,
    #[strum(message = "the server's threads may run on other cores than those that it is said to have.")]
    #[strum(props(flags = "--subject-cpus"))]
    SubjectCores,
    #[strum(message = "player and server were on one machine, and share its memory, caches and kernel: the \
                       figure is for comparison.")]
    SingleHost,
    #[strum(message = "other programs, or the hypervisor, took time from the cores that were used.")]
    NoisyHost,
    #[strum(message = "one of the server's workers did much more than the mean of all.")]
    #[strum(props(flags = "-c"))]
    Uneven,
    #[strum(message = "a load that had met the goal failed when it was tried again at the end of the \
                       search: it does not count as a bound.")]
    Drifted,
    #[strum(message = "the answered rate still moved when the warm-up ended.")]
    NoSteadyState,
    #[strum(message = "even the greatest load that was tried met the goal: the server may be faster.")]
    #[strum(props(flags = "--max"))]
    Irregular,
    #[strum(message = "the queue of connections that the server had not accepted yet was full: the kernel \
                       dropped requests.")]
    ListenOverflow,
    #[strum(message = "requests for connections were lost and sent again: many connections took 1 s or 3 s \
                       to be made.")]
    LostSyn,
    #[strum(message = "the server's kernel held replies back until the client's acknowledged what came \
                       before, about 40 ms later. Most clients wait as long, so the figure stands.")]
    DelayedAck,
    #[strum(message = "queries vanished, and no counter says where, or the server read them and did not \
                       answer, while it was not busy.")]
    UnexplainedLoss,
    #[strum(message = "an echo at a fixed rate, which is played every few cells, gave other figures than \
                       before: the host changed meanwhile.")]
    Canary,
}

impl Code {
    /// All codes, in the order in which they are reported.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The code's name, as printed and serialised.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Its meaning, as the glossary has it.
    pub fn meaning(self) -> &'static str {
        self.get_message().unwrap_or_default()
    }

    /// The flags of `kqps load` and `kqps find` that carry out the advice.
    fn flags(self) -> Option<&'static str> {
        self.get_str("flags")
    }
}

/// A doubt about a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Warning {
    /// The kind of the warning.
    pub code: Code,
    /// The observation and what to do about it, in one or two sentences.
    pub advice: String,
    /// The figure that crossed its limit: a share from 0 to 1, a count, or microseconds, as the advice says.
    /// `None` if there is none.
    pub figure: Option<f64>,
    /// The effect on the grade.
    pub effect: Effect,
}

impl Warning {
    fn new(code: Code, effect: Effect, figure: impl Into<Option<f64>>, advice: String) -> Self {
        Self { code, advice, figure: figure.into(), effect }
    }

    /// The effect on the grade.
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Adds the flags of `kqps load` and `kqps find` to the advice. Other commands lack them.
    #[must_use]
    pub fn with_flags(mut self) -> Self {
        if let Some(flags) = self.code.flags() {
            let _ = write!(self.advice, " See {flags}.");
        }
        self
    }

    /// No upper bound was found. `max_qps` is the greatest load that was tried, and `what` it
    /// counts: `queries` or `connections`.
    pub fn irregular(max_qps: f64, what: &str) -> Self {
        let advice = format!(
            "Even the greatest load tried, {} {what} a second, met the goal: the subject may be faster. Raise the \
             greatest load.",
            rate(max_qps)
        );
        Self::new(Code::Irregular, Effect::DownOne, max_qps, advice)
    }

    /// A load that had met the goal failed its re-test. `what` it counts is as for [`Self::irregular`].
    pub fn drifted(refuted_qps: f64, what: &str) -> Self {
        let advice = format!(
            "At the end of the search {} {what} a second no longer met the goal, and do not count as a bound: the \
             subject or the host changed meanwhile. Search again on a quieter machine, or warm the subject up for \
             longer.",
            rate(refuted_qps)
        );
        Self::new(Code::Drifted, Effect::DownOne, refuted_qps, advice)
    }

    /// The lower bound met the goal in `good` of its re-test's `trials`, which is enough, and missed it in several. `what` it
    /// counts is as for [`Self::irregular`].
    pub fn drifted_in_part(lower_qps: f64, what: &str, good: usize, trials: usize) -> Self {
        let advice = format!(
            "At the end of the search {} {what} a second met the goal in {good} of {trials} trials only: the subject or \
             the host changed meanwhile. Search again on a quieter machine, or warm the subject up for longer.",
            rate(lower_qps)
        );
        Self::new(Code::Drifted, Effect::DownOne, lower_qps, advice)
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.advice)
    }
}

/// Known facts of a trial's surroundings beside its own record. Unknown facts are not judged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Surroundings {
    /// Whether player and subject run on one host. With `None`, this is known only for loopback targets and for
    /// subjects that were watched.
    pub one_host: Option<bool>,
    /// The cores that the subject was given; empty if it was given none.
    pub subject_cpus: Vec<u32>,
    /// How many of the subject's threads answer queries.
    pub workers: Option<u32>,
    /// Whether the trial measures a ceiling, so that the player is meant to be at its limit.
    pub ceiling: bool,
}

impl Surroundings {
    /// The surroundings of a cell's trials, as if none of them measured a ceiling.
    pub fn from_cell(cell: &Cell) -> Self {
        Self {
            one_host: cell.target.map(|target| target.on_this_host),
            subject_cpus: cell.subject_cpus.clone(),
            workers: (cell.workers > 0).then_some(cell.workers),
            ceiling: false,
        }
    }
}

/// The warnings that one trial's record causes, in the order of METHOD's table.
pub fn of_trial(trial: &Trial, surroundings: &Surroundings) -> Vec<Warning> {
    let of_player = if surroundings.ceiling { None } else { player_limited(trial) };
    [
        of_player,
        upstream_limited(trial),
        few_places(trial),
        lagging(trial),
        send_failed(trial),
        client_drops(trial),
        late_player(trial),
        skewed_start(trial),
        clock_step(trial),
        shared_cores(trial, surroundings),
        subject_cores(trial, surroundings),
        single_host(trial, surroundings),
        noisy_host([trial], surroundings),
        uneven(trial, surroundings),
        wrong_answers(trial),
        rate_limited(trial),
        truncated(trial),
        listen_overflow(trial),
        lost_syn(trial),
        delayed_ack(trial),
        unexplained_loss(trial),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_printed_as_they_are_stored() {
        let expected = "wrong-answers rate-limited truncated player-limited upstream-limited few-places lagging send-failed \
             client-drops late-player skewed-start clock-step shared-cores subject-cores single-host \
             noisy-host uneven drifted no-steady-state irregular listen-overflow lost-syn delayed-ack \
             unexplained-loss canary";
        let names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.join(" "), expected);
        for code in Code::ALL {
            assert_eq!(serde_json::to_value(code).unwrap(), code.name());
            assert_eq!(code.to_string(), code.name());
            assert!(code.meaning().ends_with('.'));
        }
    }
}

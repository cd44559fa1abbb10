//! Actions against the doubts in the figures of a run: the few sentences that a reader should see first. The reason of
//! each doubt states it in full. Here, doubts that ask for the same action share one sentence.

pub mod summary;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lack::PlayerLack;
use crate::warning::Code;

/// An action that removes a doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Check that the zones fit the queries.
    CheckZones,
    /// Switch off rate limits on responses.
    LiftLimit,
    /// Ask over TCP for answers that came truncated.
    AskOverTcp,
    /// Find out why the kernel refused to send.
    CheckRoute,
    /// Give the player more threads.
    MoreThreads,
    /// Give the player more connections, or a larger window.
    MorePlaces,
    /// Keep other work off the player's cores.
    PinPlayer,
    /// Give the player more sockets or larger receive buffers.
    MoreSockets,
    /// Put the player and the subject on separate cores.
    PinApart,
    /// Let players on several hosts begin together.
    StartTogether,
    /// Let no program set the wall clock.
    LeaveClock,
    /// State which cores the subject uses, or confine it to them.
    SayCores,
    /// Play from another host.
    SecondHost,
    /// Stop other programs on this host.
    QuietHost,
    /// Fix the clock of the cores.
    FixClock,
    /// Use more sockets, so that flows spread over the subject's workers.
    SpreadFlows,
    /// Warm up for longer.
    WarmUp,
    /// Let the search try greater loads.
    GreaterLoads,
    /// Give the subject a longer listen queue, or more sockets that accept connections.
    AcceptFaster,
    /// Find out where requests for connections are lost.
    FindLostRequests,
    /// Let the subject send each reply at once.
    SendAtOnce,
    /// Look for a packet filter or a rate limit that drops queries.
    FindFilter,
    /// Measure an echo as well.
    MeasureEcho,
    /// Give the run more time. It then makes more starts and finds closer bounds.
    MoreTime,
}

/// The action that one reason for a grade asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// How grave the reason is: 0 refuses the figure, and 6 leaves the grade as it is.
    pub gravity: u8,
    /// The action that removes the reason.
    pub action: Action,
}

impl Action {
    /// The action that a warning asks for, beside what the player lacked if it was the bottleneck.
    pub(crate) fn of_warning(code: Code, lack: Option<PlayerLack>) -> Self {
        match code {
            Code::PlayerLimited if lack == Some(PlayerLack::Ids) => Self::MoreSockets,
            Code::WrongAnswers => Self::CheckZones,
            Code::RateLimited => Self::LiftLimit,
            Code::Truncated => Self::AskOverTcp,
            Code::PlayerLimited => Self::MoreThreads,
            Code::FewPlaces => Self::MorePlaces,
            Code::Lagging => Self::PinPlayer,
            Code::SendFailed => Self::CheckRoute,
            Code::ClientDrops => Self::MoreSockets,
            Code::LatePlayer | Code::SkewedStart => Self::StartTogether,
            Code::ClockStep => Self::LeaveClock,
            Code::SharedCores => Self::PinApart,
            Code::SubjectCores => Self::SayCores,
            Code::SingleHost => Self::SecondHost,
            Code::NoisyHost => Self::QuietHost,
            Code::Uneven => Self::SpreadFlows,
            Code::Drifted | Code::NoSteadyState => Self::WarmUp,
            Code::Irregular => Self::GreaterLoads,
            Code::ListenOverflow => Self::AcceptFaster,
            Code::LostSyn => Self::FindLostRequests,
            Code::DelayedAck => Self::SendAtOnce,
            Code::UnexplainedLoss => Self::FindFilter,
            Code::Canary => Self::FixClock,
        }
    }

    /// A sentence of advice. `whom` names the servers that it concerns.
    pub fn sentence(self, whom: &str) -> String {
        match self {
            Self::CheckZones => {
                format!("Check the zones of {whom}, and which answers the query file expects.")
            }
            Self::LiftLimit => format!("Switch off the limit on the responses of {whom}."),
            Self::AskOverTcp => {
                format!("Ask {whom} over TCP for answers that came truncated: are they large, or limited?")
            }
            Self::CheckRoute => {
                format!(
                    "Find out why the kernel refuses to send to {whom}: look at routes and packet filters."
                )
            }
            Self::MoreThreads => "Give the player more threads on cores of their own.".into(),
            Self::MorePlaces => "Give the player more connections, or a larger window.".into(),
            Self::PinPlayer => "Keep other work and interrupts off the player's cores.".into(),
            Self::MoreSockets => "Give the player more sockets, or larger buffers for them.".into(),
            Self::PinApart => format!("Give the player other cores than {whom}."),
            Self::LeaveClock => "Let no program set the wall clock while kqps measures.".into(),
            Self::StartTogether => {
                "Let the players begin together: by links to their hosts with less delay, or with longer trials.".into()
            }
            Self::SayCores => format!("Say which cores {whom} may use, or confine it to those (taskset)."),
            Self::SecondHost => "Play from a second host for rates that hold elsewhere.".into(),
            Self::QuietHost => "Stop what else runs on this host, or use a machine of your own.".into(),
            Self::FixClock => "Fix the clock of the cores: governor performance, no turbo.".into(),
            Self::SpreadFlows => {
                format!("Use more sockets, so that queries spread over the workers of {whom}.")
            }
            Self::WarmUp => format!("Warm {whom} up for longer."),
            Self::GreaterLoads => format!("Let the search try greater loads at {whom}."),
            Self::AcceptFaster => {
                format!("Give {whom} a longer listen queue, or more sockets that accept connections.")
            }
            Self::FindLostRequests => {
                format!(
                    "Find out where requests for connections to {whom} are lost: its listen queue, or the path."
                )
            }
            Self::SendAtOnce => {
                format!("Let {whom} send each reply at once (TCP_NODELAY): replies wait for delayed acknowledgements.")
            }
            Self::FindFilter => {
                format!("Look for a packet filter before {whom}, or a limit on the rate of responses.")
            }
            Self::MeasureEcho => {
                format!("Measure an echo beside {whom}, which shows whether the player was the limit.")
            }
            Self::MoreTime => {
                format!("Measure {whom} for longer: more trials and starts bring closer ranges.")
            }
        }
    }
}

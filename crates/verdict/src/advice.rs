//! Actions against the doubts in the figures of a run: the few sentences that a reader should see first. The reason of
//! each doubt states it in full. Here, doubts that ask for the same action share one sentence.

pub mod summary;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::EnumMessage;

use crate::lack::PlayerLack;
use crate::warning::Code;

/// An action that removes a doubt.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EnumMessage, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Check that the zones fit the queries.
    #[strum(message = "Check the zones of {whom}, and which answers the query file expects.")]
    CheckZones,
    /// Switch off rate limits on responses.
    #[strum(message = "Switch off the limit on the responses of {whom}.")]
    LiftLimit,
    /// Ask over TCP for answers that came truncated.
    #[strum(message = "Ask {whom} over TCP for answers that came truncated: are they large, or limited?")]
    AskOverTcp,
    /// Find out why the kernel refused to send.
    #[strum(message = "Find out why the kernel refuses to send to {whom}: look at routes and packet \
                       filters.")]
    CheckRoute,
    /// Give the player more threads.
    #[strum(message = "Give the player more threads on cores of their own.")]
    MoreThreads,
    /// Ask for more hits, so that less is asked upstream.
    #[strum(message = "Ask {whom} for more names that it knows, or give the servers behind it a core of \
                       their own.")]
    MoreHits,
    /// Give the player more connections, or a larger window.
    #[strum(message = "Give the player more connections, or a larger window.")]
    MorePlaces,
    /// Keep other work off the player's cores.
    #[strum(message = "Keep other work and interrupts off the player's cores.")]
    PinPlayer,
    /// Give the player more sockets or larger receive buffers.
    #[strum(message = "Give the player more sockets, or larger buffers for them.")]
    MoreSockets,
    /// Put the player and the subject on separate cores.
    #[strum(message = "Give the player other cores than {whom}.")]
    PinApart,
    /// Let players on several hosts begin together.
    #[strum(message = "Let the players begin together: by links to their hosts with less delay, or with \
                       longer trials.")]
    StartTogether,
    /// Let no program set the wall clock.
    #[strum(message = "Let no program set the wall clock while kqps measures.")]
    LeaveClock,
    /// State which cores the subject uses, or confine it to them.
    #[strum(message = "Say which cores {whom} may use, or confine it to those (taskset).")]
    SayCores,
    /// Play from another host.
    #[strum(message = "Play from a second host for rates that hold elsewhere.")]
    SecondHost,
    /// Stop other programs on this host.
    #[strum(message = "Stop what else runs on this host, or use a machine of your own.")]
    QuietHost,
    /// Fix the clock of the cores.
    #[strum(message = "Fix the clock of the cores: governor performance, no turbo.")]
    FixClock,
    /// Use more sockets, so that flows spread over the subject's workers.
    #[strum(message = "Use more sockets, so that queries spread over the workers of {whom}.")]
    SpreadFlows,
    /// Warm up for longer.
    #[strum(message = "Warm {whom} up for longer.")]
    WarmUp,
    /// Let the search try greater loads.
    #[strum(message = "Let the search try greater loads at {whom}.")]
    GreaterLoads,
    /// Give the subject a longer listen queue, or more sockets that accept connections.
    #[strum(message = "Give {whom} a longer listen queue, or more sockets that accept connections.")]
    AcceptFaster,
    /// Find out where requests for connections are lost.
    #[strum(message = "Find out where requests for connections to {whom} are lost: its listen queue, or \
                       the path.")]
    FindLostRequests,
    /// Let the subject send each reply at once.
    #[strum(message = "Let {whom} send each reply at once (TCP_NODELAY): replies wait for delayed \
                       acknowledgements.")]
    SendAtOnce,
    /// Look for a packet filter or a rate limit that drops queries.
    #[strum(message = "Look for a packet filter before {whom}, or a limit on the rate of responses.")]
    FindFilter,
    /// Measure an echo as well.
    #[strum(message = "Measure an echo beside {whom}, which shows whether the player was the limit.")]
    MeasureEcho,
    /// Give the run more time. It then makes more starts and finds closer bounds.
    #[strum(message = "Measure {whom} for longer: more trials and starts bring closer ranges.")]
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
            Code::UpstreamLimited => Self::MoreHits,
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
        self.get_message().unwrap_or_default().replace("{whom}", whom)
    }
}

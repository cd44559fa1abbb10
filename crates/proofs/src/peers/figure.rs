//! Figures that rows compare, from one measurement on each side, and reports of players.

use kqps_observation::SubjectFacts;
use serde::Deserialize;

/// The figure of both sides that a row compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Figure {
    /// Correct answers a second, or handshakes of players that make nothing else.
    #[default]
    AnsweredRate,
    /// CPU seconds of the player per million answers, at this load on both sides, queries a second.
    PlayerCpu(u32),
    /// CPU seconds of the server per million answers, at this load on both sides, queries a second.
    ServerCpu(u32),
    /// Proportional memory of the server, bytes.
    Memory,
    /// Seconds from the start of the server until it answered.
    LoadTime,
    /// The median of latency, microseconds. Its difference counts.
    Latency,
}

impl Figure {
    /// The load whose cost the figure is, queries a second. It can be compared only if both sides carry it.
    pub(super) fn equal_qps(self) -> Option<u32> {
        match self {
            Self::PlayerCpu(at_qps) | Self::ServerCpu(at_qps) => Some(at_qps),
            Self::AnsweredRate | Self::Memory | Self::LoadTime | Self::Latency => None,
        }
    }

    /// Whether a row compares the difference, microseconds, and not the ratio.
    pub(super) fn is_difference(self) -> bool {
        self == Self::Latency
    }

    /// The ratio of side A's figure to side B's, or the difference.
    pub(super) fn compare(self, a: f64, b: f64) -> f64 {
        if self.is_difference() { a - b } else { a / b }
    }
}

/// The report of a player on its trial.
pub(super) struct Reported {
    /// Correct answers, or handshakes if it makes nothing else.
    pub(super) answered: u64,
    pub(super) answered_qps: f64,
    /// CPU seconds of the player.
    pub(super) cpu_s: f64,
    /// The median of latency, microseconds, if the player reports it.
    pub(super) latency_p50_us: Option<u64>,
    /// Facts about the server, if the player watched it.
    pub(super) server: Option<SubjectFacts>,
}

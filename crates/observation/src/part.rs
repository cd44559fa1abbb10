//! Each player's part in a trial that several hosts took part in, and how its start was timed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::accounts::Accounts;
use crate::histogram::Quantiles;

/// The part of one player in a trial of several hosts. The trial has the sums and the merged histograms of all players.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlayerPart {
    /// The name of the player's host, as in [`crate::Run::hosts`].
    pub host: String,
    /// Index into [`crate::Trial::players`], and of the player's host into [`crate::Trial::hosts`].
    pub player: u32,
    /// The fate of every query of this player.
    pub accounts: Accounts,
    /// Cause → its unsent queries, as in [`crate::Trial::unsent_causes`].
    #[serde(default)]
    pub unsent_causes: BTreeMap<String, u64>,
    /// The kernel's error name → its queries that the kernel refused.
    #[serde(default)]
    pub send_failed_causes: BTreeMap<String, u64>,
    /// Queries per second that it sent.
    pub offered_qps: f64,
    /// Correct replies per second that it got.
    pub answered_qps: f64,
    /// Time from the intended send to the reply's arrival, on the player's own clock.
    pub latency_us: Quantiles,
    /// The time at which the kernel took a query, minus its intended send time.
    pub lag_us: Quantiles,
    /// How its start was timed.
    pub start: StartFacts,
}

/// How the start of one player was timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StartFacts {
    /// By how much later than asked the player began, nanoseconds. 0 if it began in time.
    pub late_ns: u64,
    /// The monotonic clock (`CLOCK_MONOTONIC`) of the player's host minus that of the host that ran kqps, nanoseconds.
    pub offset_ns: i64,
    /// The greatest error of `offset_ns`, nanoseconds.
    pub uncertainty_ns: u64,
}

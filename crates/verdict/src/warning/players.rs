//! The players of a trial, one by one and together. One record has either a single player, or the part of each of
//! several players on hosts of their own.

use std::collections::BTreeMap;

use kqps_observation::trial::{PlayerFacts, UNSENT_IDS, held_back};
use kqps_observation::{Accounts, Histogram, HostFacts, Quantiles, Trial};

/// A player of a trial, and the host that it ran on.
#[derive(Clone, Copy)]
pub(super) struct Player<'a> {
    /// The name of its host, if hosts are named.
    pub(super) host: Option<&'a str>,
    pub(super) facts: &'a PlayerFacts,
    pub(super) machine: &'a HostFacts,
}

/// All players.
pub(super) fn all(trial: &Trial) -> Vec<Player<'_>> {
    let names = trial.parts.iter().map(|part| Some(part.host.as_str())).chain(std::iter::repeat(None));
    let players = trial.players.iter().zip(trial.hosts.iter()).zip(names);
    players.map(|((facts, machine), host)| Player { host, facts, machine }).collect()
}

/// The counts and times of one player, or of all players together.
pub(super) struct Share<'a> {
    /// The name of the player's host; `None` for all players together.
    pub(super) host: Option<&'a str>,
    pub(super) accounts: &'a Accounts,
    unsent_causes: &'a BTreeMap<String, u64>,
    pub(super) send_failed_causes: &'a BTreeMap<String, u64>,
    pub(super) latency_us: &'a Quantiles,
    pub(super) lag_us: &'a Quantiles,
    /// The encoded histogram of lag, which a record has of all players together.
    lag: Option<&'a String>,
}

/// The share of all players together, and then that of each of several players.
pub(super) fn shares(trial: &Trial) -> Vec<Share<'_>> {
    let together = Share {
        host: None,
        accounts: &trial.accounts,
        unsent_causes: &trial.unsent_causes,
        send_failed_causes: &trial.send_failed_causes,
        latency_us: &trial.latency_us,
        lag_us: &trial.lag_us,
        lag: trial.histograms.get("lag"),
    };
    let each = trial.parts.iter().map(|part| Share {
        host: Some(&part.host),
        accounts: &part.accounts,
        unsent_causes: &part.unsent_causes,
        send_failed_causes: &part.send_failed_causes,
        latency_us: &part.latency_us,
        lag_us: &part.lag_us,
        lag: None,
    });
    std::iter::once(together).chain(each).collect()
}

impl Share<'_> {
    /// Queries that the player gave up. Those that a full window held back are left out, since the load demands that.
    pub(super) fn given_up(&self) -> u64 {
        self.accounts.unsent.saturating_sub(held_back(self.unsent_causes))
    }

    /// Queries of [`Self::given_up`] for which no ID was free.
    pub(super) fn without_id(&self) -> u64 {
        self.unsent_causes.get(UNSENT_IDS).copied().unwrap_or(0).min(self.given_up())
    }

    /// Queries of [`Self::given_up`] that the player came to too late.
    pub(super) fn missed(&self) -> u64 {
        self.given_up() - self.without_id()
    }

    /// [`Self::given_up`] as a share of the intended queries.
    pub(super) fn given_up_share(&self) -> f64 {
        self.given_up() as f64 / self.accounts.intended.max(1) as f64
    }

    /// The share of the intended queries that were not sent although the window was not full: given up, or refused by
    /// the kernel.
    pub(super) fn not_sent_share(&self) -> f64 {
        self.given_up_share() + self.accounts.send_failed as f64 / self.accounts.intended.max(1) as f64
    }

    /// The histogram of lag, if the record has it and it is not empty.
    pub(super) fn lag(&self) -> Option<Histogram> {
        self.lag.and_then(|text| Histogram::decode(text)).filter(|lag| !lag.is_empty())
    }
}

/// Words that name a host: ` on p1`; empty if there is no name.
pub(super) fn on(host: Option<&str>) -> String {
    host.map_or(String::new(), |host| format!(" on {host}"))
}

//! The hosts of a run that was played from other hosts than the one that ran kqps.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fingerprint::{BinaryFacts, Fingerprint};

/// A host that took part in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunHost {
    /// Its name in the file of hosts; unique in the run.
    pub name: String,
    /// The role of the host, by what ran on it.
    pub role: HostRole,
    /// The address at which its subjects listen, or from which its player sends.
    pub address: IpAddr,
    /// The facts of the host.
    pub fingerprint: Fingerprint,
    /// The kqps that ran there.
    pub kqps: BinaryFacts,
}

/// The role of a host, by what ran on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostRole {
    /// The subjects.
    Server,
    /// A player.
    Player,
}

//! The offer of a machine to a study: its cores, its capabilities, and the subjects that can be started on it.

use std::collections::BTreeMap;

use kqps_host::Topology;

use kqps_testbed::player_hosts::PlayerHosts;
use kqps_testbed::subject::Definition;

/// The machine and the subjects that a study is laid out for.
#[derive(Clone, Debug, Default)]
pub struct HostOffer {
    /// The cores and what they share.
    pub topology: Topology,
    /// Capability → the reason why the host lacks it.
    pub lacking: BTreeMap<String, String>,
    /// The subjects that can be started, by the words that the study uses for them.
    pub definitions: BTreeMap<String, Definition>,
    /// Subject → its version, if known.
    pub versions: BTreeMap<String, String>,
    /// The other subjects → the reason.
    pub absent: BTreeMap<String, String>,
    /// The hosts that play at the machine; `None` if it plays itself.
    pub players: Option<PlayerHosts>,
}

//! Where a run is measured: the machine of its subjects, and the hosts that play at it.

use std::collections::BTreeMap;

use kqps_host::{Topology, alone, split};
use kqps_kernel::probe;
use kqps_observation::Factors;

use crate::player_hosts::{PlayerHosts, Players, players_of};

/// The machine of the subjects, and the hosts that play at it.
#[derive(Clone, Debug, Default)]
pub struct Site {
    /// The cores that subjects may use.
    pub topology: Topology,
    /// Capability → the reason why the machine lacks it.
    pub lacking: BTreeMap<String, String>,
    /// The hosts that play; `None` if the machine is this host, and plays itself.
    pub players: Option<PlayerHosts>,
}

impl Site {
    /// This host alone.
    pub fn here() -> Self {
        let lacking = probe::probe()
            .into_iter()
            .filter_map(|capability| Some((capability.name.to_string(), capability.outcome.err()?)))
            .collect();
        Self { topology: Topology::read(), lacking, players: None }
    }

    /// The cores of a player with this many threads and of a subject with one worker.
    pub fn cpus(&self, threads: usize) -> (Vec<u32>, Vec<u32>) {
        let players = players_of(self.players.as_ref(), &Factors::default());
        if let Some(players) = players.ok().flatten() {
            let subject_cpus = self.subject_cpus(&players, threads);
            (players.first_cpus(threads, &subject_cpus), subject_cpus)
        } else {
            let split = split(&self.topology, threads, 1);
            (split.player_cpus, split.subject_cpus)
        }
    }

    fn subject_cpus(&self, players: &Players<'_>, threads: usize) -> Vec<u32> {
        match players.cores_beside_subject(threads) {
            0 => alone(&self.topology, 1),
            beside => split(&self.topology, beside, 1).subject_cpus,
        }
    }
}

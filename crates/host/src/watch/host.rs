//! The subject's host, if the player is on another one: a watch of its cores and its packets, beside that of the
//! subject.

use kqps_observation::merge::ServerFacts;
use kqps_observation::{HostFacts, ResidenceFacts};
use serde::{Deserialize, Serialize};

use super::player::{PlayerWatch, PlayerWatched};
use super::subject::SubjectSeen;
use super::{FOREIGN_CPU, cores, set_frequencies};
use crate::unreadable::noted;

/// A running watch of a host without a player. Counters of packets are those of this process's network namespace.
#[derive(Debug)]
pub struct HostWatch {
    /// The watch of a player without threads reads all that there is to read of a host.
    watch: PlayerWatch,
}

impl HostWatch {
    /// Takes the first reading. `known_pids` are the processes of this host that belong to the trial: the subject's.
    pub fn begin(known_pids: &[u32]) -> Self {
        Self { watch: PlayerWatch::begin(&PlayerWatched::default(), known_pids, None) }
    }

    /// Records that the load ended. CPU time is counted up to this call.
    pub fn sending_ended(&mut self) {
        self.watch.sending_ended();
    }

    /// Takes the second reading and returns the differences. The CPU time of other programs needs that of the subject:
    /// [`ServerSeen::into_facts`] adds it.
    pub fn end(self) -> HostFacts {
        self.watch.end().into_host()
    }
}

/// Observations on the subject's host. They can be sent to the host on which the parts of a trial are merged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerSeen {
    /// Observations of the subject.
    pub subject: SubjectSeen,
    /// The record of its host.
    pub host: HostFacts,
    /// How long queries stayed there, if packets were stamped.
    #[serde(default)]
    pub residence: Option<ResidenceFacts>,
}

impl ServerSeen {
    /// The records of what was seen.
    pub fn into_facts(self) -> ServerFacts {
        let Self { subject, mut host, residence } = self;
        host.unreadable.extend(subject.unreadable);
        let foreign_cpu_s = match &subject.facts {
            Some(_) => cores::foreign_cpu_s_alone(&subject.cores),
            None => {
                Err("the subject is not watched, so its CPU time cannot be separated from others'".into())
            }
        };
        set_frequencies(&mut host.cpus, &[&subject.cores]);
        host.foreign_cpu_s = noted(FOREIGN_CPU, foreign_cpu_s.map(Some), &mut host.unreadable);
        ServerFacts { subject: subject.facts, host, residence }
    }
}

#[cfg(test)]
mod tests {
    use kqps_observation::SubjectFacts;

    use super::*;
    use crate::ledger::SubjectSide;

    #[test]
    fn the_subjects_host_knows_the_time_of_others_if_the_subject_was_watched() {
        // Core 0 was busy for 1 s, of which the subject used 0.75 s. A tick of 10 ms is the resolution.
        let facts = SubjectFacts { pid: 7, ..SubjectFacts::default() };
        let subject = SubjectSeen {
            facts: Some(facts),
            side: SubjectSide::There,
            cores: cores::made_up("b", &[0], 0.75),
            ..SubjectSeen::default()
        };
        let seen = ServerSeen {
            subject: subject.clone(),
            host: HostFacts { wall_s: 2.0, ..HostFacts::default() },
            residence: Some(ResidenceFacts { pairs: 7, ..ResidenceFacts::default() }),
        };
        let sent: ServerSeen = serde_json::from_str(&serde_json::to_string(&seen).unwrap()).unwrap();
        assert_eq!(sent, seen);
        let facts = sent.into_facts();
        assert!((facts.host.foreign_cpu_s.unwrap() - 0.24).abs() < 1e-9, "{facts:?}");
        assert_eq!(facts.subject.unwrap().pid, 7);
        assert_eq!(facts.residence.unwrap().pairs, 7);

        let unwatched = ServerSeen { subject: SubjectSeen { facts: None, ..subject }, ..seen };
        let facts = unwatched.into_facts();
        assert_eq!((facts.host.foreign_cpu_s, facts.subject), (None, None));
        assert!(facts.host.unreadable[FOREIGN_CPU].contains("the subject is not watched"));
    }
}

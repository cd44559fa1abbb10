//! Factors of a stored search for the flags that show neither in the settings of its cells nor in its trials.

use std::time::Duration;

use kqps_observation::factors::{SourceChoice, name};
use kqps_player::plan::LAG_ALLOWED;

use super::{PlayerArgs, Priority};

impl PlayerArgs {
    /// Factors of a search with these flags, name → word. Flags that were left out have none.
    pub(crate) fn recorded(&self) -> Vec<(String, String)> {
        // Every flag stands here, so that none is forgotten.
        let Self {
            // The cells have the targets, the subject and what the plan says.
            targets: _,
            servers: _,
            port: _,
            family: _,
            mode: _,
            sockets: _,
            threads: _,
            timeout: _,
            wire: _,
            io: _,
            cpus: _,
            burst: _,
            subject: _,
            subject_workers: _,
            subject_cpus: _,
            // The trials have the file, and what was checked.
            queries: _,
            check: _,
            // It shapes no load.
            allow_target: _,
            binary,
            skip_bad,
            edns,
            dnssec,
            capture,
            drain,
            lag,
            coalesce,
            buffer,
            local,
            local_port,
            device,
            priority,
        } = self;
        let seconds = |duration: Duration| duration.as_secs_f64().to_string();
        let sources = local.and_then(|local| local.prefix());
        let added = match (edns, dnssec) {
            (_, true) => Some("do"),
            (true, false) => Some("edns"),
            (false, false) => None,
        };
        let words = [
            (name::PLAYER_SOURCES, sources.map(|(first, bits)| SourceChoice::Prefix(first, bits).word())),
            (name::PLAYER_BUFFER, buffer.map(|bytes| bytes.to_string())),
            (name::PLAYER_LOCAL_PORT, local_port.filter(|port| *port > 0).map(|port| port.to_string())),
            (name::PLAYER_DEVICE, device.clone()),
            (name::PLAYER_PRIORITY, (*priority == Priority::Usual).then(|| "usual".to_owned())),
            (name::PLAYER_DRAIN, drain.map(seconds)),
            (name::PLAYER_LAG, (*lag != LAG_ALLOWED).then(|| seconds(*lag))),
            (name::PLAYER_COALESCE, coalesce.map(seconds)),
            (name::DATASET_FORMAT, binary.then(|| "binary".to_owned())),
            (name::DATASET_SKIP_BAD, skip_bad.then(|| true.to_string())),
            (name::DATASET_EDNS, added.map(str::to_owned)),
        ];
        let given = words.into_iter().filter_map(|(name, word)| Some((name, word?)));
        given.chain(capture.recorded()).map(|(name, word)| (name.to_owned(), word)).collect()
    }
}

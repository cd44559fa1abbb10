//! The counts of a trial while its player plays. The player, a process of its own, prints them as lines before its record
//! ([`crate::play`]); here they are read, and passed to whatever shows them.

use std::fmt;
use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use kqps_observation::LiveCounts;
use serde::{Deserialize, Serialize};

/// A line that a player prints while it plays. The record of its trial, which comes last, has no such field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveLine {
    /// The counts so far.
    pub live: LiveCounts,
}

/// How a [`LiveLine`] begins.
const BEGIN: &[u8] = br#"{"live":"#;

/// The receiver of the counts.
#[derive(Clone)]
pub struct LiveSink {
    /// How often a player prints its counts.
    pub every: Duration,
    receive: Arc<dyn Fn(LiveCounts) + Send + Sync>,
}

impl fmt::Debug for LiveSink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LiveSink").field("every", &self.every).finish_non_exhaustive()
    }
}

impl LiveSink {
    /// Passes counts to `receive`, which another thread calls.
    pub fn new(every: Duration, receive: impl Fn(LiveCounts) + Send + Sync + 'static) -> Self {
        Self { every, receive: Arc::new(receive) }
    }

    /// Passes counts on.
    pub fn receive(&self, counts: LiveCounts) {
        (self.receive)(counts);
    }

    /// Passes on what a player prints, up to its record. `rest` gets the lines that are none of [`LiveLine`].
    pub(crate) fn pass_lines(&self, from: &mut impl BufRead, rest: &mut Vec<u8>) {
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
            match serde_json::from_slice::<LiveLine>(&line) {
                Ok(LiveLine { live }) if line.starts_with(BEGIN) => self.receive(live),
                _ => rest.extend_from_slice(&line),
            }
            line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn live_lines_are_passed_on_and_the_record_is_left() {
        let counts = LiveCounts { at_s: 0.25, ..LiveCounts::default() };
        let line = serde_json::to_string(&LiveLine { live: counts.clone() }).unwrap();
        assert!(line.as_bytes().starts_with(BEGIN), "{line}");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = {
            let seen = seen.clone();
            LiveSink::new(Duration::from_secs(1), move |counts| seen.lock().unwrap().push(counts))
        };
        let printed = format!("{line}\n{{\"live\":7}}\n{line}\n{{\"schema\":4}}");
        let mut rest = Vec::new();
        sink.pass_lines(&mut printed.as_bytes(), &mut rest);
        assert_eq!(*seen.lock().unwrap(), [counts.clone(), counts]);
        assert_eq!(rest, b"{\"live\":7}\n{\"schema\":4}");
    }
}

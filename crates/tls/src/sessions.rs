//! Sessions that a server keeps itself, so that each is resumed once.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Mutex;

use rustls::server::StoresServerSessions;

/// The last sessions that clients got tickets for. Every operation takes a constant time, since the threads of a server
/// share them.
pub(crate) struct Sessions {
    kept: Mutex<Kept>,
    most: usize,
}

#[derive(Default)]
struct Kept {
    sessions: HashMap<Vec<u8>, Vec<u8>>,
    /// The keys of the last sessions, the oldest first. Some of these sessions have been taken since.
    keys: VecDeque<Vec<u8>>,
}

impl Sessions {
    /// Keeps the last `most` sessions, at least 1. A new one drops the oldest, which its client can then no longer resume.
    pub(crate) fn new(most: usize) -> Self {
        Self { kept: Mutex::default(), most }
    }
}

impl fmt::Debug for Sessions {
    /// Shows nothing of the sessions, which are secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sessions").field("most", &self.most).finish_non_exhaustive()
    }
}

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let mut kept = self.kept.lock().expect("no thread panics with the sessions");
        if kept.keys.len() >= self.most
            && let Some(oldest) = kept.keys.pop_front()
        {
            kept.sessions.remove(&oldest);
        }
        kept.keys.push_back(key.clone());
        kept.sessions.insert(key, value);
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.kept.lock().expect("no thread panics with the sessions").sessions.get(key).cloned()
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.kept.lock().expect("no thread panics with the sessions").sessions.remove(key)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_taken_once_and_the_oldest_is_dropped() {
        let sessions = Sessions::new(2);
        for key in [b"1", b"2", b"3"] {
            assert!(sessions.put(key.to_vec(), b"of ".iter().chain(key).copied().collect()));
        }
        assert_eq!(sessions.take(b"1"), None, "it was dropped");
        assert_eq!(sessions.get(b"2"), Some(b"of 2".to_vec()));
        assert_eq!(sessions.take(b"2"), Some(b"of 2".to_vec()));
        assert_eq!(sessions.take(b"2"), None, "it was resumed");
        assert_eq!(sessions.take(b"3"), Some(b"of 3".to_vec()));
        assert!(sessions.kept.lock().unwrap().sessions.is_empty());
    }
}

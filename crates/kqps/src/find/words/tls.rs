//! TLS in a search's trials: agreed parameters, handshakes by kind, and requests that the server did not meet.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kqps_observation::{TlsFacts, Trial};
use kqps_player::record::{NO_EARLY_DATA, PACKED_AND_LOST};
use kqps_testbed::words::counted;

use crate::load::{agreed, causes};

/// The sessions that are named. Of others only the number is.
const NAMED: usize = 3;

/// The lines about TLS of these trials, as label and value. There are none without TLS.
pub(super) fn tls_lines(trials: &[&Trial]) -> Vec<(&'static str, String)> {
    let tls: Vec<&TlsFacts> =
        trials.iter().filter_map(|trial| trial.connections.as_ref()?.tls.as_ref()).collect();
    if tls.is_empty() {
        return Vec::new();
    }
    let sessions = sessions(&tls).map(|sessions| ("tls", sessions));
    let notes = notes(trials).into_iter().map(|note| ("note", note));
    sessions.into_iter().chain([("handshakes", handshakes(&tls))]).chain(notes).collect()
}

/// Parameters that were agreed on, each set once with its connections, the most frequent first. `None` if there are
/// none.
fn sessions(tls: &[&TlsFacts]) -> Option<String> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for session in tls.iter().flat_map(|tls| &tls.sessions) {
        *counts.entry(agreed(session)).or_default() += session.connections;
    }
    let mut sums: Vec<(String, u64)> = counts.into_iter().collect();
    sums.sort_by_key(|&(_, connections)| Reverse(connections));
    let in_words = |(agreed, count): &(String, u64)| format!("{agreed} ({})", counted(*count, "connection"));
    let named = sums.iter().take(NAMED).map(in_words);
    let named = named.collect::<Vec<_>>().join("; ");
    let further = sums.len().saturating_sub(NAMED);
    let further = if further > 0 { format!(" and {further} more") } else { String::new() };
    (!named.is_empty()).then(|| named + &further)
}

/// All handshakes by kind.
fn handshakes(tls: &[&TlsFacts]) -> String {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (kind, count) in tls.iter().flat_map(|tls| &tls.handshakes) {
        *sums.entry(kind.clone()).or_default() += count;
    }
    causes(&sums)
}

/// The notes that no early data was sent, or that servers left packed queries, each once, and in how many of the trials if not in all.
fn notes(trials: &[&Trial]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for note in trials.iter().flat_map(|trial| &trial.players.first.notes) {
        if note.starts_with(NO_EARLY_DATA) || note == PACKED_AND_LOST {
            *counts.entry(note).or_default() += 1;
        }
    }
    let all = trials.len();
    let in_words = |(note, count): (&str, usize)| {
        let part = if count < all { format!(" (in {count} of {all} trials)") } else { String::new() };
        format!("{note}{part}")
    };
    counts.into_iter().map(in_words).collect()
}

#[cfg(test)]
mod tests {
    use kqps_observation::{ConnectionFacts, SessionFacts};

    use super::*;

    /// A trial whose connections agreed on these suites, by these handshakes, with these notes of its player.
    fn trial(suites: &[(&str, u64)], handshakes: &[(&str, u64)], notes: &[&str]) -> Trial {
        let session = |&(suite, connections): &(&str, u64)| SessionFacts {
            version: "TLSv1.3".into(),
            suite: suite.into(),
            group: Some("x25519".into()),
            certificate: None,
            connections,
        };
        let tls = TlsFacts {
            sessions: suites.iter().map(session).collect(),
            handshakes: handshakes.iter().map(|&(kind, count)| (kind.to_owned(), count)).collect(),
            ..TlsFacts::default()
        };
        let connections = ConnectionFacts { tls: Some(tls), ..ConnectionFacts::default() };
        let mut trial = Trial { connections: Some(connections), ..Trial::default() };
        trial.players.first.notes = notes.iter().map(|&note| note.to_owned()).collect();
        trial
    }

    fn lines(trials: &[Trial]) -> Vec<String> {
        let lines = tls_lines(&trials.iter().collect::<Vec<_>>());
        lines.into_iter().map(|(label, value)| format!("{label}: {value}")).collect()
    }

    #[test]
    fn sessions_and_handshakes_are_summed_over_the_trials() {
        let one = trial(&[("AES", 1)], &[("full", 1)], &[]);
        assert_eq!(
            lines(std::slice::from_ref(&one)),
            ["tls: TLSv1.3, AES, x25519 (1 connection)", "handshakes: 1 full"]
        );
        let many = trial(&[("CHACHA", 4_000), ("AES", 999)], &[("full", 11), ("resumed", 4_988)], &[]);
        let expected = [
            "tls: TLSv1.3, CHACHA, x25519 (4000 connections); TLSv1.3, AES, x25519 (1000 connections)",
            "handshakes: 12 full, 4988 resumed",
        ];
        assert_eq!(lines(&[one, many]), expected);
    }

    #[test]
    fn three_sessions_are_named() {
        let suites = [("A", 5), ("B", 4), ("C", 3), ("D", 2), ("E", 1)];
        let said = lines(&[trial(&suites[..2], &[], &[]), trial(&suites[2..], &[], &[])]);
        assert!(said[0].ends_with("; TLSv1.3, C, x25519 (3 connections) and 2 more"), "{said:?}");
        let three = lines(&[trial(&suites[..3], &[], &[])]);
        assert!(three[0].ends_with("(3 connections)"), "{three:?}");
    }

    #[test]
    fn a_search_without_early_data_says_once_why() {
        let why = format!("{NO_EARLY_DATA}: the server sent no tickets");
        let noted = trial(&[], &[], &[&why, "a socket fell back"]);
        let said = lines(&[noted.clone(), noted.clone()]);
        assert_eq!(said, ["handshakes: 0".to_owned(), format!("note: {why}")]);
        let said = lines(&[noted, trial(&[], &[], &[])]);
        assert_eq!(said[1], format!("note: {why} (in 1 of 2 trials)"));
        let said = lines(&[trial(&[], &[], &[PACKED_AND_LOST])]);
        assert_eq!(said[1], format!("note: {PACKED_AND_LOST}"));
    }

    #[test]
    fn without_tls_there_is_no_line() {
        let plain = Trial { connections: Some(ConnectionFacts::default()), ..Trial::default() };
        assert!(lines(&[plain, Trial::default()]).is_empty());
    }
}

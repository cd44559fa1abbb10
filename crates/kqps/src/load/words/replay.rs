//! The lines about the replay of a capture in the output of `kqps load`: what was in it, how it was played, and how the
//! answers differ from the captured ones.

use std::fmt::Write as _;

use kqps_observation::trial::UNSENT_LATE;
use kqps_observation::visible::visible_line;
use kqps_observation::{CaptureContent, Difference, Replay, Trial};
use kqps_testbed::words::counted;

use super::connections::causes;
use super::{line, parts, quantiles, with_share};

/// The capture that was replayed, and how; empty for queries that are no capture.
pub(super) fn replay_lines(trial: &Trial) -> String {
    let Some(replay) = &trial.replay else { return String::new() };
    let mut text = String::from("\nReplay:\n\n");
    text += &content(&replay.capture);
    let is_captured = trial.load.arrivals.as_deref() == Some("captured");
    line(&mut text, "Played", &part(replay, is_captured));
    line(&mut text, "Clients", &clients(replay));
    if is_captured {
        let late = trial.unsent_causes.get(UNSENT_LATE).copied().unwrap_or(0);
        let late = with_share(late, trial.accounts.intended);
        let schedule = format!("late by (µs): {}; not sent in time: {late}", quantiles(&trial.lag_us));
        line(&mut text, "Schedule", &schedule);
    }
    line(&mut text, "Transports", &causes(&replay.played));
    text += &parts::by_lane(&replay.lanes);
    if replay.not_played.values().any(|count| *count > 0) {
        let count = causes(&replay.not_played);
        let how = "no lane was for them; a target such as tls://ADDR plays all queries by one transport";
        line(&mut text, "Not played", &format!("{count} ({how})"));
    }
    if replay.joined > 0 {
        let joined = format!(
            "{} began while the earlier one was in use, and went by that for want of a spare place",
            counted(replay.joined, "connection")
        );
        line(&mut text, "Joined", &joined);
    }
    if replay.closed_early > 0 {
        let closed = counted(replay.closed_early, "connection");
        line(&mut text, "Closed early", &format!("{closed}, because the next one at the place began"));
    }
    text
}

/// The content of the capture.
fn content(capture: &CaptureContent) -> String {
    let CaptureContent { packets, queries, responses, skipped, cookies, keepalives, signatures, .. } =
        capture;
    let mut text = String::new();
    let others: u64 = skipped.values().sum();
    let packets = format!("{packets} packets: {queries} queries, {responses} responses, {others} others");
    line(&mut text, "Capture", &packets);
    if others > 0 {
        line(&mut text, "Others", &causes(skipped));
    }
    let removed =
        [(cookies, "cookies"), (keepalives, "edns-tcp-keepalive"), (signatures, "signatures (TSIG)")];
    let removed =
        removed.iter().filter(|(count, _)| **count > 0).map(|(count, what)| format!("{count} {what}"));
    let removed = removed.collect::<Vec<_>>().join(", ");
    if !removed.is_empty() {
        line(&mut text, "Removed", &removed);
    }
    if capture.sorted > 0 {
        line(&mut text, "Sorted", &format!("{} stood after later ones", counted(capture.sorted, "packet")));
    }
    if capture.retried > 0 {
        let retried = format!("{} by tcp repeat truncated ones by udp; both are played", capture.retried);
        line(&mut text, "Retried", &retried);
    }
    text
}

/// The part of the capture that was played, and how often. With captured arrivals also how fast, and the pause between
/// two passes.
fn part(replay: &Replay, is_captured: bool) -> String {
    let Replay { from_s, to_s, speed, gap_s, pile, passes, .. } = replay;
    let whole_s = replay.capture.duration_s;
    let mut text = format!("{from_s:.3} to {to_s:.3} of {whole_s:.3} s");
    if is_captured {
        let _ = write!(text, ", at {speed}x");
    }
    if *pile > 1 {
        let _ = write!(text, ", {pile} slices at once");
    }
    let times = format!("{passes:.2}");
    if times != "1.00" {
        let _ = write!(text, ", {times} times");
    }
    if is_captured && *gap_s > 0.0 && *passes > 1.0 {
        let _ = write!(text, " with {gap_s} s between");
    }
    text
}

fn clients(replay: &Replay) -> String {
    let Replay { clients, addresses, sockets, clients_sharing, seed, .. } = replay;
    let addresses = counted(*addresses, "address");
    let sockets = format!("{sockets} sockets and places for connections");
    let sharing = match clients_sharing {
        0 => String::new(),
        sharing => format!("; {sharing} shared one with another client (more addresses: -a PREFIX)"),
    };
    format!("{clients}, from {addresses}, {sockets}{sharing}; --seed {seed} maps them alike")
}

/// How the answers differ from the captured ones, with examples; empty if they were not compared.
pub(super) fn differences(trial: &Trial) -> String {
    let is_compared = trial.dataset.check.as_deref().is_some_and(|check| check != "off");
    if trial.replay.is_none() || !is_compared {
        return String::new();
    }
    let mut text = String::from("\nDifferences from the captured replies:\n\n");
    if trial.differences.is_empty() {
        text += "  none\n";
    }
    for Difference { kind, count, examples } in &trial.differences {
        let count = with_share(*count, trial.accounts.sent);
        let _ = writeln!(text, "  {}: {count}", visible_line(kind));
        for example in examples {
            let (name, expected) = (&example.name, &example.expected);
            let said = format!("{name} {}: expected {expected}, got {}", example.rtype, example.got);
            let _ = writeln!(text, "    {}", visible_line(&said));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use kqps_observation::trial::{DatasetFacts, LoadFacts};
    use kqps_observation::{Accounts, Example};

    use super::*;

    fn trial() -> Trial {
        let counts =
            |pairs: &[(&str, u64)]| pairs.iter().map(|(name, count)| ((*name).into(), *count)).collect();
        let capture = CaptureContent {
            packets: 1_000,
            queries: 400,
            responses: 390,
            skipped: counts(&[("tcp-control", 200), ("other-port", 10)]),
            duration_s: 12.5,
            ..CaptureContent::default()
        };
        let replay = Replay {
            capture,
            to_s: 12.5,
            speed: 2.0,
            repeat: 3,
            window_queries: 160,
            passes: 2.5,
            gap_s: 10.0,
            pile: 4,
            seed: 7,
            clients: 12,
            addresses: 1,
            sockets: 10,
            clients_sharing: 2,
            played: counts(&[("udp", 380)]),
            not_played: counts(&[("tls", 20)]),
            ..Replay::default()
        };
        let load = LoadFacts { arrivals: Some("captured".into()), ..LoadFacts::default() };
        let accounts = Accounts { intended: 380, unsent: 19, ..Accounts::default() };
        let unsent_causes = counts(&[("late", 19)]);
        Trial { replay: Some(replay), load, accounts, unsent_causes, ..Trial::default() }
    }

    #[test]
    fn a_replay_says_what_was_played_and_what_was_not() {
        let said = replay_lines(&trial());
        for wanted in [
            "1000 packets: 400 queries, 390 responses, 210 others\n",
            "10 other-port, 200 tcp-control\n",
            "0.000 to 12.500 of 12.500 s, at 2x, 4 slices at once, 2.50 times with 10 s between\n",
            "12, from 1 address, 10 sockets and places for connections; 2 shared one with another client",
            "Not played:           20 tls (no lane",
            "Schedule:             late by (µs): ; not sent in time: 19 (5.00%)\n",
        ] {
            assert!(said.contains(wanted), "{wanted}: {said}");
        }
        let mut at_rate = trial();
        at_rate.load.arrivals = Some("even".into());
        let of_rate = replay_lines(&at_rate);
        assert!(of_rate.contains("12.500 s, 4 slices at once, 2.50 times\n"), "{of_rate}");
        assert!(!of_rate.contains("Schedule"), "{of_rate}");
        assert!(!said.contains("Joined") && !said.contains("Removed"), "{said}");
        let mut with_options = trial();
        let replay = with_options.replay.as_mut().unwrap();
        (replay.capture.keepalives, replay.capture.signatures) = (10, 1);
        let said = replay_lines(&with_options);
        assert!(
            said.contains("Removed:              10 edns-tcp-keepalive, 1 signatures (TSIG)\n"),
            "{said}"
        );
        assert_eq!(replay_lines(&Trial::default()), "");
    }

    #[test]
    fn differences_have_examples_and_no_difference_is_said() {
        let mut trial = trial();
        assert_eq!(differences(&trial), "", "they were not compared");
        trial.dataset = DatasetFacts { check: Some("answers".into()), ..DatasetFacts::default() };
        assert!(differences(&trial).ends_with("\n\n  none\n"));
        trial.accounts.sent = 200;
        let example = Example {
            name: "a.test.".into(),
            rtype: "A".into(),
            expected: "NOERROR".into(),
            digest: None,
            got: "SERVFAIL, 0 records".into(),
        };
        trial.differences =
            vec![Difference { kind: "rcode NOERROR→SERVFAIL".into(), count: 3, examples: vec![example] }];
        let said = differences(&trial);
        let wanted =
            "  rcode NOERROR→SERVFAIL: 3 (1.50%)\n    a.test. A: expected NOERROR, got SERVFAIL, 0 records\n";
        assert!(said.ends_with(wanted), "{said}");
    }
}

//! Rates, and what `-S` prints while queries are played.

use super::both::Both;
use super::peer::Answer;
use super::shape;

/// `-S` ends with the sending. Replies are waited for afterwards.
#[test]
fn no_interval_is_printed_once_all_is_sent() {
    let Some(both) = Both::new() else { return };
    let flags = "-l 0.5 -S 0.2 -t 1.5";
    let [theirs, ours] = [both.theirs(Answer::None, flags), both.ours(Answer::None, flags)];
    for run in [&theirs, &ours] {
        let intervals = run.out.lines().filter(|line| shape::is_interval(line)).count();
        // Two at a host that is not busy. The run takes 2 s, which are ten intervals.
        assert!(intervals <= 4, "{}", run.out);
        assert!(run.out.contains("Queries completed:    0 (0.00%)"), "{}", run.out);
    }
}

#[test]
fn a_rate_is_kept_and_intervals_are_printed() {
    let Some(both) = Both::new() else { return };
    let flags = "-Q 100 -l 0.5 -S 0.1";
    let [theirs, ours] = [both.theirs(Answer::Echo, flags), both.ours(Answer::Echo, flags)];
    for run in [&theirs, &ours] {
        // Query i leaves at i / 100 s or later. On a busy host some leave late, and none is early.
        assert!((5..=51).contains(&run.heard.len()), "{}", run.heard.len());
    }
    assert_eq!(
        shape::without_numbers(&ours.out),
        shape::without_numbers(&theirs.out),
        "{}\n{}",
        ours.out,
        theirs.out
    );
    assert!(shape::without_numbers(&ours.out).iter().any(|line| line == shape::INTERVAL), "{}", ours.out);
    let note = "-Q with -q: while 100 queries were outstanding, the next ones waited";
    let (statistics, own) = ours.out.split_once("What kqps").unwrap();
    assert!(own.contains(note) && !statistics.contains("Note"), "{}", ours.out);
    // With a window of one, a slow server holds the queries back, and no query is unsent for it.
    let held = both.ours(Answer::Late, "-Q 1000 -q 1 -n 1");
    assert!(
        held.out.contains("Queries completed:    20 (100.00%)") && held.out.contains("unsent 0"),
        "{}",
        held.out
    );
}

/// No reply is counted before its query, whenever an interval ends.
#[test]
fn no_more_is_completed_than_was_sent() {
    let Some(both) = Both::new() else { return };
    let ours = both.ours(Answer::Echo, "-j -l 0.6 -S 0.02 -O verbose-interval-stats");
    let (mut sent, mut completed) = (0, 0);
    let lines = ours.out.lines().filter(|line| line.contains(r#""interval":true"#));
    for line in lines.clone() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let count = |name: &str| line["statistics"][name].as_u64().unwrap();
        sent += count("sent");
        completed += count("completed");
        assert!(completed <= sent, "{completed} of {sent}: {}", ours.out);
    }
    assert!(lines.count() > 1 && completed > 0, "{}", ours.out);
}

#[test]
fn results_may_be_json() {
    let Some(both) = Both::new() else { return };
    let ours = both.ours(Answer::Echo, "-j -l 0.5 -Q 200 -S 0.1 -O latency-histogram");
    assert_eq!(ours.status, Some(0), "{}", ours.err);
    let lines: Vec<serde_json::Value> = ours
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let kinds: Vec<&str> =
        lines.iter().map(|line| line.as_object().unwrap().keys().next().unwrap().as_str()).collect();
    let (first, rates, last) = (kinds[0], &kinds[1..kinds.len() - 2], &kinds[kinds.len() - 2..]);
    assert_eq!((first, last), ("start", &["stop", "statistics"][..]), "{}", ours.out);
    assert!(!rates.is_empty() && rates.iter().all(|kind| *kind == "rate"), "{}", ours.out);
    let start = &lines[0]["start"];
    assert_eq!(start["version"], "2.15.0");
    assert!(start["command_line"].as_array().unwrap().contains(&"-j".into()), "{}", ours.out);
    let statistics = &lines[lines.len() - 1]["statistics"];
    let heard = ours.heard.len() as u64;
    assert_eq!(
        (statistics["sent"].as_u64(), statistics["completed"].as_u64()),
        (Some(heard), Some(heard)),
        "{}",
        ours.out
    );
    let histogram = statistics["latency"]["histogram"].as_array().unwrap();
    assert_eq!(histogram.iter().map(|row| row[2].as_u64().unwrap()).sum::<u64>(), heard, "{}", ours.out);
    assert!(ours.err.contains("What kqps ") && ours.err.contains("Accounts:"), "{}", ours.err);
}

#[test]
fn intervals_may_have_all_statistics() {
    let Some(both) = Both::new() else { return };
    for more in ["", " -m tcp -c 2"] {
        let flags = format!("-n 5 -S 0.1 -Q 200 -O verbose-interval-stats -O latency-histogram{more}");
        let ours = both.ours(Answer::Rcodes, &flags);
        assert_eq!(ours.status, Some(0), "{}", ours.err);
        let (intervals, whole) = ours.out.split_once("[Status] Testing complete").unwrap();
        // The first reply has this rcode.
        assert!(intervals.contains("Interval Statistics:") && intervals.contains("FORMERR"), "{}", ours.out);
        let buckets =
            whole.split_once("answer count\n").unwrap().1.lines().take_while(|line| !line.is_empty());
        let counts: u64 = buckets.map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
        assert_eq!(counts, ours.heard.len() as u64, "{}", ours.out);
        if both.theirs.has_all(&flags) {
            let [theirs, ours] = [both.theirs(Answer::Echo, &flags), both.ours(Answer::Echo, &flags)];
            assert_eq!(
                shape::without_numbers(&ours.out),
                shape::without_numbers(&theirs.out),
                "{}\n{}",
                ours.out,
                theirs.out
            );
        }
    }
}

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
    assert_eq!(shape::of(&ours.out), shape::of(&theirs.out), "{}\n{}", ours.out, theirs.out);
    assert!(shape::of(&ours.out).iter().any(|line| line == shape::INTERVAL), "{}", ours.out);
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
            assert_eq!(shape::of(&ours.out), shape::of(&theirs.out), "{}\n{}", ours.out, theirs.out);
        }
    }
}

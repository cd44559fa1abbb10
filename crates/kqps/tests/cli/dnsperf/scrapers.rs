//! What scripts read from dnsperf's output. Each pattern finds the same in both programs' output, once.

use regex::Regex;

use super::both::Both;
use super::peer::Answer;

/// Patterns as they stand in scripts around dnsperf, in CI jobs and in plotting tools.
const PATTERNS: &[&str] = &[
    r"Queries sent:\s+(\d+)",
    r"Queries completed:\s+(\d+)",
    r"Queries completed:\s+\d+ \((\d+\.\d+)%\)",
    r"Queries lost:\s+(\d+)",
    r"Queries lost:\s+\d+ \((\d+\.\d+)%\)",
    r"Queries per second:\s+([0-9.]+)",
    r"(?m)^\s*Queries per second:\s+(\d+)\.\d+$",
    r"Run time \(s\):\s+([0-9.]+)",
    r"Average packet size:\s+request (\d+), response (\d+)",
    r"Average Latency \(s\):\s+([0-9.]+) \(min ([0-9.]+), max ([0-9.]+)\)",
    r"Average Latency \(s\):\s+(\S+)",
    r"Latency StdDev \(s\):\s+([0-9.]+)",
    r"Response codes:\s+(.*)",
    r"NOERROR (\d+) \((\d+\.\d+)%\)",
    r"Testing complete \(([a-z ]+)\)",
    r"(?m)^Statistics:$",
    r"\[Status\] Sending queries \(to ([0-9.]+):(\d+)\)",
    r"(?m)^Version (\d+\.\d+\.\d+)",
    r"(?s)Statistics:\s+Queries sent:.*Latency StdDev",
];

/// The parts that count queries or bytes, which are the same in both runs.
const CERTAIN: &[&str] = &["sent", "completed", "lost", "packet", "NOERROR", "complete"];

#[test]
fn scripts_read_both() {
    let Some(both) = Both::new() else { return };
    let (theirs, ours) = (both.theirs(Answer::Echo, "-n 2").out, both.ours(Answer::Echo, "-n 2").out);
    for pattern in PATTERNS {
        let regex = Regex::new(pattern).unwrap();
        let found = |out: &str| -> Vec<Vec<String>> {
            let group = |found: regex::Captures<'_>| {
                found.iter().skip(1).flatten().map(|group| group.as_str().to_owned()).collect()
            };
            regex.captures_iter(out).map(group).collect()
        };
        let (theirs, ours) = (found(&theirs), found(&ours));
        assert_eq!((theirs.len(), ours.len()), (1, 1), "{pattern}: {ours:?}");
        if CERTAIN.iter().any(|word| pattern.contains(word)) {
            assert_eq!(theirs, ours, "{pattern}");
        }
    }
}

/// The columns that awk(1) scripts cut.
#[test]
fn columns_stand_where_scripts_cut_them() {
    let Some(both) = Both::new() else { return };
    for run in [both.theirs(Answer::Echo, ""), both.ours(Answer::Echo, "")] {
        let column = |label: &str, number: usize| {
            let line = run.out.lines().find(|line| line.contains(label)).unwrap().to_owned();
            line.split_whitespace().nth(number).unwrap().to_owned()
        };
        assert_eq!(column("Queries sent", 2), "20");
        assert_eq!(column("Queries completed", 3), "(100.00%)");
        assert!(column("Queries per second", 3).parse::<f64>().unwrap() > 0.0);
        assert!(column("Run time", 3).parse::<f64>().unwrap() > 0.0);
        assert!(column("Average Latency", 3).parse::<f64>().unwrap() > 0.0);
    }
}

//! Figures that scripts read from dnsperf's output. Each script finds the same in both programs' output, once.

use regex::Regex;

use super::both::Both;
use super::peer::Answer;

/// Patterns of scrapers in use. All of them read line by line.
const SCRAPERS: &[(&str, &[&str])] = &[
    (
        // Takes the last line that begins with a label, so no line of kqps may begin with one.
        "kubernetes/perf-tests, dns/py/data.py",
        &[
            r"^\s*Queries sent:\s*(\d+)",
            r"^\s*Queries completed:\s*(\d+)",
            r"^\s*Queries lost:\s*(\d+)",
            r"^\s*Run time \(s\):\s*([\d.]+)",
            r"^\s*Queries per second:\s*([\d.]+)",
            r"^\s*Average Latency \(s\):\s*([\d.]+).*min ([\d.]+).*max ([\d.]+)",
            r"^\s*Latency StdDev \(s\):\s*([\d.]+)",
        ],
    ),
    (
        // A template of whole lines, in which each figure is a word.
        "cloud-bulldozer/benchmark-wrapper, snafu/dns_perf_wrapper",
        &[
            r"^DNS Performance Testing Tool$",
            r"^Version (\S+)$",
            r"^\[Status\] Sending queries \(to (\S+)\)$",
            r"^\[Status\] Testing complete \(end of file\)$",
            r"^Statistics:$",
            r"^  Queries sent:         (\d+)$",
            r"^  Queries completed:    (\d+) \(([\d.]+)%\)$",
            r"^  Queries lost:         (\d+) \(([\d.]+)%\)$",
            r"^  Average packet size:  request (\d+), response (\d+)$",
            r"^  Run time \(s\):         ([\d.]+)$",
            r"^  Queries per second:   ([\d.]+)$",
            r"^  Average Latency \(s\):  ([\d.]+) \(min ([\d.]+), max ([\d.]+)\)$",
            r"^  Latency StdDev \(s\):   ([\d.]+)$",
        ],
    ),
    (
        // grep, and of what it finds the digits before the last point.
        "bbc/dns-load-tests, dns_test.sh",
        &[r"Queries per second.* (\d+)\."],
    ),
    (
        // grep and cut of rcodes.
        "scripts of CI jobs",
        &[
            r"Response codes:\s+(.*)",
            r"NOERROR (\d+) \(([\d.]+)%\)",
            r"Queries completed:\s+\d+ \((\d+\.\d+)%\)",
            r"Queries lost: +0 \(0\.00%\)",
            r"Testing complete \(([a-z ]+)\)",
            r"Stopping after (\d+) runs? through file",
        ],
    ),
];

/// The labels of what counts queries or bytes, which are the same in both runs.
const CERTAIN: &[&str] = &["sent", "completed", "lost", "packet", "NOERROR", "complete", "codes", "Stopping"];

#[test]
fn scripts_read_both() {
    let Some(both) = Both::new() else { return };
    let (theirs, ours) = (both.theirs(Answer::Echo, "-n 2").out, both.ours(Answer::Echo, "-n 2").out);
    for (scraper, pattern) in SCRAPERS.iter().flat_map(|(name, all)| all.iter().map(move |one| (name, one))) {
        let regex = Regex::new(pattern).unwrap();
        let found = |out: &str| -> Vec<Vec<String>> {
            let groups = |line| {
                let found = regex.captures(line)?;
                Some(found.iter().skip(1).flatten().map(|group| group.as_str().to_owned()).collect())
            };
            out.lines().filter_map(groups).collect()
        };
        let (theirs, ours) = (found(&theirs), found(&ours));
        assert_eq!((theirs.len(), ours.len()), (1, 1), "{scraper}: {pattern}: {ours:?}");
        assert_eq!(theirs[0].len(), ours[0].len(), "{scraper}: {pattern}");
        if CERTAIN.iter().any(|word| pattern.contains(word)) {
            assert_eq!(theirs, ours, "{scraper}: {pattern}");
        }
    }
}

/// Lines of `-v` and `-S` that loops of scripts read.
#[test]
fn scripts_read_lines_of_queries_and_of_intervals() {
    let Some(both) = Both::new() else { return };
    let query = Regex::new(r"^> (\S+) (\S+) (\S+) (\d+\.\d{6})$").unwrap();
    let interval = Regex::new(r"^(\d+\.\d{6}): (\d+\.\d{6})$").unwrap();
    let flags = "-v -S 0.1 -Q 50";
    let [theirs, ours] = [both.theirs(Answer::Echo, flags), both.ours(Answer::Echo, flags)].map(|run| {
        let found = |regex: &Regex| run.out.lines().filter(|line| regex.is_match(line)).count();
        let named = |line| {
            let groups = query.captures(line)?;
            Some([1, 2, 3].map(|group| groups[group].to_owned()))
        };
        let mut queries: Vec<_> = run.out.lines().filter_map(named).collect();
        queries.sort_unstable();
        // The queries take 0.38 s.
        assert!(found(&interval) > 0, "{}", run.out);
        queries
    });
    assert_eq!((&ours, ours.len()), (&theirs, 20));
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

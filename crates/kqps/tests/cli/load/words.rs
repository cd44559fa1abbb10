//! The output of `kqps load`, which people and scripts know from dnsperf.

use super::bench::{Bench, words};

/// The match of a scraper in use: `/(Queries|Updates) per second:\s+(.*)$/m`.
fn scraped(text: &str) -> Option<&str> {
    text.lines().find_map(|line| {
        let labels = ["Queries per second:", "Updates per second:"];
        let (_, value) = labels.iter().find_map(|label| line.split_once(label))?;
        value.starts_with(char::is_whitespace).then(|| value.trim_start())
    })
}

/// The value behind a label, which must have a line of its own.
fn said<'a>(text: &'a str, label: &str) -> &'a str {
    let mut values =
        text.lines().filter_map(|line| line.strip_prefix("  ")?.strip_prefix(label)?.strip_prefix(": "));
    let value = values.next().unwrap_or_else(|| panic!("no {label:?} in {text}"));
    assert_eq!(values.next(), None, "{label:?} in {text}");
    value.trim_start()
}

#[test]
fn every_label_has_the_value_of_a_known_load() {
    let bench = Bench::new();
    let output = bench.load(&["-Q", "1k", "-l", "0.5s", "-S", "100ms"]).output().unwrap();
    let (out, err) = words(&output);
    assert!(out.starts_with("Statistics:\n\n  Queries sent:         500\n"), "{out}");
    for (label, wanted) in [
        ("Queries sent", "500"),
        ("Queries completed", "500 (100.00%)"),
        ("Queries lost", "0 (0.00%)"),
        ("Response codes", "NOERROR 500 (100.00%)"),
        // A header, a name of 20 bytes, its type and class.
        ("Average packet size", "request 36, response 36"),
        ("Correct answers", "1000.000000 a second, in 0.500000 s"),
    ] {
        assert_eq!(said(&out, label), wanted, "{label}: {out}");
    }
    assert!(out.contains("intended 500 = sent 500 + unsent 0 + send failed 0"), "{out}");
    assert!(err.lines().filter(|line| line.contains("q/s, correct")).count() >= 4, "{err}");

    let rate = scraped(&out).unwrap();
    assert_eq!(rate, said(&out, "Queries per second"));
    assert_eq!(output.status.code(), Some(0), "{out}");
    // As in dnsperf, a reply after the last query prolongs the run.
    let run_time_s: f64 = said(&out, "Run time (s)").parse().unwrap();
    assert!(run_time_s >= 0.5, "{out}");
    let rate: f64 = rate.parse().unwrap();
    assert!((rate * run_time_s - 500.0).abs() < 0.01, "{out}");
    assert!(said(&out, "Capacity").starts_with("not measured"), "{out}");

    let seconds = |text: &str| -> f64 { text.parse().unwrap_or_else(|_| panic!("{text}: {out}")) };
    let latency = said(&out, "Average Latency (s)").trim_end_matches(')');
    let (average, ends) = latency.split_once(" (min ").unwrap();
    let (least, most) = ends.split_once(", max ").unwrap();
    let (average, least, most) = (seconds(average), seconds(least), seconds(most));
    assert!(0.0 < least && least <= average && average <= most && most <= 1.0, "{latency}");
    let deviation = seconds(said(&out, "Latency StdDev (s)"));
    assert!(0.0 < deviation && deviation <= most - least, "{deviation} of {latency}");
}

#[test]
fn the_scraper_finds_a_rate_on_a_line_of_its_own() {
    assert_eq!(scraped("a\n  Queries per second:   99999.000000\nb"), Some("99999.000000"));
    assert_eq!(scraped("  Updates per second:\t1"), Some("1"));
    assert_eq!(scraped("  Queries per second:1"), None);
}

//! The output of `kqps show`, with its values in the column of `kqps load`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kqps_capture::ports_in_words;
use kqps_observation::visible::visible_line;
use kqps_testbed::words::{counted, time as in_words};
use kqps_verdict::rate::rate;
use time::OffsetDateTime;
use time::macros::format_description;

use super::facts::{CaptureShown, ExtrasShown, FileFacts, NameShown, SpreadShown};
use crate::load::skipped::STRAY;
use crate::load::{line, percent, with_share};

/// The most values of one kind that are listed.
const LISTED_MOST: usize = 12;

/// The whole output for the file of this name.
pub(super) fn words(name: &str, shown: &FileFacts) -> String {
    let mut text = format!("{}: {}\n\n", visible_line(name), what(shown));
    if let Some(capture) = &shown.capture {
        text += &of_capture(shown, capture);
    }
    text += &of_queries(shown);
    text += &top_names(&shown.top_names, shown.queries);
    text
}

/// A description of the file, in a few words.
fn what(shown: &FileFacts) -> String {
    let Some(capture) = &shown.capture else { return counted(shown.queries, "query") };
    let Some(first_unix_ms) = capture.first_unix_ms else { return "a capture without a query".into() };
    let first = OffsetDateTime::from_unix_timestamp((first_unix_ms / 1000) as i64).ok();
    let form = format_description!("[year]-[month]-[day] [hour]:[minute]:[second] UTC");
    let first = first.and_then(|first| first.format(form).ok());
    let first = first.unwrap_or_else(|| "an unknown time".into());
    format!("a capture of {} from {first} on", in_words(capture.span_s))
}

fn of_capture(shown: &FileFacts, capture: &CaptureShown) -> String {
    let mut text = String::new();
    let others: u64 = capture.skipped.values().sum();
    let (packets, responses) = (capture.packets, capture.responses);
    let packets = format!("{packets}: {} queries, {responses} responses, {others} others", shown.queries);
    line(&mut text, "Packets", &packets);
    if others > 0 {
        line(&mut text, "Others", &listed(&capture.skipped, capture.packets));
    }
    if !capture.other_ports.is_empty() {
        let ports = ports_in_words(&capture.other_ports);
        line(&mut text, "Other ports", &format!("{ports}; --captured-port takes the queries to one"));
    }
    if capture.further > 0 {
        line(&mut text, "Further messages", &format!("{} in packets that had one already", capture.further));
    }
    if capture.clock_steps > 0 {
        let times = counted(capture.clock_steps, "time");
        let steps = format!("went back by more than 5 s {times}; from there on its gaps are kept");
        line(&mut text, "Clock", &steps);
    }
    if capture.strays > 0 {
        line(&mut text, "Mistaken times", &format!("{} {STRAY}", counted(capture.strays, "packet")));
    }
    if let Some(SpreadShown { mean, p50, p99, max }) = capture.rate {
        let [p50, p99, max] = [p50, p99, max].map(|qps| rate(qps as f64));
        let rates = format!("mean {}, by second p50 {p50}, p99 {p99}, max {max}", rate(mean));
        line(&mut text, "Queries per second", &rates);
    }
    let least = if capture.clients_at_least { "more than " } else { "" };
    let (clients, networks) = (capture.clients, capture.networks);
    let (clients, networks) = (counted(clients, "client"), counted(networks, "network"));
    let clients = format!("{least}{clients}, by address, in {least}{networks} (/24, /48)");
    line(&mut text, "Clients", &clients);
    let mut transports = listed(&capture.transports, shown.queries);
    if capture.connections > 0 {
        let _ = write!(transports, "; connections: {}", capture.connections);
    }
    line(&mut text, "Transports", &transports);
    line(&mut text, "Response codes", &listed(&capture.rcodes, capture.responses));
    if capture.truncated > 0 {
        line(&mut text, "Truncated", &with_share(capture.truncated, capture.responses));
    }
    if let Some(bytes) = capture.response_bytes {
        line(&mut text, "Response size (bytes)", &sizes(bytes));
    }
    text
}

fn of_queries(shown: &FileFacts) -> String {
    let mut text = String::new();
    if !shown.skipped.is_empty() {
        line(&mut text, "Skipped", &listed(&shown.skipped, shown.queries));
    }
    line(&mut text, "Types", &listed(&shown.types, shown.queries));
    if !shown.expected_rcodes.is_empty() {
        line(&mut text, "Expected codes", &listed(&shown.expected_rcodes, shown.queries));
    }
    let ExtrasShown { edns, dnssec_ok, client_subnet, cookie, signed } = shown.extras;
    let kinds =
        [("DO", dnssec_ok), ("client subnet", client_subnet), ("cookie", cookie), ("signed (TSIG)", signed)];
    let kinds = kinds.iter().filter(|(_, count)| *count > 0);
    let kinds = kinds.map(|(kind, count)| format!(", {kind} {}", with_share(*count, shown.queries)));
    line(&mut text, "EDNS", &(with_share(edns, shown.queries) + &kinds.collect::<String>()));
    if let Some(bytes) = shown.query_bytes {
        line(&mut text, "Query size (bytes)", &sizes(bytes));
    }
    text
}

fn top_names(names: &[NameShown], queries: u64) -> String {
    if names.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nMost frequent names:\n\n");
    let is_rough = names.iter().any(|one| one.too_high_by > 0);
    for NameShown { name, queries: count, .. } in names {
        let _ = writeln!(text, "  {count:>10}  {:>6.2}%  {}", percent(*count, queries), visible_line(name));
    }
    if is_rough {
        text +=
            "\n  There are too many names to count each; --json has by how much a count may be too high.\n";
    }
    text
}

/// Counts in one line, the greatest first.
fn listed(counts: &BTreeMap<String, u64>, of: u64) -> String {
    let mut sorted: Vec<(&String, &u64)> = counts.iter().collect();
    sorted.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
    let rest: u64 = sorted.iter().skip(LISTED_MOST).map(|(_, count)| **count).sum();
    let shown = sorted.iter().take(LISTED_MOST);
    let mut parts: Vec<String> =
        shown.map(|(name, count)| format!("{name} {}", with_share(**count, of))).collect();
    if rest > 0 {
        parts.push(format!("others {}", with_share(rest, of)));
    }
    if parts.is_empty() { "none".into() } else { parts.join(", ") }
}

fn sizes(SpreadShown { mean, p50, p99, max }: SpreadShown) -> String {
    format!("mean {mean:.0}, p50 {p50}, p99 {p99}, max {max}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_listed_by_their_size_and_small_ones_together() {
        let counts = |number: u64| (0..number).map(|count| (format!("t{count:02}"), count + 1)).collect();
        assert_eq!(listed(&counts(2), 3), "t01 2 (66.67%), t00 1 (33.33%)");
        assert!(listed(&counts(14), 105).ends_with("t02 3 (2.86%), others 3 (2.86%)"));
        assert_eq!(listed(&counts(0), 0), "none");
    }
}

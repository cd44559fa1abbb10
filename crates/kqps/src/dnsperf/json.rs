//! The results of `-j`: an object in each line, whose only key says what it is. docs/DNSPERF.md describes them.

use kqps_player::live::TimesSnapshot;
use serde_json::{Value, json};

use super::command::Command;
use super::statistics::{Counts, Ended, rcode_name};
use super::usage::VERSION;

/// The first line: what was asked for.
pub(super) fn start(words: &[String], server: &str, unix_s: f64) -> Value {
    let command_line: Vec<&str> =
        std::iter::once(super::NAME).chain(words.iter().map(String::as_str)).collect();
    json!({"start": {
        "version": VERSION,
        "command_line": command_line,
        "server": server,
        "time": unix_s,
        "kqps_version": env!("CARGO_PKG_VERSION"),
    }})
}

/// The rate of an interval that ended at `unix_s`.
pub(super) fn rate(counts: &Counts, unix_s: f64) -> Value {
    json!({"rate": {"time": unix_s, "qps": counts.rate()}})
}

/// The line for the end of the run, with its reason.
pub(super) fn stop(ended: Ended) -> Value {
    json!({"stop": {"reason": ended.words()}})
}

/// The statistics of a run or of an interval. Times are seconds.
pub(super) fn statistics(command: &Command, counts: &Counts) -> Value {
    let replies = &counts.replies;
    let rcodes: serde_json::Map<String, Value> =
        counts.rcodes().into_iter().map(|(rcode, count)| (rcode_name(rcode), count.into())).collect();
    let times = |times: &TimesSnapshot| times_of(command, times, counts.are_of_interval);
    let mut statistics = json!({
        "interval": counts.are_of_interval,
        "sent": counts.sent,
        "completed": replies.replies(),
        "lost": counts.lost,
        "interrupted": replies.interrupted,
        "response_codes": rcodes,
        "average_request_size": counts.request_bytes(),
        "average_response_size": counts.response_bytes(),
        "run_time": counts.run_time_s,
        "qps": counts.rate(),
        "latency": times(&replies.latency),
    });
    if replies.connection_attempts > 0 || replies.connections.count > 0 {
        statistics["connections"] = json!({
            "attempts": replies.connection_attempts,
            "successful": replies.connections.count,
            "latency": times(&replies.connections),
        });
    }
    if let Some(statuses) = &counts.http_statuses {
        statistics["http_return_codes"] = json!(statuses);
    }
    json!({"statistics": statistics})
}

/// Latencies. The shortest and the longest of an interval are not known.
fn times_of(command: &Command, times: &TimesSnapshot, are_of_interval: bool) -> Value {
    let seconds = |time_us: u64| time_us as f64 / 1e6;
    let mut latency = json!({"avg": seconds(times.mean_us())});
    if !are_of_interval {
        latency["min"] = json!(seconds(times.min_us));
        latency["max"] = json!(seconds(times.max_us));
    }
    if let Some(deviation_us) = times.deviation_us() {
        latency["stddev"] = json!(deviation_us.round() / 1e6);
    }
    if command.latency_histogram {
        let buckets =
            times.buckets().map(|(low_us, high_us, count)| json!([seconds(low_us), seconds(high_us), count]));
        latency["histogram"] = buckets.collect();
    }
    latency
}

#[cfg(test)]
mod tests {
    use kqps_observation::trial::LoadFacts;
    use kqps_observation::{Accounts, Trial};
    use kqps_player::live::{DetailSnapshot, Snapshot};

    use super::*;

    /// Five replies, of which one has an rcode that does not fit into a header.
    fn replies() -> DetailSnapshot {
        DetailSnapshot {
            rcodes: [(0, 2), (16, 1), (3, 1), (11, 1)].into(),
            latency: [80, 81, 80, 130, 2_482_000].into_iter().collect(),
            request_bytes: 205,
            response_bytes: 170,
            ..DetailSnapshot::default()
        }
    }

    /// The fields that public scripts read are `sent`, `completed`, `lost`, `qps`, `interval` and `latency`.
    #[test]
    fn json_has_the_figures_of_the_text() {
        let trial = Trial {
            accounts: Accounts { sent: 6, ..Accounts::default() },
            load: LoadFacts { sending_s: Some(0.5), ..LoadFacts::default() },
            ..Trial::default()
        };
        let counts = Counts::from_trial(&trial, replies());
        let mut command = Command { latency_histogram: true, ..Command::new() };
        let expected = json!({"statistics": {
            "interval": false, "sent": 6, "completed": 5, "lost": 1, "interrupted": 0,
            "response_codes": {"NOERROR": 3, "NXDOMAIN": 1, "rcode11": 1},
            "average_request_size": 34, "average_response_size": 34,
            "run_time": 0.5, "qps": 10.0,
            "latency": {
                "avg": 0.496_474, "min": 0.000_08, "max": 2.482, "stddev": 1.109_943,
                "histogram": [[0.000_08, 0.000_081, 3], [0.000_128, 0.000_131, 1], [2.424_832, 2.490_367, 1]],
            },
        }});
        assert_eq!(statistics(&command, &counts), expected);
        command.latency_histogram = false;
        let interval = Snapshot { detail: Some(replies()), ..Snapshot::default() };
        let counts = Counts::of_interval(interval, 0.5, 3.5);
        let shown = statistics(&command, &counts);
        assert_eq!(shown["statistics"]["interval"], true);
        assert_eq!(shown["statistics"]["latency"], json!({"avg": 0.496_474, "stddev": 1.109_943}));
        assert_eq!(rate(&counts, 7.5), json!({"rate": {"time": 7.5, "qps": 10.0}}));
        assert_eq!(stop(Ended::Time), json!({"stop": {"reason": "time limit"}}));
        let start = start(&["-j".into()], "127.0.0.1:53", 1.5);
        assert_eq!(start["start"]["version"], "2.15.0");
        assert_eq!(start["start"]["command_line"], json!(["dnsperf", "-j"]));
    }
}

//! dnsperf's statistics: its lines, in its order.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kqps_observation::{ConnectionFacts, Quantiles, Trial};
use kqps_player::live::{DetailSnapshot as Detail, RCODES, Snapshot};
use kqps_player::reply::Cause;

use super::command::Command;

/// What a run or an interval came to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counts {
    sent: u64,
    completed: u64,
    interrupted: u64,
    /// Queries that were lost; `None` in an interval, at whose end it is open what becomes of some.
    lost: Option<u64>,
    rcodes: [u64; RCODES],
    request_bytes: u64,
    response_bytes: u64,
    run_time_s: f64,
    latency_us: u64,
    latency_squares: u64,
    latency_min_us: u64,
    latency_max_us: u64,
    connections: Option<Connections>,
    /// Statuses of responses by HTTP, with their numbers; `None` without HTTP.
    http_statuses: Option<BTreeMap<String, u64>>,
}

/// The connections of a run.
#[derive(Clone, Debug, PartialEq)]
struct Connections {
    made: u64,
    again: u64,
    made_us: Quantiles,
}

/// How long connections took to be made. With TLS its handshakes follow those of TCP, so both are added: averages are
/// exact, and the limits are those of each.
fn made_us(connections: &ConnectionFacts) -> Quantiles {
    let tcp = connections.connect_us;
    let Some(tls) = &connections.tls else { return tcp };
    let each = || tls.handshake_us.values();
    let of_kind = |(kind, times): (&String, &Quantiles)| {
        let count = tls.handshakes.get(kind).copied().unwrap_or(0) as f64;
        times.mean.map(|mean| (mean * count, count))
    };
    let sums = tls.handshake_us.iter().filter_map(of_kind);
    let (sum, count) = sums.fold((0.0, 0.0), |(sum, all), (more, count)| (sum + more, all + count));
    let both = |tcp: Option<u64>, tls: Option<u64>| Some(tcp? + tls?);
    let deviation = each().filter_map(|times| times.stddev).fold(0.0, f64::max);
    Quantiles {
        mean: tcp.mean.filter(|_| count > 0.0).map(|mean| mean + sum / count),
        min: both(tcp.min, each().filter_map(|times| times.min).min()),
        max: both(tcp.max, each().filter_map(|times| times.max).max()),
        stddev: tcp.stddev.map(|stddev| stddev.hypot(deviation)),
        ..tcp
    }
}

/// What ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The input, as often as it was to be played.
    Input,
    Time,
    Interruption,
}

impl Ended {
    /// What ended the run of an input with so many queries.
    pub(super) fn of(trial: &Trial, command: &Command, queries: u64) -> Self {
        let runs = command.runs.or(command.limit.is_none().then_some(1));
        let all = runs.map(|runs| runs.saturating_mul(queries));
        match all {
            _ if trial.interrupted => Self::Interruption,
            Some(all) if trial.accounts.intended >= all => Self::Input,
            _ => Self::Time,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Input => "end of file",
            Self::Time => "time limit",
            Self::Interruption => "interruption",
        }
    }
}

impl Counts {
    /// A run that sent nothing.
    pub(super) fn nothing() -> Self {
        Self {
            sent: 0,
            completed: 0,
            interrupted: 0,
            lost: Some(0),
            rcodes: [0; RCODES],
            request_bytes: 0,
            response_bytes: 0,
            run_time_s: 0.0,
            latency_us: 0,
            latency_squares: 0,
            latency_min_us: 0,
            latency_max_us: 0,
            connections: None,
            http_statuses: None,
        }
    }

    /// What a trial came to.
    pub(super) fn of(trial: &Trial, detail: Option<&Detail>) -> Self {
        let usual = Self::nothing();
        let counts = detail.map_or(usual, Self::replies);
        let sent = trial.accounts.sent;
        let lost = sent.saturating_sub(counts.completed + counts.interrupted);
        let last_reply_s = detail.map_or(0.0, |detail| detail.last_reply_ns as f64 / 1e9);
        let connections = trial.connections.as_ref().map(|connections| Connections {
            made: connections.established,
            again: connections.established.saturating_sub(u64::from(trial.players.first.sockets)),
            made_us: made_us(connections),
        });
        let run_time_s = trial.load.duration_s.max(last_reply_s);
        let has_http = trial.connections.as_ref().is_some_and(|connections| connections.http.is_some());
        let http_statuses = has_http.then(|| http_statuses(trial, counts.completed));
        Self { sent, lost: Some(lost), run_time_s, connections, http_statuses, ..counts }
    }

    /// What happened between two snapshots, which are this many seconds apart.
    pub(super) fn between(then: &Snapshot, now: &Snapshot, seconds: f64) -> Self {
        let since = now.since(then);
        let counts = since.detail.as_ref().map_or_else(Self::nothing, Self::replies);
        Self { sent: since.sent, lost: None, run_time_s: seconds, ..counts }
    }

    fn replies(detail: &Detail) -> Self {
        let completed = detail.replies();
        Self {
            completed,
            interrupted: detail.interrupted,
            rcodes: detail.rcodes,
            request_bytes: detail.request_bytes,
            response_bytes: detail.response_bytes,
            latency_us: detail.latency_us,
            latency_squares: detail.latency_squares,
            latency_min_us: if completed > 0 { detail.latency_min_us } else { 0 },
            latency_max_us: detail.latency_max_us,
            ..Self::nothing()
        }
    }

    /// The deviation of the latencies, seconds; `None` with fewer than two.
    fn deviation_s(&self) -> Option<f64> {
        let count = self.completed as f64;
        let sum = self.latency_us as f64;
        let squares = self.latency_squares as f64;
        (self.completed > 1).then(|| ((squares - sum * sum / count) / (count - 1.0)).max(0.0).sqrt() / 1e6)
    }
}

/// The name of an rcode, as dnsperf has it.
pub(super) fn rcode_name(rcode: usize) -> String {
    const NAMES: [&str; 11] = [
        "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET",
        "NOTAUTH", "NOTZONE",
    ];
    NAMES.get(rcode).map_or_else(|| format!("rcode{rcode}"), |name| (*name).to_owned())
}

/// Replies a second.
pub(super) fn rate(counts: &Counts) -> f64 {
    if counts.run_time_s > 0.0 { counts.completed as f64 / counts.run_time_s } else { 0.0 }
}

/// The lines of a run.
pub(super) fn text(command: &Command, counts: &Counts, ended: Ended) -> String {
    let head = format!("[Status] Testing complete ({})\n\nStatistics:\n\n", ended.words());
    head + &body(command, counts) + &connections(counts) + &http(counts)
}

/// The statuses of the responses by HTTP to `completed` queries. The player tells none of 2xx from another.
fn http_statuses(trial: &Trial, completed: u64) -> BTreeMap<String, u64> {
    let others = trial.wrong_causes.iter().filter_map(|(cause, count)| {
        Some((cause.strip_prefix(Cause::STATUS)?.trim_start_matches('-').to_owned(), *count))
    });
    let mut statuses: BTreeMap<String, u64> = others.collect();
    let good = completed.saturating_sub(statuses.values().sum());
    if good > 0 {
        statuses.insert("200".to_owned(), good);
    }
    statuses
}

fn http(counts: &Counts) -> String {
    let Some(statuses) = &counts.http_statuses else { return String::new() };
    let each: Vec<String> = statuses.iter().map(|(status, count)| format!("{status}: {count}")).collect();
    format!("DNS-over-HTTPS statistics:\n\n  HTTP/2 return codes:  {}\n\n", each.join(", "))
}

/// The lines of an interval.
pub(super) fn interval_text(command: &Command, counts: &Counts) -> String {
    format!("\nInterval Statistics:\n\n{}", body(command, counts))
}

fn body(command: &Command, counts: &Counts) -> String {
    let mut text = String::new();
    let units = if command.updates { "Updates" } else { "Queries" };
    // Of a full line the value begins in the same column, whatever the units.
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "  {:<21} {value}", format!("{label}:"));
    };
    let of_sent = |count| format!("{count} ({:.2}%)", percent(count, counts.sent));
    line(&format!("{units} sent"), &counts.sent.to_string());
    line(&format!("{units} completed"), &of_sent(counts.completed));
    if let Some(lost) = counts.lost {
        line(&format!("{units} lost"), &of_sent(lost));
    }
    if counts.interrupted > 0 {
        line(&format!("{units} interrupted"), &of_sent(counts.interrupted));
    }
    text.push('\n');
    let mut line = |label: &str, value: &str| {
        let _ = writeln!(text, "  {:<21} {value}", format!("{label}:"));
    };
    let seen = counts.rcodes.iter().enumerate().filter(|(_, count)| **count > 0);
    let rcodes: Vec<String> = seen
        .map(|(rcode, &count)| {
            format!("{} {count} ({:.2}%)", rcode_name(rcode), percent(count, counts.completed))
        })
        .collect();
    line("Response codes", &rcodes.join(", "));
    let mean = |bytes: u64, count: u64| bytes.checked_div(count).unwrap_or(0);
    line(
        "Average packet size",
        &format!(
            "request {}, response {}",
            mean(counts.request_bytes, counts.sent),
            mean(counts.response_bytes, counts.completed)
        ),
    );
    line("Run time (s)", &format!("{:.6}", counts.run_time_s));
    line(&format!("{units} per second"), &format!("{:.6}", rate(counts)));
    text.push('\n');
    let average_us = counts.latency_us.checked_div(counts.completed).unwrap_or(0);
    let [average, min, max] = [average_us, counts.latency_min_us, counts.latency_max_us]
        .map(|time_us| format!("{:.6}", time_us as f64 / 1e6));
    let _ = writeln!(text, "  Average Latency (s):  {average} (min {min}, max {max})");
    if let Some(deviation_s) = counts.deviation_s() {
        let _ = writeln!(text, "  Latency StdDev (s):   {deviation_s:.6}");
    }
    text.push('\n');
    text
}

fn connections(counts: &Counts) -> String {
    let Some(Connections { made, again, made_us }) = &counts.connections else { return String::new() };
    let seconds = |time_us: Option<f64>| format!("{:.6}", time_us.unwrap_or(0.0) / 1e6);
    let whole = |time_us: Option<u64>| seconds(time_us.map(|time_us| time_us as f64));
    let [average, min, max] = [seconds(made_us.mean), whole(made_us.min), whole(made_us.max)];
    let mut text = format!("Connection Statistics:\n\n  Reconnections:        {again}\n\n");
    let _ = writeln!(text, "  Average Latency (s):  {average} (min {min}, max {max})");
    if let Some(stddev) = made_us.stddev.filter(|_| *made > 1) {
        let _ = writeln!(text, "  Latency StdDev (s):   {}", seconds(Some(stddev)));
    }
    text.push('\n');
    text
}

/// The latencies of a run, by ranges of which each is an eighth of a power of two.
pub(super) fn histogram(detail: Option<&Detail>) -> String {
    let mut text = String::from("Latency bucket (s): answer count\n");
    for (low_us, high_us, count) in detail.into_iter().flat_map(Detail::latency_buckets) {
        let [low, high] = [low_us, high_us].map(|time_us| format!("{:.6}", time_us as f64 / 1e6));
        let _ = writeln!(text, "  {low} - {high}: {count}");
    }
    text.push('\n');
    text
}

/// Warnings of queries that the kernel did not take.
pub(super) fn failures(command: &Command, trial: &Trial) -> Vec<String> {
    if command.suppressed.send_failed {
        return Vec::new();
    }
    let line = |(cause, count): (&String, &u64)| format!("failed to send packet: {cause} ({count} times)");
    trial.send_failed_causes.iter().map(line).collect()
}

fn percent(count: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { 100.0 * count as f64 / of as f64 }
}

#[cfg(test)]
mod tests {
    use kqps_observation::TlsFacts;

    use super::*;

    /// A run of Debian's dnsperf 2.10, and its figures.
    #[test]
    fn a_run_is_printed_as_by_dnsperf() {
        let mut rcodes = [0; RCODES];
        (rcodes[0], rcodes[3], rcodes[11]) = (3, 1, 1);
        let counts = Counts {
            sent: 6,
            completed: 5,
            lost: Some(1),
            rcodes,
            request_bytes: 205,
            response_bytes: 170,
            run_time_s: 0.007_218,
            latency_us: 500,
            latency_squares: 52_000,
            latency_min_us: 80,
            latency_max_us: 2_482_000,
            ..Counts::nothing()
        };
        let text = text(&Command::default(), &counts, Ended::Input);
        let expected = "\
[Status] Testing complete (end of file)

Statistics:

  Queries sent:         6
  Queries completed:    5 (83.33%)
  Queries lost:         1 (16.67%)

  Response codes:       NOERROR 3 (60.00%), NXDOMAIN 1 (20.00%), rcode11 1 (20.00%)
  Average packet size:  request 34, response 34
  Run time (s):         0.007218
  Queries per second:   692.712663

  Average Latency (s):  0.000100 (min 0.000080, max 2.482000)
  Latency StdDev (s):   0.000022

";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_connection_with_tls_took_as_long_as_both_handshakes() {
        let times = |mean: u64| Quantiles {
            min: Some(mean - 1),
            mean: Some(mean as f64),
            max: Some(mean + 1),
            stddev: Some(3.0),
            ..Quantiles::default()
        };
        let kinds = [("full", 1, 400), ("resumed", 3, 200)];
        let tls = TlsFacts {
            handshakes: kinds.iter().map(|(kind, count, _)| ((*kind).to_owned(), *count)).collect(),
            handshake_us: kinds.iter().map(|(kind, _, mean)| ((*kind).to_owned(), times(*mean))).collect(),
            ..TlsFacts::default()
        };
        let facts = ConnectionFacts { connect_us: times(100), ..ConnectionFacts::default() };
        assert_eq!(made_us(&facts), times(100));
        let made = made_us(&ConnectionFacts { tls: Some(tls), ..facts });
        assert_eq!((made.mean, made.min, made.max), (Some(350.0), Some(99 + 199), Some(101 + 401)));
    }

    #[test]
    fn updates_interruptions_and_connections_have_their_lines() {
        let made_us = Quantiles { min: Some(30), mean: Some(50.0), max: Some(70), ..Quantiles::default() };
        let counts = Counts {
            sent: 2,
            interrupted: 2,
            connections: Some(Connections { made: 1, again: 3, made_us }),
            http_statuses: Some([("200".to_owned(), 7), ("503".to_owned(), 2)].into()),
            ..Counts::nothing()
        };
        let text = text(&Command { updates: true, ..Command::default() }, &counts, Ended::Interruption);
        for line in [
            "[Status] Testing complete (interruption)\n",
            "  Updates sent:         2\n",
            "  Updates interrupted:  2 (100.00%)\n",
            "  Response codes:       \n",
            "  Updates per second:   0.000000\n",
            "Connection Statistics:\n\n  Reconnections:        3\n\n  Average Latency (s):  0.000050 (min 0.000030, max",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(text.ends_with("statistics:\n\n  HTTP/2 return codes:  200: 7, 503: 2\n\n"), "{text}");
        assert!(!text.contains("StdDev"));
    }
}

//! dnsperf's statistics: its lines, in its order.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kqps_observation::Trial;
use kqps_player::live::{DetailSnapshot as Detail, Snapshot, TimesSnapshot};
use kqps_player::reply::Cause;

use super::command::Command;
use crate::load::{line, percent, with_share};

/// The counts of a run or an interval.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) lost: u64,
    /// Since the run began.
    pub(super) run_time_s: f64,
    /// The time in which the replies came, seconds.
    counted_s: f64,
    pub(super) replies: Detail,
    /// Whether they are of an interval, whose shortest and longest times are unknown.
    pub(super) are_of_interval: bool,
    /// Statuses of responses by HTTP, with their numbers; `None` without HTTP.
    pub(super) http_statuses: Option<BTreeMap<String, u64>>,
}

/// The cause that ended a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The input, as often as it was to be played.
    Input,
    Time,
    Interruption,
}

impl Ended {
    /// The cause that ended the run of an input with so many queries.
    pub(super) fn from_trial(trial: &Trial, command: &Command, queries: u64) -> Self {
        let runs = command.runs.or(command.limit.is_none().then_some(1));
        let all = runs.map(|runs| runs.saturating_mul(queries));
        match all {
            _ if trial.interrupted => Self::Interruption,
            Some(all) if trial.accounts.intended >= all => Self::Input,
            _ => Self::Time,
        }
    }

    pub(super) fn words(self) -> &'static str {
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
            lost: 0,
            run_time_s: 0.0,
            counted_s: 0.0,
            replies: Detail::default(),
            are_of_interval: false,
            http_statuses: None,
        }
    }

    /// The counts of a trial.
    pub(super) fn from_trial(trial: &Trial, replies: Detail) -> Self {
        let sent = trial.accounts.sent;
        // A query without a reply does not prolong the run.
        let run_time_s = trial.load.sending_s().max(replies.last_reply_ns as f64 / 1e9);
        let has_http = trial.connections.as_ref().is_some_and(|connections| connections.http.is_some());
        Self {
            sent,
            lost: sent.saturating_sub(replies.replies() + replies.interrupted),
            run_time_s,
            counted_s: run_time_s,
            http_statuses: has_http.then(|| http_statuses(&trial.wrong_causes, replies.replies())),
            replies,
            are_of_interval: false,
        }
    }

    /// The counts of a trial whose player kept no details.
    pub(super) fn of_whole(trial: &Trial) -> Self {
        let mut replies = Detail::default();
        for (name, count) in &trial.response_rcodes {
            let rcode = kqps_message::rcode::parse(name.as_bytes()).unwrap_or(u16::MAX);
            *replies.rcodes.entry(rcode).or_default() += count;
        }
        replies.last_reply_ns =
            trial.replies.and_then(|replies| replies.last_s).map_or(0, |last_s| (last_s * 1e9) as u64);
        Self::from_trial(trial, replies)
    }

    /// The counts of an interval of `counted_s` seconds, `run_time_s` seconds after the run began.
    pub(super) fn of_interval(interval: Snapshot, counted_s: f64, run_time_s: f64) -> Self {
        let replies = interval.detail.unwrap_or_default();
        Self {
            sent: interval.sent,
            lost: replies.timed_out,
            run_time_s,
            counted_s,
            replies,
            are_of_interval: true,
            http_statuses: None,
        }
    }

    /// Replies by the four bits of the rcode that their headers have, which are all that dnsperf reads.
    pub(super) fn rcodes(&self) -> BTreeMap<u16, u64> {
        let mut rcodes = BTreeMap::new();
        for (rcode, count) in self.replies.rcodes.iter().filter(|(_, count)| **count > 0) {
            *rcodes.entry(rcode & 0x0f).or_default() += count;
        }
        rcodes
    }

    /// The mean size of a query, whole bytes.
    pub(super) fn request_bytes(&self) -> u64 {
        self.replies.request_bytes.checked_div(self.sent).unwrap_or(0)
    }

    /// The mean size of a reply, whole bytes.
    pub(super) fn response_bytes(&self) -> u64 {
        self.replies.response_bytes.checked_div(self.replies.replies()).unwrap_or(0)
    }

    /// Replies a second.
    pub(super) fn rate(&self) -> f64 {
        if self.counted_s > 0.0 { self.replies.replies() as f64 / self.counted_s } else { 0.0 }
    }
}

/// The name of an rcode, as dnsperf has it.
pub(super) fn rcode_name(rcode: u16) -> String {
    const NAMES: [&str; 11] = [
        "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET",
        "NOTAUTH", "NOTZONE",
    ];
    NAMES.get(usize::from(rcode)).map_or_else(|| format!("rcode{rcode}"), |name| (*name).to_owned())
}

/// The lines of a run.
pub(super) fn text(command: &Command, counts: &Counts, ended: Ended) -> String {
    format!("[Status] Testing complete ({})\n\n{}{}", ended.words(), body(command, counts), http(counts))
}

/// The lines of an interval.
pub(super) fn interval_text(command: &Command, counts: &Counts) -> String {
    format!("Interval {}", body(command, counts))
}

/// The statuses of responses by HTTP: of those that completed a query, and of those that did not, by what was wrong
/// with them. The player does not count each of 2xx apart.
fn http_statuses(wrong_causes: &BTreeMap<String, u64>, completed: u64) -> BTreeMap<String, u64> {
    let others = wrong_causes.iter().filter_map(|(cause, count)| {
        Some((cause.strip_prefix(Cause::STATUS)?.trim_start_matches('-').to_owned(), *count))
    });
    let mut statuses: BTreeMap<String, u64> = others.collect();
    let unread = [Cause::ContentType, Cause::Id, Cause::TooLong].map(|cause| Cause::NAMES[cause.number()]);
    let good = completed + unread.iter().filter_map(|cause| wrong_causes.get(*cause)).sum::<u64>();
    if good > 0 {
        statuses.insert("200".to_owned(), good);
    }
    statuses
}

/// The replies by rcode, with shares.
pub(super) fn codes(counts: &Counts) -> String {
    let completed = counts.replies.replies();
    let code =
        |(rcode, count): (&u16, &u64)| format!("{} {}", rcode_name(*rcode), with_share(*count, completed));
    counts.rcodes().iter().map(code).collect::<Vec<_>>().join(", ")
}

fn http(counts: &Counts) -> String {
    let Some(statuses) = &counts.http_statuses else { return String::new() };
    let each: Vec<String> = statuses.iter().map(|(status, count)| format!("{status}: {count}")).collect();
    let each = if each.is_empty() { "none".to_owned() } else { each.join(", ") };
    format!("DNS-over-HTTPS statistics:\n\n  HTTP/2 return codes:  {each}\n\n")
}

fn body(command: &Command, counts: &Counts) -> String {
    let mut text = String::from("Statistics:\n\n");
    let units = if command.updates { "Updates" } else { "Queries" };
    let replies = &counts.replies;
    let completed = replies.replies();
    let of_sent = |count| with_share(count, counts.sent);
    line(&mut text, &format!("{units} sent"), &counts.sent.to_string());
    line(&mut text, &format!("{units} completed"), &of_sent(completed));
    line(&mut text, &format!("{units} lost"), &of_sent(counts.lost));
    if replies.interrupted > 0 {
        line(&mut text, &format!("{units} interrupted"), &of_sent(replies.interrupted));
    }
    text.push('\n');
    line(&mut text, "Response codes", &codes(counts));
    let (request, response) = (counts.request_bytes(), counts.response_bytes());
    line(&mut text, "Average packet size", &format!("request {request}, response {response}"));
    line(&mut text, "Run time (s)", &format!("{:.6}", counts.run_time_s));
    line(&mut text, &format!("{units} per second"), &format!("{:.6}", counts.rate()));
    text.push('\n');
    text += &latency(command, &replies.latency, counts.are_of_interval, "answer count");
    text + &connections(command, counts)
}

fn connections(command: &Command, counts: &Counts) -> String {
    let Detail { connection_attempts: attempts, connections: made, .. } = &counts.replies;
    if *attempts == 0 && made.count == 0 {
        return String::new();
    }
    let share = percent(made.count, *attempts);
    let mut text = String::from("Connection Statistics:\n\n");
    line(&mut text, "Connection attempts", &format!("{attempts} ({} successful, {share:.2}%)", made.count));
    text.push('\n');
    text + &latency(command, made, counts.are_of_interval, "connection count")
}

/// The lines of latencies. `counted` is what the histogram counts.
fn latency(command: &Command, times: &TimesSnapshot, are_of_interval: bool, counted: &str) -> String {
    let [mean, min, max] = [times.mean_us(), times.min_us, times.max_us].map(seconds);
    let limits = if are_of_interval { String::new() } else { format!(" (min {min}, max {max})") };
    let mut text = String::new();
    line(&mut text, "Average Latency (s)", &format!("{mean}{limits}"));
    if let Some(deviation_us) = times.deviation_us() {
        line(&mut text, "Latency StdDev (s)", &format!("{:.6}", deviation_us / 1e6));
        if command.latency_histogram {
            line(&mut text, "Latency bucket (s)", counted);
            for (low_us, high_us, count) in times.buckets() {
                let _ = writeln!(text, "  {} - {}:  {count}", seconds(low_us), seconds(high_us));
            }
        }
    }
    text.push('\n');
    text
}

fn seconds(time_us: u64) -> String {
    format!("{}.{:06}", time_us / 1_000_000, time_us % 1_000_000)
}

/// Warnings of queries that the kernel did not take. As in dnsperf, `-v` asks for them.
pub(super) fn failures(command: &Command, causes: &BTreeMap<String, u64>) -> Vec<String> {
    if !command.verbose || command.suppressed.send_failed {
        return Vec::new();
    }
    let line = |(cause, count): (&String, &u64)| format!("failed to send packet: {cause} ({count} times)");
    causes.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The counts of `Live` for replies with these rcodes and latencies.
    fn replied(replies: &[(u16, u64)]) -> Detail {
        let mut detail = Detail {
            latency: replies.iter().map(|(_, latency_us)| *latency_us).collect(),
            ..Detail::default()
        };
        for (rcode, _) in replies {
            *detail.rcodes.entry(*rcode).or_default() += 1;
        }
        detail
    }

    /// A run of dnsperf 2.14 over TCP with `latency-histogram`, and its figures.
    #[test]
    fn a_run_is_printed_as_by_dnsperf() {
        let replies = Detail {
            request_bytes: 205,
            response_bytes: 170,
            connection_attempts: 4,
            connections: [30, 50, 70].into_iter().collect(),
            // BADVERS is 16, of which a header has four bits.
            ..replied(&[(0, 80), (0, 81), (16, 80), (3, 130), (11, 2_482_000)])
        };
        let counts = Counts {
            sent: 6,
            lost: 1,
            run_time_s: 0.007_218,
            counted_s: 0.007_218,
            replies,
            ..Counts::nothing()
        };
        let command = Command { latency_histogram: true, ..Command::new() };
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

  Average Latency (s):  0.496474 (min 0.000080, max 2.482000)
  Latency StdDev (s):   1.109943
  Latency bucket (s):   answer count
  0.000080 - 0.000081:  3
  0.000128 - 0.000131:  1
  2.424832 - 2.490367:  1

Connection Statistics:

  Connection attempts:  4 (3 successful, 75.00%)

  Average Latency (s):  0.000050 (min 0.000030, max 0.000070)
  Latency StdDev (s):   0.000020
  Latency bucket (s):   connection count
  0.000030 - 0.000030:  1
  0.000050 - 0.000050:  1
  0.000070 - 0.000071:  1

";
        assert_eq!(text(&command, &counts, Ended::Input), expected);
    }

    #[test]
    fn an_interval_has_no_limits_and_a_rate_of_its_own() {
        let detail = Some(Detail { timed_out: 2, ..replied(&[(0, 7), (0, 9)]) });
        let interval = Snapshot { sent: 8, detail, ..Snapshot::default() };
        let text = interval_text(&Command::new(), &Counts::of_interval(interval, 0.5, 3.5));
        let expected = "\
Interval Statistics:

  Queries sent:         8
  Queries completed:    2 (25.00%)
  Queries lost:         2 (25.00%)

  Response codes:       NOERROR 2 (100.00%)
  Average packet size:  request 0, response 0
  Run time (s):         3.500000
  Queries per second:   4.000000

  Average Latency (s):  0.000008
  Latency StdDev (s):   0.000001

";
        assert_eq!(text, expected);
    }

    #[test]
    fn statuses_of_http_are_those_of_all_responses() {
        let causes = |causes: &[(&str, u64)]| -> BTreeMap<String, u64> {
            causes.iter().map(|(cause, count)| ((*cause).to_owned(), *count)).collect()
        };
        let statuses = |wrong, completed| http_statuses(&causes(wrong), completed);
        assert_eq!(statuses(&[], 7), causes(&[("200", 7)]));
        assert_eq!(statuses(&[("status-503", 5)], 0), causes(&[("503", 5)]));
        assert_eq!(
            statuses(&[("status-404", 2), ("content-type", 1), ("question", 4)], 9),
            causes(&[("200", 10), ("404", 2)])
        );
    }

    #[test]
    fn what_the_kernel_did_not_take_is_said_if_asked_for() {
        let causes = [("Network is unreachable".to_owned(), 3)].into();
        let mut command = Command { verbose: true, ..Command::new() };
        assert_eq!(failures(&command, &causes), ["failed to send packet: Network is unreachable (3 times)"]);
        command.suppressed.send_failed = true;
        assert!(failures(&command, &causes).is_empty());
        assert!(failures(&Command::new(), &causes).is_empty(), "without -v");
    }

    #[test]
    fn updates_interruptions_and_statuses_have_their_lines() {
        let counts = Counts {
            sent: 2,
            replies: Detail { interrupted: 2, ..Detail::default() },
            http_statuses: Some([("200".to_owned(), 7), ("503".to_owned(), 2)].into()),
            ..Counts::nothing()
        };
        let text = text(&Command { updates: true, ..Command::new() }, &counts, Ended::Interruption);
        for line in [
            "[Status] Testing complete (interruption)\n",
            "  Updates sent:         2\n",
            "  Updates interrupted:  2 (100.00%)\n",
            "  Response codes:       \n",
            "  Updates per second:   0.000000\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(text.ends_with("statistics:\n\n  HTTP/2 return codes:  200: 7, 503: 2\n\n"), "{text}");
        assert!(!text.contains("StdDev") && !text.contains("Connection"));
    }
}

//! The lines of `kqps load` that dnsperf prints as well, with dnsperf's meanings, and what stands among them in other words.

use kqps_catalogue::cause::Loss;
use kqps_observation::Trial;
use kqps_observation::trial::{LoadFacts, ReplyFacts};
use kqps_verdict::warning::{Effect, Warning};

use super::{line, with_share};

/// dnsperf's lines, with its meanings: every reply in time completes a query, and times are those of such replies.
pub(super) fn statistics(trial: &Trial, warnings: &[Warning], silence: Option<&str>) -> String {
    let accounts = &trial.accounts;
    let replies = trial.replies.unwrap_or_default();
    let completed = replies.count;
    let mut text = String::from("Statistics:\n\n");
    let of_sent = |count| with_share(count, accounts.sent);
    let [sent, done, lost, each_second] = if trial.has_connections_alone() {
        ["Connections begun", "Connections made", "Connections lost", "Connections a second"]
    } else {
        ["Queries sent", "Queries completed", "Queries lost", "Queries per second"]
    };
    line(&mut text, sent, &accounts.sent.to_string());
    line(&mut text, done, &of_sent(completed));
    let never_left = if trial.has_connections_alone() { 0 } else { never_left(trial) };
    let why = match (trial.lost_by_player(), never_left) {
        (0, 0) => String::new(),
        (0, none) => format!(", {none} of them without a connection, so they never left"),
        (own, _) => format!(", {own} of them by the player's own sockets"),
    };
    line(&mut text, lost, &(of_sent(accounts.sent.saturating_sub(completed)) + &why));
    text.push('\n');
    if !trial.has_connections_alone() {
        text += &replies_lines(trial, &replies);
    }
    // dnsperf's run time is until the last query or reply.
    let run_time_s = trial.load.sending_s().max(replies.last_s.unwrap_or(0.0));
    line(&mut text, "Run time (s)", &format!("{run_time_s:.6}"));
    line(&mut text, each_second, &format!("{:.6}", per_second(completed, run_time_s)));
    let LoadFacts { answered_qps, duration_s, .. } = trial.load;
    let what = if trial.has_connections_alone() { "Made in time" } else { "Correct answers" };
    line(&mut text, what, &format!("{answered_qps:.6} a second, in {duration_s:.6} s"));
    line(&mut text, "Capacity", &capacity(warnings, silence));
    text.push('\n');
    let seconds = |time_us: Option<f64>| format!("{:.6}", time_us.unwrap_or(0.0) / 1e6);
    let whole = |time_us: Option<u64>| seconds(time_us.map(|time_us| time_us as f64));
    let average = format!(
        "{} (min {}, max {})",
        seconds(replies.mean_us),
        whole(replies.min_us),
        whole(replies.max_us)
    );
    line(&mut text, "Average Latency (s)", &average);
    if replies.stddev_us.is_some() {
        line(&mut text, "Latency StdDev (s)", &seconds(replies.stddev_us));
    }
    text
}

fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// Lost queries that had no connection, and so did not leave.
fn never_left(trial: &Trial) -> u64 {
    let Some(connections) = &trial.connections else { return 0 };
    let is_before = |cause: &str| Loss::from_word(cause).is_some_and(Loss::is_before_connection);
    let is_cause = |cause: &str| cause != "time" && (connections.established == 0 || is_before(cause));
    trial.lost_causes.iter().filter(|(cause, _)| is_cause(cause)).map(|(_, count)| count).sum()
}

/// The rcodes of the replies, and the sizes of messages.
fn replies_lines(trial: &Trial, replies: &ReplyFacts) -> String {
    let mut text = String::new();
    let rcodes: Vec<String> = trial
        .response_rcodes
        .iter()
        .map(|(rcode, count)| format!("{rcode} {}", with_share(*count, replies.count)))
        .collect();
    line(&mut text, "Response codes", &rcodes.join(", "));
    let size = |bytes: Option<f64>| bytes.map_or(0.0, f64::trunc);
    let sizes = format!("request {}, response {}", size(trial.request_bytes_mean), size(replies.bytes_mean));
    line(&mut text, "Average packet size", &sizes);
    text
}

/// A note that the rate of a load is not the server's capacity.
fn capacity(warnings: &[Warning], silence: Option<&str>) -> String {
    let spoils = |warning: &&Warning| matches!(warning.effect(), Effect::Refuse | Effect::RedoThenRefuse);
    match warnings.iter().find(spoils) {
        _ if silence.is_some() => "not measured: nothing was answered".into(),
        Some(warning) => format!("not measured, and this load cannot show one ({}, see below)", warning.code),
        None => "not measured: the rate is that of this load (kqps find searches the highest)".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kqps_observation::{Accounts, ConnectionFacts};

    use super::*;

    /// Five of six queries had an unexpected reply, the last one 2.482 s after it was due. The figures are those that
    /// dnsperf 2.14 prints for such replies.
    fn trial() -> Trial {
        Trial {
            accounts: Accounts { intended: 6, sent: 6, wrong: 5, lost: 1, ..Accounts::default() },
            response_rcodes: BTreeMap::from([("NXDOMAIN".to_owned(), 5)]),
            request_bytes_mean: Some(34.2),
            load: LoadFacts { duration_s: 2.0, sending_s: Some(2.0), ..LoadFacts::default() },
            replies: Some(ReplyFacts {
                count: 5,
                bytes_mean: Some(34.0),
                mean_us: Some(496_474.2),
                min_us: Some(80),
                max_us: Some(2_482_000),
                last_s: Some(2.5),
                stddev_us: Some(1_109_943.2),
            }),
            ..Trial::default()
        }
    }

    #[test]
    fn lines_of_dnsperf_have_its_meanings() {
        let expected = "\
Statistics:

  Queries sent:         6
  Queries completed:    5 (83.33%)
  Queries lost:         1 (16.67%)

  Response codes:       NXDOMAIN 5 (100.00%)
  Average packet size:  request 34, response 34
  Run time (s):         2.500000
  Queries per second:   2.000000
  Correct answers:      0.000000 a second, in 2.000000 s
  Capacity:             not measured: the rate is that of this load (kqps find searches the highest)

  Average Latency (s):  0.496474 (min 0.000080, max 2.482000)
  Latency StdDev (s):   1.109943
";
        assert_eq!(statistics(&trial(), &[], None), expected);
    }

    #[test]
    fn without_a_reply_no_latency_is_made_up() {
        let trial = Trial { replies: Some(ReplyFacts::default()), ..trial() };
        let text = statistics(&trial, &[], Some("Nothing listens at 192.0.2.1:53"));
        for line in [
            "  Queries completed:    0 (0.00%)\n",
            "  Queries lost:         6 (100.00%)\n",
            "  Run time (s):         2.000000\n",
            "  Queries per second:   0.000000\n",
            "  Capacity:             not measured: nothing was answered\n",
            "  Average Latency (s):  0.000000 (min 0.000000, max 0.000000)\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains("StdDev"), "{text}");
    }

    #[test]
    fn queries_without_a_connection_are_named() {
        let mut trial = Trial { replies: Some(ReplyFacts::default()), ..trial() };
        trial.accounts = Accounts { intended: 6, sent: 6, lost: 6, ..Accounts::default() };
        trial.lost_causes = BTreeMap::from([("refused".to_owned(), 4), ("reset".to_owned(), 2)]);
        let mut with = |connections| {
            trial.connections = connections;
            statistics(&trial, &[], None)
        };
        assert!(with(None).contains("Queries lost:         6 (100.00%)\n"));
        let none = ConnectionFacts::default();
        assert!(with(Some(none.clone())).contains(", 6 of them without a connection, so they never left\n"));
        let some = ConnectionFacts { established: 1, ..none };
        assert!(with(Some(some)).contains(", 4 of them without a connection, so they never left\n"));
    }
}

//! The output of `kqps load`. It begins with dnsperf's lines, so that people and scripts find what they know,
//! and goes on with what dnsperf does not print.

mod connections;
mod replay;

use std::fmt::Write as _;

use kqps_lab::words::counted;
use kqps_observation::trial::{LoadMode, UNSENT_CONNECTIONS, UNSENT_IDS, UNSENT_WINDOW};
use kqps_observation::visible::visible_line;
use kqps_observation::{Quantiles, Trial};
use kqps_verdict::expected::expected_by_lost;
use kqps_verdict::rate::plain;
use kqps_verdict::silence::silence;
use kqps_verdict::warning::{Effect, Warning, busiest_to_mean, refusal};

use super::subject::watched;
use connections::{connection_lines, tcp_lines};
use replay::{differences, replay_lines};

pub(crate) use connections::{ANY_CERTIFICATE, agreed, causes};

/// The whole output of a trial. `workers` is the subject's number of workers, if it is known.
pub(super) fn words(trial: &Trial, warnings: &[Warning], workers: Option<u32>) -> String {
    format!("{}\n{}", statistics(trial, warnings), after_statistics(trial, warnings, workers))
}

/// What follows dnsperf's statistics.
pub(crate) fn after_statistics(trial: &Trial, warnings: &[Warning], workers: Option<u32>) -> String {
    let mut text = String::from("Accounts:\n\n");
    text += &accounts(trial);
    text += "\nLoad:\n\n";
    text += &load(trial);
    if let Some(workers) = workers {
        text += &balance(trial, workers);
    }
    text += &replay_lines(trial);
    text += &differences(trial);
    text += &losses(trial);
    text += &drop_reasons(trial);
    if trial.interrupted {
        text += "\nInterrupted: this is what was measured until then.\n";
    }
    if let Some(ended) = trial.subject.as_ref().filter(|subject| !subject.alive) {
        let _ = writeln!(text, "\nThe subject ended during the trial: process {} is gone.", ended.pid);
    }
    if let Some(silence) = silence(trial).filter(|_| !trial.interrupted) {
        let _ = writeln!(text, "\n{silence}.");
    }
    for warning in warnings {
        let _ = writeln!(text, "\nWarning: {}", visible_line(&warning.to_string()));
    }
    text
}

/// A line of times, if there are any.
fn times(text: &mut String, label: &str, times: &Quantiles) {
    if times.max.is_some() {
        line(text, label, &quantiles(times));
    }
}

/// A line with its value in dnsperf's column.
fn line(text: &mut String, label: &str, value: &str) {
    let _ = writeln!(text, "  {:<21} {}", format!("{label}:"), visible_line(value));
}

fn statistics(trial: &Trial, warnings: &[Warning]) -> String {
    let accounts = &trial.accounts;
    let completed = accounts.correct + accounts.wrong;
    let mut text = String::from("Statistics:\n\n");
    let of_sent = |count| format!("{count} ({:.2}%)", percent(count, accounts.sent));
    let [sent, done, lost, rate] = if trial.has_connections_alone() {
        ["Connections begun", "Connections made", "Connections lost", "Connections a second"]
    } else {
        ["Queries sent", "Queries completed", "Queries lost", "Queries per second"]
    };
    line(&mut text, sent, &accounts.sent.to_string());
    line(&mut text, done, &of_sent(completed));
    let own = match trial.lost_by_player() {
        0 => String::new(),
        own => format!(", {own} of them by the player's own sockets"),
    };
    line(&mut text, lost, &(of_sent(accounts.sent - completed) + &own));
    text.push('\n');
    if !trial.has_connections_alone() {
        text += &replies(trial);
    }
    line(&mut text, "Run time (s)", &format!("{:.6}", trial.load.duration_s));
    line(&mut text, rate, &format!("{:.6}", trial.load.answered_qps));
    line(&mut text, "Capacity", &capacity(warnings));
    text.push('\n');
    let latency = &trial.latency_us;
    let seconds = |time_us: Option<f64>| format!("{:.6}", time_us.unwrap_or(0.0) / 1e6);
    let whole = |time_us: Option<u64>| seconds(time_us.map(|time_us| time_us as f64));
    let average =
        format!("{} (min {}, max {})", seconds(latency.mean), whole(latency.min), whole(latency.max));
    line(&mut text, "Average Latency (s)", &average);
    line(&mut text, "Latency StdDev (s)", &seconds(latency.stddev));
    text
}

/// The rcodes of the replies, and the sizes of messages.
fn replies(trial: &Trial) -> String {
    let mut text = String::new();
    let answered = trial.response_rcodes.values().sum();
    let rcodes: Vec<String> = trial
        .response_rcodes
        .iter()
        .map(|(rcode, count)| format!("{rcode} {count} ({:.2}%)", percent(*count, answered)))
        .collect();
    line(&mut text, "Response codes", &rcodes.join(", "));
    let size = |bytes: Option<f64>| bytes.map_or(0.0, f64::round);
    let sizes =
        format!("request {}, response {}", size(trial.request_bytes_mean), size(trial.response_bytes_mean));
    line(&mut text, "Average packet size", &sizes);
    text
}

/// A note that the rate of a load is not the server's capacity.
fn capacity(warnings: &[Warning]) -> String {
    let spoiled = |warning: &&Warning| matches!(warning.effect(), Effect::Refuse | Effect::RedoThenRefuse);
    match warnings.iter().find(spoiled) {
        Some(warning) => format!("not measured, and this load cannot show one ({}, see below)", warning.code),
        None => "not measured: the rate is that of this load (kqps find searches the highest)".into(),
    }
}

fn accounts(trial: &Trial) -> String {
    let accounts = &trial.accounts;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "  intended {} = sent {} + unsent {} + send failed {}",
        accounts.intended, accounts.sent, accounts.unsent, accounts.send_failed
    );
    let _ = writeln!(
        text,
        "  sent {} = correct {} + wrong {} + late {} + lost {}",
        accounts.sent, accounts.correct, accounts.wrong, accounts.late, accounts.lost
    );
    if trial.has_connections_alone() {
        text += "  these are connections that were to be made and closed, and not queries; correct: made in time\n";
    }
    let _ = writeln!(
        text,
        "  beside these: truncated {} (of the correct), slipped {} (of the truncated), duplicate {}, unsolicited {}",
        accounts.truncated, accounts.slipped, accounts.duplicate, accounts.unsolicited
    );
    if accounts.slipped > 0 {
        text += "  slipped: truncated to nothing though the answer would have fitted, as by response rate limiting\n";
    }
    for (cause, count) in &trial.unsent_causes {
        let _ = writeln!(text, "  unsent: {count} ({})", unsent_for(cause, trial));
    }
    for (cause, count) in trial.wrong_in_words() {
        let _ = writeln!(text, "  wrong: {count} ({cause})");
    }
    text += &lost(trial);
    for (cause, count) in &trial.send_failed_causes {
        let _ = writeln!(text, "  send failed: {count} ({cause}: {})", refusal(cause).0);
    }
    text
}

fn unsent_for(cause: &str, trial: &Trial) -> String {
    match cause {
        UNSENT_WINDOW => {
            format!("the window of {} outstanding queries was full", trial.load.outstanding.unwrap_or(0))
        }
        UNSENT_IDS if trial.replay.is_some() => "every ID that their client may use was outstanding".into(),
        UNSENT_IDS => "every ID of every socket was outstanding".into(),
        UNSENT_CONNECTIONS if trial.replay.is_some() => {
            "their connection, or every place for one, had as many as it takes".into()
        }
        UNSENT_CONNECTIONS => "every connection had as many as it takes".into(),
        _ => "the player came to them too late".into(),
    }
}

/// Lost queries by their cause, and again by their expected answer, if the file has any. The counts of each of the
/// two sum to the lost queries.
fn lost(trial: &Trial) -> String {
    let mut text = String::new();
    let own = trial.lost_by_player();
    if own > 0 {
        let _ = writeln!(text, "  lost: {own} (dropped by the player's own sockets)");
    }
    let without_reply = trial.lost_causes.get("time").map_or(0, |count| count.saturating_sub(own));
    if without_reply > 0 {
        let _ = writeln!(text, "  lost: {without_reply} (no reply)");
    }
    for (cause, count) in trial.lost_causes.iter().filter(|(cause, _)| *cause != "time") {
        let _ = writeln!(text, "  lost: {count} (connection: {cause})");
    }
    text + &lost_expected(trial)
}

/// Which answers the lost queries expected: one line, which is no cause of the loss.
fn lost_expected(trial: &Trial) -> String {
    let expected = expected_by_lost(&trial.lost_expected);
    expected.map_or_else(String::new, |expected| format!("  of the lost, {expected}\n"))
}

fn load(trial: &Trial) -> String {
    let load = &trial.load;
    let mut text = String::new();
    if trial.targets.len() > 1 {
        line(&mut text, "Targets", &trial.targets.join(", "));
    }
    let (unit, each) =
        (trial.rate_unit(), if trial.has_connections_alone() { "connection" } else { "query" });
    let how = match load.mode {
        LoadMode::Open => format!(
            "open loop, {} {unit} intended, {} offered, arrivals {}{}",
            plain(load.intended_qps.unwrap_or(0.0)),
            plain(load.offered_qps),
            load.arrivals.as_deref().unwrap_or("even"),
            load.outstanding.map_or(String::new(), |most| format!(", {most} outstanding at most"))
        ),
        LoadMode::Closed => closed(trial),
    };
    line(&mut text, "Load", &how);
    let player = &trial.players.first;
    let pinned =
        if player.cpus.is_empty() { "not pinned".into() } else { format!("pinned to {:?}", player.cpus) };
    let (threads, sockets) = (counted(player.threads.into(), "thread"), flows(trial));
    let io = format!("{}, {threads} ({pinned}), {sockets}", player.io);
    line(&mut text, "Player", &io);
    if let Some(subject) = watched(trial) {
        line(&mut text, "Subject", &subject);
    }
    for note in &player.notes {
        line(&mut text, "Note", note);
    }
    let cpu = format!(
        "{:.2} s, {} s per million {}",
        player.cpu_s,
        per_million(player.cpu_s, trial.accounts.sent),
        if trial.has_connections_alone() { "connections" } else { "queries" }
    );
    line(&mut text, "Player CPU", &cpu);
    if let Some(connections) = &trial.connections {
        text += &connection_lines(connections);
        if connections.quic.is_none() {
            text += &tcp_lines(trial);
        }
    }
    line(&mut text, "Latency (us)", &quantiles(&trial.latency_us));
    if trial.accounts.lost > 0 {
        let timeout_s = load.timeout_s;
        let lost = format!("latencies count a lost {each} as {timeout_s} s, and dnsperf's leave it out");
        line(&mut text, "Note", &lost);
    }
    if load.mode == LoadMode::Open {
        times(&mut text, "Lag (us)", &trial.lag_us);
    }
    times(&mut text, "Gaps (us)", &trial.gap_us);
    text
}

/// The player's sockets or connections, or both. A replay has places for its connections.
fn flows(trial: &Trial) -> String {
    // Of a replay, those that were used, and no spare ones.
    let of_replay = trial.replay.as_ref().map(|replay| replay.sockets);
    let count = of_replay.unwrap_or_else(|| trial.players.first.sockets.into());
    let has_datagrams = trial.replay.as_ref().is_some_and(|replay| replay.played.contains_key("udp"));
    match &trial.connections {
        Some(_) if has_datagrams => format!("{count} sockets and places for connections"),
        // Each has many connections, one after another.
        Some(_) if of_replay.is_some() => format!("{} for connections", counted(count, "place")),
        Some(_) => counted(count, "connection"),
        None => counted(count, "socket"),
    }
}

/// How evenly the load spread over the subject's workers.
fn balance(trial: &Trial, workers: u32) -> String {
    let Some(share) = busiest_to_mean(trial, workers) else { return String::new() };
    let mut text = String::new();
    line(&mut text, "Workers", &format!("the busiest of {workers} did {share:.2} times the mean work"));
    text
}

/// A closed loop with its window, and the queries outstanding by Little's law: outstanding = rate × latency.
fn closed(trial: &Trial) -> String {
    let window = trial.load.outstanding.unwrap_or(0);
    let outstanding = trial.load.outstanding_mean.unwrap_or(0.0);
    let unit = trial.rate_unit();
    let limit =
        trial.load.intended_qps.map_or_else(String::new, |rate| format!(", at most {} {unit}", plain(rate)));
    format!("closed loop, window {window}{limit}, {outstanding:.1} outstanding on average (rate x latency)")
}

fn losses(trial: &Trial) -> String {
    let ledger = &trial.ledger;
    if ledger.places.is_empty() && ledger.unexplained == 0 {
        return String::new();
    }
    let mut text = String::from("\nWhere packets were lost:\n\n");
    for placed in &ledger.places {
        let name = serde_json::to_value(placed.place)
            .map_or_else(|_| String::new(), |name| name.as_str().unwrap_or("").to_string());
        let shared = if placed.shared { " (a counter that other traffic moves too)" } else { "" };
        line(&mut text, &name, &format!("{}{shared}", placed.count));
    }
    line(&mut text, "unexplained", &ledger.unexplained.to_string());
    text
}

/// The kernel's reasons for drops, if the user asked for them.
fn drop_reasons(trial: &Trial) -> String {
    if let Some(why) = trial.hosts.first.unreadable.get("drop reasons") {
        return format!("\nThe kernel's reasons for its drops could not be counted: {why}\n");
    }
    let Some(reasons) = &trial.hosts.first.drop_reasons else { return String::new() };
    let mut text =
        String::from("\nWhy IP packets were dropped on this host (counting disturbed the trial):\n\n");
    for (reason, count) in reasons {
        line(&mut text, reason, &count.to_string());
    }
    if reasons.is_empty() {
        text += "  none was\n";
    }
    text
}

fn quantiles(times: &Quantiles) -> String {
    let known: Vec<String> = [
        ("p50", times.p50),
        ("p90", times.p90),
        ("p95", times.p95),
        ("p99", times.p99),
        ("p99.9", times.p999),
        ("max", times.max),
    ]
    .into_iter()
    .filter_map(|(name, time_us)| Some(format!("{name} {}", time_us?)))
    .collect();
    known.join(", ")
}

fn per_million(cpu_s: f64, count: u64) -> String {
    if count == 0 { "no".into() } else { format!("{:.2}", cpu_s * 1e6 / count as f64) }
}

fn percent(count: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { 100.0 * count as f64 / of as f64 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kqps_observation::Accounts;
    use kqps_observation::ledger::{FoundBy, Place, Placed};

    use super::*;

    #[test]
    fn losses_are_counted_by_cause_and_once_more_by_their_answer() {
        let counts =
            |pairs: &[(&str, u64)]| pairs.iter().map(|(name, count)| ((*name).into(), *count)).collect();
        let mut trial = Trial {
            accounts: Accounts { intended: 100, sent: 100, lost: 100, ..Accounts::default() },
            lost_causes: counts(&[("certificate", 60), ("time", 40)]),
            lost_expected: counts(&[("NOERROR", 99), ("NXDOMAIN", 1)]),
            ..Trial::default()
        };
        assert_eq!(
            lost(&trial),
            "  lost: 40 (no reply)\n  lost: 60 (connection: certificate)\n  \
             of the lost, 99 expected NOERROR and 1 NXDOMAIN\n"
        );
        trial.ledger.places =
            vec![Placed { place: Place::PlayerSocketBuffer, count: 15, by: FoundBy::Drops, shared: false }];
        trial.lost_expected = counts(&[("NOERROR", 90), ("REFUSED", 4), ("unknown", 6)]);
        assert_eq!(
            lost(&trial),
            "  lost: 15 (dropped by the player's own sockets)\n  lost: 25 (no reply)\n  \
             lost: 60 (connection: certificate)\n  \
             of the lost, 90 expected NOERROR, 4 REFUSED and 6 no rcode\n"
        );
        trial.lost_expected = counts(&[("unknown", 100)]);
        assert!(!lost(&trial).contains("of the lost"), "no answer was expected");
        trial.lost_causes = BTreeMap::new();
        trial.ledger.places.clear();
        assert_eq!(lost(&trial), "", "an older record has no causes");
    }
}

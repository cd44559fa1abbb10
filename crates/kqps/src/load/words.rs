//! The output of `kqps load`. It begins with dnsperf's lines, so that people and scripts find what they know,
//! and goes on with what dnsperf does not print.

mod connections;
mod effects;
mod events;
mod histogram;
mod hostile;
mod over_time;
mod parts;
mod replay;
mod statistics;

use std::fmt::Write as _;

use kqps_observation::trial::{LoadMode, UNSENT_CONNECTIONS, UNSENT_IDS, UNSENT_WINDOW};
use kqps_observation::visible::visible_line;
use kqps_observation::{Percentile, Quantiles, Trial};
use kqps_testbed::words::counted;
use kqps_verdict::expected::expected_by_lost;
use kqps_verdict::rate::{plain, rate};
use kqps_verdict::warning::{Warning, busiest_to_mean, refusal};

use super::subject::watched;
use connections::{connection_lines, tcp_lines};
use replay::{differences, replay_lines};
use statistics::statistics;

pub(crate) use connections::{ANY_CERTIFICATE, agreed, causes};
pub(crate) use parts::by_class;

/// The whole output of a trial. `workers` is the subject's number of workers, if it is known. `silence` is why the
/// trial says nothing of its target. It stands first, and no warning follows: none would change that.
pub(super) fn words(
    trial: &Trial,
    warnings: &[Warning],
    (workers, silence): (Option<u32>, Option<&str>),
) -> String {
    if let Some(facts) = &trial.hostile {
        return hostile::attackers(trial, facts) + &ending(trial, warnings);
    }
    let warnings = if silence.is_some() { &[] } else { warnings };
    let first = silence.map_or_else(String::new, |why| format!("{why}.\n\n"));
    let statistics = statistics(trial.good(), warnings, silence);
    format!("{first}{statistics}\n{}", after_statistics(trial, warnings, workers))
}

/// The text after dnsperf's statistics. Of several classes it is about the first, with a line for each and the places
/// where packets of all were lost.
pub(crate) fn after_statistics(trial: &Trial, warnings: &[Warning], workers: Option<u32>) -> String {
    let good = trial.good();
    let mut text = String::from("Accounts:\n\n");
    text += &accounts(good);
    text += "\nLoad:\n\n";
    text += &load(good);
    text += &histogram::histogram(good);
    text += &over_time::over_time(good, !trial.classes.is_empty());
    if let Some(workers) = workers {
        text += &balance(good, workers);
    }
    text += &replay_lines(good);
    text += &differences(good);
    text += &by_class(&trial.classes);
    text += &hostile::by_class(&trial.classes);
    text += &events::events(&trial.events);
    text += &effects::effects(trial);
    text += &losses(trial);
    text += &drop_reasons(trial);
    text + &ending(trial, warnings)
}

/// The last lines: how the load ended, and the warnings.
fn ending(trial: &Trial, warnings: &[Warning]) -> String {
    let mut text = String::new();
    if trial.interrupted {
        text += "\nInterrupted: this is what was measured until then.\n";
    }
    if let Some(ended) = trial.subject.as_ref().filter(|subject| !subject.alive) {
        let _ = writeln!(text, "\nThe subject ended during the trial: process {} is gone.", ended.pid);
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
pub(crate) fn line(text: &mut String, label: &str, value: &str) {
    let _ = writeln!(text, "  {:<21} {}", format!("{label}:"), visible_line(value));
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

/// Expected answers of the lost queries: one line, which is no cause of the loss.
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
            "open loop, {} {unit} intended{}, {} offered, arrivals {}{}",
            plain(load.intended_qps.unwrap_or(0.0)),
            load.course.as_ref().map_or_else(String::new, |course| {
                format!(" on average, {} at most", plain(course.peak()))
            }),
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
    let many = if trial.has_connections_alone() { "connections" } else { "queries" };
    let of_each = per_million(player.cpu_s, trial.accounts.sent)
        .map_or_else(String::new, |cpu_s| format!(", {cpu_s} s per million {many}"));
    line(&mut text, "Player CPU", &format!("{:.2} s{of_each}", player.cpu_s));
    if let Some(connections) = &trial.connections {
        text += &connection_lines(connections);
        if connections.quic.is_none() {
            text += &tcp_lines(trial);
        }
    }
    line(&mut text, "Latency (µs)", &quantiles(&trial.latency_us));
    if trial.accounts.lost > 0 {
        let timeout_s = load.timeout_s;
        let lost = format!(
            "the line above counts a lost {each} as {timeout_s} s, and the average latency leaves it out"
        );
        line(&mut text, "Note", &lost);
    }
    if load.mode == LoadMode::Open {
        times(&mut text, "Lag (µs)", &trial.lag_us);
    }
    times(&mut text, "Gaps (µs)", &trial.gap_us);
    text
}

/// The player's sockets or connections, or both. A replay has places for its connections.
fn flows(trial: &Trial) -> String {
    // A replay counts the sockets and places that it used, without spare ones.
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
        trial.load.intended_qps.map_or_else(String::new, |most| format!(", at most {} {unit}", plain(most)));
    format!("closed loop, window {window}{limit}, {outstanding:.1} outstanding on average (rate x latency)")
}

/// The places where packets were lost; empty if none was.
pub(crate) fn losses(trial: &Trial) -> String {
    let ledger = &trial.ledger;
    if ledger.places.is_empty() && ledger.unexplained == 0 {
        return String::new();
    }
    let mut text = String::from("\nWhere packets were lost:\n\n");
    // A place has two entries if counters of drops account for only a part of its loss.
    for entries in ledger.places.chunk_by(|one, next| one.place == next.place) {
        let place = entries[0].place;
        let is_shared = entries.iter().any(|placed| placed.shared);
        let shared = if is_shared { " (a counter that other traffic moves too)" } else { "" };
        line(&mut text, place.word(), &format!("{}{shared}", ledger.at(place)));
    }
    let beyond = match ledger.beyond() {
        0 => String::new(),
        beyond => format!(" (and the counters show {beyond} more than were lost: packets of other traffic)"),
    };
    line(&mut text, "unexplained", &format!("{}{beyond}", ledger.unexplained.max(0)));
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

/// The quantiles, or their upper bounds if the times are few, with their number then.
fn quantiles(times: &Quantiles) -> String {
    let bounds = times.at_most.unwrap_or_default();
    let shown = |(name, time_us, at_most_us): (&str, Option<u64>, Option<u64>)| {
        let seen = time_us.map(Percentile::Is).or(at_most_us.map(Percentile::AtMost))?;
        Some(seen.words(name, |time_us| time_us.to_string()))
    };
    let mut known: Vec<String> = [
        ("p50", times.p50, bounds.p50),
        ("p90", times.p90, bounds.p90),
        ("p95", times.p95, bounds.p95),
        ("p99", times.p99, bounds.p99),
        ("p99.9", times.p999, bounds.p999),
        ("max", times.max, None),
    ]
    .into_iter()
    .filter_map(shown)
    .collect();
    let count = times.count.filter(|_| times.p99.is_none());
    known.extend(count.filter(|count| *count > 0).map(|count| format!("of {}", rate(count as f64))));
    known.join(", ")
}

/// Fewer queries than this say nothing of the CPU time of a million: starting and waiting take most of it.
const ENOUGH_FOR_A_MILLION: u64 = 1_000;

/// CPU seconds of a million; `None` if too few were counted.
fn per_million(cpu_s: f64, count: u64) -> Option<String> {
    (count >= ENOUGH_FOR_A_MILLION).then(|| format!("{:.2}", cpu_s * 1e6 / count as f64))
}

pub(crate) fn percent(count: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { 100.0 * count as f64 / of as f64 }
}

/// A count with its percentage.
pub(crate) fn with_share(count: u64, of: u64) -> String {
    format!("{count} ({:.2}%)", percent(count, of))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kqps_observation::Accounts;
    use kqps_observation::ledger::{FoundBy, Place, Placed};

    use super::*;

    #[test]
    fn a_place_has_one_line_and_nothing_is_unexplained_below_zero() {
        let placed = |place, count, by, shared| Placed { place, count, by, shared };
        let mut trial = Trial::default();
        trial.ledger.places = vec![
            placed(Place::SubjectSocketBuffer, 7, FoundBy::Drops, false),
            placed(Place::SubjectUnanswered, 2487, FoundBy::Drops, true),
            placed(Place::SubjectUnanswered, 46, FoundBy::Passages, false),
        ];
        trial.ledger.surplus = 2;
        let said = losses(&trial);
        let lines: Vec<&str> = said.lines().filter(|line| line.starts_with(' ')).map(str::trim).collect();
        let [buffer, unanswered, unexplained] = lines[..] else { panic!("{said}") };
        assert!(buffer.starts_with("subject-socket-buffer:") && buffer.ends_with(" 7"), "{said}");
        assert!(
            unanswered.starts_with("subject-unanswered:") && unanswered.contains(" 2533 (a counter"),
            "{said}"
        );
        assert!(unexplained.contains(" 0 (and the counters show 2 more than were lost"), "{said}");
        // A record of an earlier version.
        (trial.ledger.surplus, trial.ledger.unexplained) = (0, -2);
        assert_eq!(losses(&trial), said);
    }

    #[test]
    fn too_few_queries_have_no_cpu_time_of_a_million() {
        assert_eq!((per_million(38.3, 999), per_million(0.5, 0)), (None, None));
        assert_eq!(per_million(0.5, 1_000).as_deref(), Some("500.00"));
    }

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

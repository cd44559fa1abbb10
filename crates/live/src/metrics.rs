//! The figures as text for Prometheus (`OpenMetrics` 1.0). Counters are those of all trials of the command, so that they
//! never go back.

use std::collections::BTreeMap;
use std::fmt;

use kqps_observation::visible::visible_line;
use kqps_observation::{LiveClass, LiveConnections, LiveCounts, LivePhase, LiveTimes};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::hub::Snapshot;
use crate::standing::{Load, STARTING, Standing};

/// The least and the greatest limit of the latency's buckets, microseconds: 16 µs and 8.4 s. Between them lie one and a
/// half times each, and twice each.
const LIMITS_US: (u64, u64) = (16, 1 << 23);

/// The figures of a snapshot as `OpenMetrics`. `version` is that of kqps.
pub fn text(snapshot: &Snapshot, version: &str) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(OpenMetrics {
        totals: LiveCounts { phase: snapshot.phase(), ..snapshot.totals.clone() },
        trials: snapshot.trials,
        load_qps: match snapshot.standing.load {
            Load::Open(rate_qps) => rate_qps,
            Load::Closed => 0.0,
        },
        bounds: [("lower", snapshot.standing.lower_qps), ("upper", snapshot.standing.upper_qps)],
        trial: trial(snapshot),
        command: visible_line(&snapshot.command).into_owned(),
        version: version.to_owned(),
    }));
    let mut text = String::new();
    // Writing to a string cannot fail.
    encode(&mut text, &registry).expect("a string takes text");
    text
}

/// The labels of the present trial, or of the last one until the next begins; `None` while a subject starts, and if there
/// is no trial.
fn trial(snapshot: &Snapshot) -> Option<Vec<(&'static str, String)>> {
    let Standing { what, role, purpose, block, .. } = &snapshot.standing;
    let labels = || {
        let purpose = if purpose.is_empty() { "load" } else { purpose };
        let block = block.map_or_else(String::new, |block| block.number.to_string());
        vec![
            ("cell", visible_line(what).into_owned()),
            ("role", role.word().to_owned()),
            ("purpose", purpose.to_owned()),
            ("block", block),
        ]
    };
    (!snapshot.is_over && !what.is_empty() && purpose != STARTING).then(labels)
}

/// The exported figures of a snapshot.
#[derive(Debug)]
struct OpenMetrics {
    totals: LiveCounts,
    trials: u64,
    load_qps: f64,
    bounds: [(&'static str, Option<f64>); 2],
    /// The labels of the present trial.
    trial: Option<Vec<(&'static str, String)>>,
    command: String,
    version: String,
}

impl Collector for OpenMetrics {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> fmt::Result {
        let (version, command) = (self.version.as_str(), self.command.as_str());
        to.encode_descriptor("kqps", "What is running", None, MetricType::Info)?
            .encode_info(&[("version", version), ("command", command)])?;
        if let Some(labels) = &self.trial {
            to.encode_descriptor("kqps_trial", "The trial that is played", None, MetricType::Info)?
                .encode_info(labels)?;
        }
        queries(&mut to, &self.totals)?;
        classes(&mut to, &self.totals.classes)?;
        connections(&mut to, self.totals.connections.unwrap_or_default())?;
        self.state(&mut to)?;
        // A histogram of a part of the replies would look like one of all.
        if self.totals.misses_latencies { Ok(()) } else { latency(&mut to, &self.totals.latency) }
    }
}

impl OpenMetrics {
    /// The state of the command at this moment, and its CPU time.
    fn state(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = to.encode_descriptor(
            "kqps_phase",
            "1 for what the player does, 0 for all else",
            None,
            MetricType::Gauge,
        )?;
        for &phase in LivePhase::ALL {
            let is_now = i64::from(phase == self.totals.phase);
            ConstGauge::new(is_now).encode(family.encode_family(&[("phase", phase.word())])?)?;
        }
        counter(to, "kqps_trials", "Trials that began", self.trials)?;
        let help = "Queries a second that the present trial sends; 0 in a closed loop";
        to.encode_descriptor("kqps_load_qps", help, None, MetricType::Gauge)?.encode_gauge(&self.load_qps)?;
        let help = "The bounds of the present search, queries a second";
        let mut family = to.encode_descriptor("kqps_bound_qps", help, None, MetricType::Gauge)?;
        for (bound, rate_qps) in self.bounds {
            if let Some(rate_qps) = rate_qps {
                family.encode_family(&[("bound", bound)])?.encode_gauge(&rate_qps)?;
            }
        }
        let help = "CPU time while trials were played";
        let mut family = to.encode_descriptor("kqps_cpu_seconds", help, None, MetricType::Counter)?;
        for (side, cpu_s) in [("player", self.totals.player_cpu_s), ("subject", self.totals.subject_cpu_s)] {
            if let Some(cpu_s) = cpu_s {
                let labels = [("side", side)];
                family.encode_family(&labels)?.encode_counter::<NoLabelSet, _, f64>(&cpu_s, None)?;
            }
        }
        Ok(())
    }
}

fn counter(to: &mut DescriptorEncoder<'_>, name: &str, help: &str, count: u64) -> fmt::Result {
    ConstCounter::new(count).encode(to.encode_descriptor(name, help, None, MetricType::Counter)?)
}

fn gauge(to: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: u64) -> fmt::Result {
    ConstGauge::new(value as i64).encode(to.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

/// A counter for each cause. Those in `always` are there from the beginning, so that a first loss is an increase.
fn by_name(
    to: &mut DescriptorEncoder<'_>,
    (name, help, label): (&str, &str, &str),
    always: &[&str],
    counts: &BTreeMap<String, u64>,
) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    let missing = always.iter().filter(|name| !counts.contains_key(**name)).map(|name| (*name, 0));
    for (cause, count) in counts.iter().map(|(cause, count)| (cause.as_str(), *count)).chain(missing) {
        ConstCounter::new(count).encode(family.encode_family(&[(label, cause)])?)?;
    }
    Ok(())
}

fn queries(to: &mut DescriptorEncoder<'_>, counts: &LiveCounts) -> fmt::Result {
    let accounts = &counts.accounts;
    let received =
        accounts.correct + accounts.wrong + accounts.late + accounts.duplicate + accounts.unsolicited;
    for (name, help, count) in [
        ("kqps_queries_intended", "Queries that the load called for", accounts.intended),
        ("kqps_queries_sent", "Queries that were sent", accounts.sent),
        ("kqps_queries_send_failed", "Queries that this host's kernel refused to send", accounts.send_failed),
        ("kqps_replies_received", "Replies of every kind", received),
        ("kqps_replies_correct", "Correct replies in time", accounts.correct),
        ("kqps_replies_late", "Correct replies after the timeout", accounts.late),
        ("kqps_replies_truncated", "Correct replies with the TC bit", accounts.truncated),
        ("kqps_replies_duplicate", "Replies to queries that had one", accounts.duplicate),
        ("kqps_replies_unsolicited", "Replies to no query", accounts.unsolicited),
    ] {
        counter(to, name, help, count)?;
    }
    let unsent = ("kqps_queries_unsent", "Queries that the player gave up", "cause");
    by_name(to, unsent, &["late", "window", "room"], &counts.unsent_causes)?;
    by_name(to, ("kqps_queries_lost", "Queries without a reply", "cause"), &["time"], &counts.lost_causes)?;
    by_name(to, ("kqps_replies_wrong", "Wrong replies in time", "cause"), &["rcode"], &counts.wrong_causes)?;
    let rcodes = ("kqps_response_rcodes", "Replies in time that match their question, by rcode", "rcode");
    by_name(to, rcodes, &["NOERROR"], &counts.rcodes)?;
    gauge(to, "kqps_queries_outstanding", "Queries that may be answered in time", counts.outstanding)?;
    gauge(
        to,
        "kqps_queries_overdue",
        "Queries that had no reply in time and may have a late one",
        counts.overdue,
    )
}

/// Counters of each class of clients; none of a load without classes.
fn classes(to: &mut DescriptorEncoder<'_>, classes: &[LiveClass]) -> fmt::Result {
    type Count = fn(&LiveClass) -> u64;
    let counters: [(&str, &str, Count); 4] = [
        ("kqps_class_queries_sent", "Queries that a class of clients sent", |class| class.accounts.sent),
        ("kqps_class_replies_correct", "Its correct replies in time", |class| class.accounts.correct),
        ("kqps_class_queries_lost", "Its queries without a reply", |class| class.accounts.lost),
        ("kqps_class_attempts", "Attempts of a class of attackers", |class| class.attempts),
    ];
    for (name, help, count) in counters.into_iter().filter(|_| !classes.is_empty()) {
        let mut family = to.encode_descriptor(name, help, None, MetricType::Counter)?;
        for class in classes {
            let labels = [("class", visible_line(&class.name).into_owned())];
            ConstCounter::new(count(class)).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn connections(to: &mut DescriptorEncoder<'_>, connections: LiveConnections) -> fmt::Result {
    for (name, help, count) in [
        ("kqps_connections_attempted", "Connections that were begun", connections.attempts),
        ("kqps_connections_made", "Connections that were made", connections.established),
        ("kqps_connections_failed", "Connections that could not be made", connections.failed),
        ("kqps_connections_closed", "Connections that ended", connections.closed),
    ] {
        counter(to, name, help, count)?;
    }
    gauge(to, "kqps_connections_open", "Connections that are open", connections.open())
}

fn latency(to: &mut DescriptorEncoder<'_>, times: &LiveTimes) -> fmt::Result {
    let help =
        "From when a query was due to its correct reply in time; the sum takes the middle of fine buckets";
    let mut family = to.encode_descriptor("kqps_latency_seconds", help, None, MetricType::Histogram)?;
    let (sum_s, count) = (times.sum_us() / 1e6, times.count());
    family.encode_histogram::<NoLabelSet>(sum_s, count, &buckets(times), None)
}

/// The times by limits that never change: how many lie below each, and above the one before it.
fn buckets(times: &LiveTimes) -> Vec<(f64, u64)> {
    let powers = std::iter::successors(Some(LIMITS_US.0), |limit| Some(limit * 2));
    let limits = powers.take_while(|limit| *limit < LIMITS_US.1).flat_map(|limit| [limit, limit + limit / 2]);
    let mut ranges = times.ranges().peekable();
    let mut below = |limit_us: u64| {
        let mut count = 0;
        while let Some((_, more)) = ranges.next_if(|(end_us, _)| *end_us <= limit_us) {
            count += more;
        }
        count
    };
    let mut buckets: Vec<(f64, u64)> =
        limits.chain([LIMITS_US.1]).map(|limit_us| (limit_us as f64 / 1e6, below(limit_us))).collect();
    buckets.push((f64::INFINITY, below(u64::MAX)));
    buckets
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kqps_observation::Accounts;
    use kqps_observation::live::{LIVE_RANGES, live_range_of};
    use kqps_observation::run::Role;
    use kqps_web::{Answer, exposition};

    use super::*;
    use crate::hub::Hub;
    use crate::standing::Place;

    fn times(times_us: &[u64]) -> LiveTimes {
        let mut counts = [0; LIVE_RANGES];
        for time_us in times_us {
            counts[live_range_of(*time_us)] += 1;
        }
        LiveTimes::of_ranges(counts.into_iter())
    }

    fn sample() -> Snapshot {
        let mut snapshot = Hub::new("kqps load \"x\"".into()).read(Clone::clone);
        snapshot.trials = 2;
        snapshot.totals = LiveCounts {
            phase: LivePhase::Sending,
            accounts: Accounts { intended: 9, sent: 8, correct: 5, late: 1, ..Accounts::default() },
            outstanding: 2,
            rcodes: BTreeMap::from([("NXDOMAIN".into(), 5)]),
            lost_causes: BTreeMap::from([("reset".into(), 1)]),
            latency: times(&[3, 20, 200, 200, 30_000_000]),
            player_cpu_s: Some(1.5),
            ..LiveCounts::default()
        };
        snapshot.standing = Standing {
            what: "echo\nmmsg".into(),
            role: Role::EchoCeiling,
            purpose: "search".into(),
            block: Some(Place { number: 2, of: 3 }),
            lower_qps: Some(1000.0),
            ..Standing::default()
        };
        snapshot
    }

    #[test]
    fn a_snapshot_has_the_form_that_prometheus_reads() {
        let text = text(&sample(), "0.1.0");
        for line in [
            r#"kqps_info{version="0.1.0",command="kqps load \"x\""} 1"#,
            r#"kqps_trial_info{cell="echo\\x0ammsg",role="echo-ceiling",purpose="search",block="2"} 1"#,
            "# TYPE kqps_queries_sent counter",
            "kqps_queries_sent_total 8",
            "kqps_replies_received_total 6",
            r#"kqps_response_rcodes_total{rcode="NXDOMAIN"} 5"#,
            r#"kqps_queries_lost_total{cause="reset"} 1"#,
            r#"kqps_queries_lost_total{cause="time"} 0"#,
            r#"kqps_phase{phase="sending"} 1"#,
            r#"kqps_phase{phase="over"} 0"#,
            r#"kqps_cpu_seconds_total{side="player"} 1.5"#,
            r#"kqps_bound_qps{bound="lower"} 1000.0"#,
            "# TYPE kqps_latency_seconds histogram",
            r#"kqps_latency_seconds_bucket{le="0.000016"} 1"#,
            r#"kqps_latency_seconds_bucket{le="0.000256"} 4"#,
            r#"kqps_latency_seconds_bucket{le="8.388608"} 4"#,
            r#"kqps_latency_seconds_bucket{le="+Inf"} 5"#,
            "kqps_latency_seconds_count 5",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }

    /// The rules of `promtool check metrics`, which knows the text format alone.
    #[test]
    fn the_text_format_follows_the_rules_of_prometheus() {
        let Answer::Body { text, .. } = exposition(text(&sample(), "0.1.0"), "text/plain") else {
            panic!("no body")
        };
        let (mut family, mut helped, mut families, mut samples) = ("", "", BTreeSet::new(), BTreeSet::new());
        for line in text.lines() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, words) = help.split_once(' ').unwrap();
                assert!(!words.is_empty(), "{line}");
                helped = name;
            } else if let Some(described) = line.strip_prefix("# TYPE ") {
                let (name, kind) = described.split_once(' ').unwrap();
                assert_eq!(helped, name, "a help before {line}");
                assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                assert!(families.insert(name), "{name} twice");
                family = name;
            } else {
                let (name, _) = line.rsplit_once(' ').unwrap();
                assert!(samples.insert(name), "{name} twice");
                let bare = name.split('{').next().unwrap();
                let suffix = bare.strip_prefix(family).unwrap_or_else(|| panic!("{line} after {family}"));
                assert!(["", "_sum", "_count", "_bucket"].contains(&suffix), "{line}");
            }
        }
        let expected = ["kqps_info", "kqps_trial_info", "kqps_queries_sent_total", "kqps_latency_seconds"];
        assert!(expected.iter().all(|name| families.contains(name)), "{families:?}");
    }

    #[test]
    fn a_trial_is_named_while_it_is_played_and_between_trials_nothing_is_over() {
        let mut snapshot = sample();
        snapshot.totals.phase = LivePhase::Over;
        let text_of = |snapshot: &Snapshot| text(snapshot, "0.1.0");
        assert!(text_of(&snapshot).contains(r#"kqps_phase{phase="preparing"} 1"#));
        snapshot.standing.purpose = STARTING.into();
        assert!(!text_of(&snapshot).contains("kqps_trial_info"), "a subject starts");
        snapshot.standing.purpose = "search".into();
        snapshot.is_over = true;
        let text = text_of(&snapshot);
        assert!(
            text.contains(r#"kqps_phase{phase="over"} 1"#) && !text.contains("kqps_trial_info"),
            "{text}"
        );
    }

    #[test]
    fn a_histogram_that_would_miss_replies_is_left_out() {
        let mut snapshot = sample();
        assert!(text(&snapshot, "0.1.0").contains("kqps_latency_seconds_count 5"));
        snapshot.totals.misses_latencies = true;
        assert!(!text(&snapshot, "0.1.0").contains("kqps_latency"));
    }

    #[test]
    fn buckets_hold_every_time_once_whatever_it_is() {
        let limits: Vec<f64> = buckets(&times(&[])).iter().map(|bucket| bucket.0).collect();
        assert!(limits.windows(2).all(|pair| pair[0] < pair[1]), "{limits:?}");
        for time_us in (0..9_000_000).step_by(7_001) {
            let found: Vec<usize> = (0..)
                .zip(buckets(&times(&[time_us])))
                .filter(|(_, one)| one.1 == 1)
                .map(|(at, _)| at)
                .collect();
            let [at] = found[..] else { panic!("{time_us} is in {found:?}") };
            let (time_s, begin) = (time_us as f64 / 1e6, if at == 0 { 0.0 } else { limits[at - 1] });
            assert!((begin..limits[at]).contains(&time_s), "{time_s} is in {at}");
        }
    }

    /// A metric that a panel asks for and nobody exports would show as no data.
    #[test]
    fn every_metric_of_the_dashboard_is_exported() {
        let dashboard = include_str!("../../../deploy/grafana/kqps.json");
        let parsed: serde_json::Value = serde_json::from_str(dashboard).unwrap();
        let mut expressions = Vec::new();
        for panel in parsed["panels"].as_array().unwrap() {
            let targets = panel["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
            for target in targets {
                expressions.push(target["expr"].as_str().unwrap().to_owned());
                let legend = target["legendFormat"].as_str().unwrap();
                assert!(legend.starts_with("{{instance}}: "), "{legend} is of one of several");
            }
        }
        let text = text(&sample(), "0.1.0");
        let exported: BTreeSet<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split(['{', ' ']).next().unwrap())
            .collect();
        let is_of_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let names = expressions.iter().flat_map(|one| one.split(|character| !is_of_name(character)));
        let asked: BTreeSet<&str> = names.filter(|word| word.starts_with("kqps_")).collect();
        assert!(asked.len() >= 10, "{asked:?}");
        assert_eq!(asked.difference(&exported).collect::<Vec<_>>(), Vec::<&&str>::new());
    }
}

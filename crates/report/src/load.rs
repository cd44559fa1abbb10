//! The page of one load, or of several side by side: the slowest replies, the load over time, and the printed result.

mod figures;

use askama::Template;
use kqps_observation::moments::Moment;
use kqps_observation::trial::ClassTrial;
use kqps_observation::visible::visible;
use kqps_observation::{Accounts, EventFacts, Histogram, Quantiles, ReplayLane, Trial};

use crate::chart::{
    MomentCourse, MomentKind, MomentMark, Moments, Percentiles, Replies, moments, percentiles,
};
use crate::format;
use figures::Figures;

/// A load with its result.
#[derive(Clone, Debug)]
pub struct LoadInput {
    /// The name of the load on the page, such as its folder's.
    pub name: String,
    /// The command that played it, in words.
    pub command: Vec<String>,
    /// The result as it was printed.
    pub printed: String,
    /// The record.
    pub trial: Trial,
}

/// The lines of a chart that can be told apart by colour and dashes.
const CLASSES: usize = 6;

#[derive(Template)]
#[template(path = "load.html")]
struct Page<'a> {
    kqps_version: &'a str,
    headline: String,
    rows: Vec<Row>,
    slowest: String,
    figures: Vec<Figures>,
    loads: Vec<Load>,
}

/// A line of the first table: a load, or a lane of a single one.
struct Row {
    name: String,
    class: String,
    answered: String,
    bad: String,
    p50: String,
    p99: String,
    p999: String,
    max: String,
}

/// A load as the page shows it.
struct Load {
    name: String,
    rates: String,
    times: String,
    command: String,
    printed: String,
}

/// The page of loads: one HTML document without scripts, which fetches nothing. Text from outside is escaped where it
/// appears, and its control characters appear as numbers.
pub fn loads_page(inputs: &[LoadInput], kqps_version: &str) -> String {
    let (headline, figures) = (headline(inputs), figures::all(inputs));
    let inputs = &*by_class(inputs);
    let lines = lines(inputs);
    let replies: Vec<Replies> = lines.iter().enumerate().map(replies).collect();
    let rows = lines.iter().enumerate().map(row).collect();
    let slowest = percentiles(&Percentiles {
        id: "slowest",
        title: "The slowest replies",
        description: "Latency against the share of the replies that took as long or longer, both on logarithmic axes.",
        loads: &replies,
    });
    let loads = inputs.iter().enumerate().map(load).collect();
    let page = Page { kqps_version, headline, rows, slowest, figures, loads };
    visible(&page.render().expect("the template only writes to memory")).into_owned()
}

/// The result of a single load, or the number of loads.
fn headline(inputs: &[LoadInput]) -> String {
    let [LoadInput { trial, .. }] = inputs else { return format!("{} loads", inputs.len()) };
    let good = trial.good();
    if let Some(facts) = &good.hostile {
        let attempts = format!("{} attempts of the kind {}", facts.begun, facts.kind.word());
        return format!("{}: {attempts}, {} connections held", trial.target, facts.connections.held);
    }
    let answered = format::rate(good.load.answered_qps);
    let p99 = good.latency_us.p99();
    format!("{}: {answered} answered, p99 {}", trial.target, format::percentile(p99))
}

/// The loads, and instead of one with classes each class. The first of these has the result as printed.
fn by_class(inputs: &[LoadInput]) -> Vec<LoadInput> {
    let classes = |input: &LoadInput| -> Vec<LoadInput> {
        if input.trial.classes.is_empty() {
            return vec![input.clone()];
        }
        let of_class = |(number, class): (usize, &ClassTrial)| LoadInput {
            name: if inputs.len() > 1 {
                format!("{}: {}", input.name, class.name)
            } else {
                class.name.clone()
            },
            command: input.command.clone(),
            printed: if number == 0 { input.printed.clone() } else { String::new() },
            // An event at the server concerns all classes.
            trial: Trial { events: input.trial.events.clone(), ..class.trial.clone() },
        };
        input.trial.classes.iter().enumerate().map(of_class).collect()
    };
    inputs.iter().flat_map(classes).collect()
}

fn class(number: usize) -> String {
    format!("load{}", number % CLASSES)
}

/// Queries whose replies are compared with those of others.
struct Line<'a> {
    name: String,
    answered_qps: f64,
    accounts: &'a Accounts,
    latency_us: &'a Quantiles,
    /// Their histogram, encoded.
    latency: &'a str,
}

/// A line for each load, and for each lane of a single load that has several.
fn lines(inputs: &[LoadInput]) -> Vec<Line<'_>> {
    let lanes = match inputs {
        [LoadInput { trial: Trial { replay: Some(replay), load, .. }, .. }] if replay.lanes.len() > 1 => {
            replay.lanes.iter().map(|lane| of_lane(lane, load.duration_s)).collect()
        }
        _ => Vec::new(),
    };
    inputs.iter().map(of_load).chain(lanes).collect()
}

fn of_load(input: &LoadInput) -> Line<'_> {
    let LoadInput { name, trial, .. } = input;
    Line {
        name: name.clone(),
        answered_qps: trial.load.answered_qps,
        accounts: &trial.accounts,
        latency_us: &trial.latency_us,
        latency: trial.histograms.get("latency").map_or("", String::as_str),
    }
}

fn of_lane(lane: &ReplayLane, duration_s: f64) -> Line<'_> {
    Line {
        name: format!("over {}", lane.transport),
        answered_qps: lane.accounts.correct as f64 / duration_s.max(f64::MIN_POSITIVE),
        accounts: &lane.accounts,
        latency_us: &lane.latency_us,
        latency: &lane.latency,
    }
}

fn replies((number, line): (usize, &Line<'_>)) -> Replies {
    Replies { name: line.name.clone(), class: class(number), times: times_of(line.latency) }
}

fn row((number, line): (usize, &Line<'_>)) -> Row {
    let Line { accounts, latency_us, .. } = line;
    let bad = accounts.intended.saturating_sub(accounts.correct) as f64 / accounts.intended.max(1) as f64;
    let time = |us: Option<u64>| us.map_or(format::NONE.to_owned(), |us| format::time_us(us as f64));
    Row {
        name: line.name.clone(),
        class: class(number),
        answered: format::rate(line.answered_qps),
        bad: format::percent(bad),
        p50: time(latency_us.p50),
        p99: format::percentile(latency_us.p99()),
        p999: format::percentile(latency_us.p999()),
        max: time(latency_us.max),
    }
}

/// The times in an encoded histogram, and how often each occurs.
fn times_of(encoded: &str) -> Vec<(u64, u64)> {
    Histogram::decode(encoded).map_or_else(Vec::new, |latency| latency.times().collect())
}

fn load((number, input): (usize, &LoadInput)) -> Load {
    Load {
        name: input.name.clone(),
        rates: rates(number, &input.trial),
        times: times(number, &input.trial),
        command: format::command(&input.command),
        printed: input.printed.clone(),
    }
}

fn rates(number: usize, trial: &Trial) -> String {
    let line = |name, class, count: fn(&Moment) -> u64| MomentCourse {
        name,
        class,
        points: whole(trial)
            .map(|moment| (middle_s(moment), Some(count(moment) as f64 / moment.seconds)))
            .collect(),
    };
    let courses = [
        line("due", "due", |moment| moment.intended),
        line("sent", "sent", |moment| moment.sent),
        line("replies", "p50", |moment| moment.answered),
    ];
    moments(&Moments {
        id: &format!("rates-{number}"),
        title: "Rates over time",
        description: "Queries a second by when they were due: due, sent, and answered correctly in time.",
        kind: MomentKind::Rates,
        courses: &courses,
        marks: &marks(trial),
        until_s: until_s(trial),
    })
}

fn times(number: usize, trial: &Trial) -> String {
    let line = |name, class, time: fn(&Moment) -> Option<f64>| MomentCourse {
        name,
        class,
        points: whole(trial).map(|moment| (middle_s(moment), time(moment))).collect(),
    };
    let courses = [line("p99", "p99", |moment| moment.p99_us), line("p50", "p50", |moment| moment.p50_us)];
    moments(&Moments {
        id: &format!("times-{number}"),
        title: "Latency over time",
        description: "Median and 99th percentile of the correct replies in time, by when their queries were due.",
        kind: MomentKind::Times,
        courses: &courses,
        marks: &marks(trial),
        until_s: until_s(trial),
    })
}

/// The events that happened, at their begin or where they were due.
fn marks(trial: &Trial) -> Vec<MomentMark> {
    let mark = |event: &EventFacts| MomentMark { at_s: event.at_s(), name: event.name.clone() };
    trial.events.iter().filter(|event| event.happened()).map(mark).collect()
}

/// The moments without a last one that the load did not fill.
fn whole(trial: &Trial) -> impl Iterator<Item = &Moment> {
    let end_s = trial.load.duration_s + 0.001;
    trial.moments.iter().filter(move |moment| moment.at_s + moment.seconds <= end_s)
}

fn middle_s(moment: &Moment) -> f64 {
    moment.at_s + moment.seconds / 2.0
}

fn until_s(trial: &Trial) -> f64 {
    trial.moments.last().map_or(0.0, |moment| moment.at_s + moment.seconds)
}

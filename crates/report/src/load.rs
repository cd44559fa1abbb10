//! The page of one load, or of several side by side: the slowest replies, the load over time, and the printed result.

use askama::Template;
use kqps_observation::moments::Moment;
use kqps_observation::visible::visible;
use kqps_observation::{Histogram, Trial};

use crate::chart::{MomentCourse, MomentKind, Moments, Percentiles, Replies, moments, percentiles};
use crate::format;

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
    slowest: String,
    loads: Vec<Load>,
}

/// A load as the page shows it.
struct Load {
    name: String,
    class: String,
    answered: String,
    bad: String,
    p50: String,
    p99: String,
    p999: String,
    max: String,
    rates: String,
    times: String,
    command: String,
    printed: String,
}

/// The page of loads: one HTML document without scripts, which fetches nothing. Text from outside is escaped where it
/// appears, and its control characters appear as numbers.
pub fn loads_page(inputs: &[LoadInput], kqps_version: &str) -> String {
    let replies: Vec<Replies> = inputs.iter().enumerate().map(replies).collect();
    let slowest = percentiles(&Percentiles {
        id: "slowest",
        title: "The slowest replies",
        description: "Latency against the share of the replies that took as long or longer, both on logarithmic axes.",
        loads: &replies,
    });
    let loads = inputs.iter().enumerate().map(load).collect();
    let page = Page { kqps_version, headline: headline(inputs), slowest, loads };
    visible(&page.render().expect("the template only writes to memory")).into_owned()
}

/// The result of a single load, or the number of loads.
fn headline(inputs: &[LoadInput]) -> String {
    let [LoadInput { trial, .. }] = inputs else { return format!("{} loads", inputs.len()) };
    let answered = format::rate(trial.load.answered_qps);
    let p99 = trial.latency_us.p99();
    format!("{}: {answered} answered, p99 {}", trial.target, format::percentile(p99))
}

fn class(number: usize) -> String {
    format!("load{}", number % CLASSES)
}

fn replies((number, input): (usize, &LoadInput)) -> Replies {
    let latency = input.trial.histograms.get("latency").and_then(|text| Histogram::decode(text));
    let times = latency.map_or_else(Vec::new, |latency| latency.times().collect());
    Replies { name: input.name.clone(), class: class(number), times }
}

fn load((number, input): (usize, &LoadInput)) -> Load {
    let trial = &input.trial;
    let accounts = &trial.accounts;
    let bad = accounts.intended.saturating_sub(accounts.correct) as f64 / accounts.intended.max(1) as f64;
    Load {
        name: input.name.clone(),
        class: class(number),
        answered: format::rate(trial.load.answered_qps),
        bad: format::percent(bad),
        p50: trial.latency_us.p50.map_or(format::NONE.to_owned(), |us| format::time_us(us as f64)),
        p99: format::percentile(trial.latency_us.p99()),
        p999: format::percentile(trial.latency_us.p999()),
        max: trial.latency_us.max.map_or(format::NONE.to_owned(), |us| format::time_us(us as f64)),
        rates: rates(number, trial),
        times: times(number, trial),
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
        until_s: until_s(trial),
    })
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

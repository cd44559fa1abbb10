//! The progress of a trial: a bar on a terminal, or a line of statistics at intervals. Both go to stderr and
//! only read what the player publishes.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use kqps_message::rcode::RcodeName;
use kqps_observation::histogram::SAMPLES_BEYOND;
use kqps_player::live::{DetailSnapshot, Snapshot};
use kqps_player::{Live, Plan};
use kqps_verdict::rate::{in_thousands, rate};

/// Interval between two drawings of the bar.
const DRAW_EVERY: Duration = Duration::from_millis(200);

/// How progress is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgressDisplay {
    /// A bar with the live rate, loss and p99.
    pub(crate) bar: bool,
    /// A line of statistics at this interval.
    pub(crate) every: Option<Duration>,
}

/// Runs `trial`, and shows its progress meanwhile.
pub(super) fn beside<T>(plan: &Plan, live: &Live, shown: ProgressDisplay, trial: impl FnOnce() -> T) -> T {
    let every = match (shown.every, shown.bar) {
        (Some(every), _) => every.max(Duration::from_millis(10)),
        (None, true) => DRAW_EVERY,
        (None, false) => return trial(),
    };
    let (over, is_over) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || show(plan, live, shown, every, &is_over));
        let outcome = trial();
        drop(over);
        outcome
    })
}

fn show(plan: &Plan, live: &Live, shown: ProgressDisplay, every: Duration, is_over: &mpsc::Receiver<()>) {
    let bar = shown.bar.then(|| bar(plan));
    let began = Instant::now();
    let (mut last, mut last_s) = (live.snapshot(), 0.0);
    let mut next = every;
    let decimals = if every < Duration::from_millis(100) { 2 } else { 1 };
    while is_over.recv_timeout(next.saturating_sub(began.elapsed())) == Err(RecvTimeoutError::Timeout) {
        let (now, now_s) = (live.snapshot(), began.elapsed().as_secs_f64());
        let line = match plan.hostile {
            Some(_) => attempts(&now.since(&last), now_s - last_s),
            None => line(&now.since(&last), now_s - last_s, plan.has_connections_alone()),
        };
        if let Some(bar) = &bar {
            bar.set_position(began.elapsed().as_millis() as u64);
            bar.set_message(line);
        } else {
            eprintln!("{now_s:8.decimals$} s  {line}");
        }
        (last, last_s) = (now, now_s);
        next += every;
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
}

fn bar(plan: &Plan) -> ProgressBar {
    let style = "{elapsed_precise} {wide_bar:.cyan/blue} {msg}";
    let spinner = "{elapsed_precise} {spinner} {msg}";
    match plan.stop.after {
        Some(after) => ProgressBar::new(after.as_millis() as u64)
            .with_style(ProgressStyle::with_template(style).expect("the template is valid")),
        None => ProgressBar::no_length()
            .with_style(ProgressStyle::with_template(spinner).expect("the template is valid")),
    }
}

/// The attempts of attackers in one interval.
fn attempts(counts: &Snapshot, seconds: f64) -> String {
    format!("begun {} attempts/s", rate(counts.attempts as f64 / seconds))
}

/// The statistics of one interval. Connections alone are no queries.
fn line(counts: &Snapshot, seconds: f64, has_connections_alone: bool) -> String {
    let rcodes = counts.detail.as_ref().map(rcodes).unwrap_or_default();
    let bad = 100.0 * counts.bad_share();
    let latency = latency(counts);
    let (sent, correct) = (counts.sent as f64 / seconds, counts.correct as f64 / seconds);
    let rates = if has_connections_alone {
        format!("begun {} connections/s, made {} connections/s", rate(sent), rate(correct))
    } else {
        format!("sent {}k q/s, correct {}k q/s", in_thousands(sent), in_thousands(correct))
    };
    format!("{rates}, bad {bad:.2} %, {latency}{rcodes}")
}

/// The latency of the replies of one interval: `p50 96 µs, p99 at most 320 µs`; `no reply` without any.
fn latency(counts: &Snapshot) -> String {
    let words = |(name, quantile): (&str, f64)| {
        let seen = counts.latency.percentile(quantile, SAMPLES_BEYOND)?;
        Some(seen.words(name, |time_us| format!("{time_us} µs")))
    };
    let mut words: Vec<String> = [("p50", 0.5), ("p99", 0.99)].into_iter().filter_map(words).collect();
    words.dedup();
    if words.is_empty() { "no reply".into() } else { words.join(", ") }
}

/// The rcodes of the replies of one interval, each with their number.
fn rcodes(detail: &DetailSnapshot) -> String {
    let seen = detail.rcodes.iter().filter(|(_, count)| **count > 0);
    let each: Vec<String> = seen.map(|(rcode, count)| format!(", {} {count}", RcodeName(*rcode))).collect();
    each.concat()
}

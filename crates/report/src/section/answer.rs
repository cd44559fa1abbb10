//! The answer, which comes first: a sentence and a row for every subject. A figure that is refused is nowhere
//! replaced by a number.

use kqps_observation::Run;
use kqps_verdict::bottleneck::{Bottleneck, Resource};
use kqps_verdict::grade::Grade;
use kqps_verdict::interval::Interval;
use kqps_verdict::judge::{CellVerdict, RunVerdict, StartVerdict, Wording};

use crate::format;
use crate::prose::Prose;

/// What is said of one subject.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    /// Follows the name.
    pub(crate) sentence: String,
    pub(crate) rate: String,
    pub(crate) interval: Option<String>,
    /// What every start showed of its bounds; of a refused figure what was seen, and no claim.
    pub(crate) starts: Vec<String>,
    pub(crate) share: String,
    /// Of what it is a share.
    pub(crate) ceiling: Option<String>,
    pub(crate) bottleneck: String,
    /// What shows it.
    pub(crate) bottleneck_detail: Option<String>,
    pub(crate) grade: String,
    /// Style class.
    pub(crate) grade_class: &'static str,
    /// Those that do not hold for every figure.
    pub(crate) reasons: Vec<Prose>,
}

/// The answers in the order of the verdict, and the reasons that hold for every figure in it.
pub(crate) fn of_run(run: &Run, verdict: &RunVerdict) -> (Vec<Answer>, Vec<String>) {
    let common = common_reasons(verdict);
    let of_subject = |subject| answer(run, verdict, subject, &common);
    (verdict.subjects.iter().map(of_subject).collect(), common)
}

/// What the page is called: what it tells, not where it comes from.
pub(crate) fn headline(verdict: &RunVerdict) -> String {
    match verdict.subjects.as_slice() {
        [] => "What the echo reaches on this host".to_owned(),
        [one] => match one.figure_qps {
            Some(figure) => format!("{}: {} on this host", one.name, statistic(&figure)),
            None => format!("No number for {}", one.name),
        },
        several => format!("The rates of {} name servers on this host", several.len()),
    }
}

/// A figure, and what it is: a statistic where there are several starts.
fn statistic(figure: &Interval) -> String {
    let rate = format::rate(figure.median);
    match figure.count {
        1 => format!("{rate} in its one start"),
        count => format!("{rate}, the median of {count} starts"),
    }
}

/// What the player reached, set up as for the figure that comes nearest to it, and how far above that is.
pub(crate) fn player_ceiling(verdict: &RunVerdict) -> Option<String> {
    let figures = verdict.subjects.iter().filter_map(|one| Some((one.player_headroom?, one)));
    Some(if let Some((times, nearest)) = figures.min_by(|(a, _), (b, _)| a.total_cmp(b)) {
        let answered = format::rate(nearest.player_ceiling_qps?);
        format!(
            "The echo answered the player at {answered} here, {times:.1} times the figure of {}.",
            nearest.name
        )
    } else {
        let answered = format::rate(verdict.ceilings.player.as_ref()?.median_qps()?);
        format!("The echo answered the player at {answered} here.")
    })
}

/// Reasons that every subject with a figure has, where there are several such subjects.
fn common_reasons(verdict: &RunVerdict) -> Vec<String> {
    let figures: Vec<&CellVerdict> =
        verdict.subjects.iter().filter(|subject| subject.figure_qps.is_some()).collect();
    match figures.as_slice() {
        [first, others @ ..] if !others.is_empty() => {
            let held_by_all = |reason: &&String| others.iter().all(|other| other.reasons.contains(reason));
            first.reasons.iter().filter(held_by_all).cloned().collect()
        }
        _ => Vec::new(),
    }
}

fn answer(run: &Run, verdict: &RunVerdict, subject: &CellVerdict, common: &[String]) -> Answer {
    let figure = subject.figure_qps;
    let cell = run.cells.get(subject.cell as usize);
    let told_apart = subject.reasons.iter().filter(|reason| !common.contains(reason));
    Answer {
        name: subject.name.clone(),
        version: cell.and_then(|cell| cell.version.clone()),
        sentence: sentence(subject),
        rate: figure.map_or("no number".to_owned(), |figure| format::rate(figure.median)),
        interval: figure.map(|figure| interval(&figure)),
        starts: starts(subject),
        share: subject.ceiling_share.map_or(format::NONE.to_owned(), format::percent),
        ceiling: subject.ceiling_share.and_then(|_| ceiling(verdict, subject)),
        bottleneck: limit(subject).unwrap_or(format::NONE).to_owned(),
        bottleneck_detail: limit(subject).and_then(|_| busiest(&subject.bottleneck)),
        grade: subject.grade.to_string(),
        grade_class: match subject.grade {
            Grade::A => "a",
            Grade::B => "b",
            Grade::C => "c",
            Grade::F => "f",
        },
        reasons: told_apart.cloned().map(Prose).collect(),
    }
}

/// `echo mmsg, 480 kqps`
fn ceiling(verdict: &RunVerdict, subject: &CellVerdict) -> Option<String> {
    let name = subject.ceiling.as_ref()?;
    let echo = verdict.ceilings.echo(name)?;
    Some(format!("{name}, {}", format::rate(echo.median_qps()?)))
}

fn interval(figure: &Interval) -> String {
    if figure.count == 1 {
        return "one start".to_owned();
    }
    let range = format::rate_interval(figure.low, figure.high);
    format!("{range}, {} starts, {:.0} % coverage", figure.count, figure.coverage * 100.0)
}

/// What every start showed. That all of them failed is told elsewhere.
fn starts(subject: &CellVerdict) -> Vec<String> {
    if subject.starts.iter().all(|start| start.failure.is_some()) {
        return Vec::new();
    }
    let wording = Wording { rate: &format::rate, is_claimed: subject.figure_qps.is_some() };
    let seen = if wording.is_claimed { "" } else { ", seen" };
    let told = |start: &StartVerdict| format!("start {}{seen}: {}", start.block + 1, start.in_words(wording));
    subject.starts.iter().map(told).collect()
}

fn sentence(subject: &CellVerdict) -> String {
    let Some(figure) = subject.figure_qps else {
        return refusal(subject);
    };
    let share = match (subject.ceiling_share, &subject.ceiling) {
        (Some(share), Some(ceiling)) => {
            format!(", {} of what {ceiling} does here", format::percent(share))
        }
        _ => String::new(),
    };
    let limit = limit(subject).map_or(String::new(), |limit| format!(" Its limit: {limit}."));
    let is_search = subject.starts.iter().any(|start| start.is_searched);
    let rate = match (figure.count, is_search) {
        (1, true) => format!("held {} in its one start", format::rate(figure.median)),
        _ => format!("answered {}", statistic(&figure)),
    };
    format!("{rate}{share}.{limit}")
}

/// Why there is no figure.
fn refusal(subject: &CellVerdict) -> String {
    let mut failures = subject.starts.iter().map(|start| start.failure.as_deref());
    if let Some(Some(first)) = failures.next()
        && failures.all(|failure| failure.is_some())
    {
        return format!("could not be measured: {first}");
    }
    let Some(reason) = subject.reasons.first() else {
        return "gets no number.".to_owned();
    };
    // A warning's code says nothing in a sentence; its advice does.
    let warning = subject.warnings.iter().find(|warning| warning.to_string() == *reason);
    let why = warning.map_or(reason, |warning| &warning.advice);
    format!("gets no number. {why}")
}

/// What ended the climb. Of a figure that is refused, "nothing" says nothing.
fn limit(subject: &CellVerdict) -> Option<&'static str> {
    let refused = subject.figure_qps.is_none();
    match subject.bottleneck.resource {
        Resource::Player => Some("the player"),
        Resource::Path => Some("the path between player and subject"),
        Resource::SubjectCpu => Some("the subject's CPU"),
        Resource::SubjectSocketBuffer => Some("the subject's socket buffer"),
        Resource::Memory => Some("the kernel's memory for packets"),
        Resource::NoneSaturated | Resource::Unknown if refused => None,
        Resource::NoneSaturated => Some("nothing was saturated, so this is no capacity"),
        Resource::Unknown => Some("unknown, as the subject was not watched"),
    }
}

/// How busy the thread was that had most to do on the side in question.
fn busiest(bottleneck: &Bottleneck) -> Option<String> {
    if bottleneck.resource == Resource::Player {
        return Some(format!("{} busy", format::busy(bottleneck.player_busy?)));
    }
    let thread = bottleneck.thread.as_ref()?;
    Some(format!("thread {} {}, {} busy", thread.name, thread.tid, format::busy(thread.busy)))
}

//! The answer, which comes first: a sentence and a row for every subject. No number takes the place of a
//! refused figure.

use kqps_observation::{Cell, Run};
use kqps_verdict::bottleneck::{Bottleneck, PlayerLack, Resource};
use kqps_verdict::grade::Grade;
use kqps_verdict::interval::Interval;
use kqps_verdict::judge::{CellVerdict, RunVerdict, StartVerdict, Wording};
use kqps_verdict::speed::is_gauged;

use crate::format;
use crate::prose::Prose;

/// The answer for one subject.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) name: String,
    /// The cell, if it has trials.
    pub(crate) cell: Option<u32>,
    pub(crate) version: Option<String>,
    /// The sentence that follows the name.
    pub(crate) sentence: String,
    pub(crate) rate: String,
    pub(crate) interval: Option<String>,
    /// The rate as the host came, with its disturbances.
    pub(crate) as_it_came: Option<String>,
    /// The bounds that every start showed. For a refused figure, what the trials showed, without a claim.
    pub(crate) starts: Vec<String>,
    pub(crate) share: String,
    pub(crate) share_interval: Option<String>,
    /// The ceiling that the share refers to.
    pub(crate) ceiling: Option<String>,
    pub(crate) bottleneck: String,
    /// The evidence for the bottleneck.
    pub(crate) bottleneck_detail: Option<String>,
    pub(crate) grade: String,
    /// Half the width of the rate's range; `None` without a range.
    pub(crate) within: Option<String>,
    /// The style class of the grade.
    pub(crate) grade_class: &'static str,
    /// The reasons that do not hold for every figure.
    pub(crate) reasons: Vec<Prose>,
}

/// The answers in the order of the verdict, and the reasons that hold for every figure in it.
pub(crate) fn of_run(run: &Run, verdict: &RunVerdict) -> (Vec<Answer>, Vec<String>) {
    let common = common_reasons(verdict);
    let of_subject = |subject| answer(run, verdict, subject, &common);
    (verdict.subjects.iter().map(of_subject).collect(), common)
}

/// The title of the page: its main result.
pub(crate) fn headline(run: &Run, verdict: &RunVerdict) -> String {
    // Servers on another host are measured without any on this host.
    let is_elsewhere = verdict.subjects.iter().any(|subject| is_elsewhere(run, subject.cell));
    let place = match run.server_host() {
        Some(server) => format!("on {}", server.name),
        None if is_elsewhere => "on another host".to_owned(),
        None => "on this host".to_owned(),
    };
    match verdict.subjects.as_slice() {
        [] => format!("What the echo reaches {place}"),
        [one] => match one.figure_qps {
            Some(figure) => format!("{}: {} {place}", one.name, statistic(&figure)),
            None => match one.at_least_qps {
                Some(least_qps) => format!("{}: at least {} {place}", one.name, format::rate(least_qps)),
                None => format!("No number for {}", one.name),
            },
        },
        several => format!("The rates of {} name servers {place}", several.len()),
    }
}

/// Whether the subject of a cell is on another host than its player.
fn is_elsewhere(run: &Run, cell: u32) -> bool {
    !run.hosts.is_empty() || run.cells.get(cell as usize).is_some_and(Cell::is_elsewhere)
}

/// A figure with the number of its starts.
fn statistic(figure: &Interval) -> String {
    let rate = format::rate(figure.median);
    match figure.count {
        1 => format!("{rate} in its one start"),
        count => format!("{rate} over {count} starts"),
    }
}

/// A sentence with the rate of the player at the figure that comes nearest to it, with the same settings, and
/// the ratio of the two.
pub(crate) fn player_ceiling(run: &Run, verdict: &RunVerdict) -> Option<String> {
    let place = |cell: u32| if is_elsewhere(run, cell) { "from the server's host" } else { "here" };
    let figures = verdict.subjects.iter().filter_map(|one| Some((one.player_headroom?, one)));
    Some(if let Some((times, nearest)) = figures.min_by(|(a, _), (b, _)| a.total_cmp(b)) {
        let answered = format::rate(nearest.player_ceiling_qps?);
        format!(
            "The echo answered the player at {answered} {}, {times:.1} times the figure of {}.",
            place(nearest.cell),
            nearest.name
        )
    } else {
        let players = verdict.ceilings.players.iter().filter(|player| player.figure_qps.is_some());
        let player =
            players.max_by(|a, b| a.median_qps().unwrap_or(0.0).total_cmp(&b.median_qps().unwrap_or(0.0)))?;
        format!(
            "The echo answered the player at {} {}.",
            format::rate(player.median_qps()?),
            place(player.cell)
        )
    })
}

/// Reasons that every subject with a figure has, if there are several such subjects.
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
    let own_reasons = subject.reasons.iter().filter(|reason| !common.contains(reason));
    Answer {
        name: subject.name.clone(),
        cell: Some(subject.cell).filter(|_| !subject.starts.is_empty()),
        version: cell.and_then(|cell| cell.version.clone()),
        sentence: sentence(subject),
        rate: match (figure, subject.at_least_qps) {
            (Some(figure), _) => format::rate(figure.median),
            (None, Some(least_qps)) => format!("at least {}", format::rate(least_qps)),
            (None, None) => "no number".to_owned(),
        },
        interval: figure.map(|figure| interval(&figure)),
        as_it_came: is_gauged(run, subject.cell as usize).then(|| as_it_came(subject)).flatten(),
        starts: starts(subject),
        share: subject.ceiling_share.map_or(format::NONE.to_owned(), format::percent),
        share_interval: subject
            .share
            .filter(is_range)
            .map(|share| format!("{} to {}", format::percent(share.low), format::percent(share.high))),
        ceiling: subject.ceiling_share.and_then(|_| ceiling(verdict, subject)),
        bottleneck: limit(subject).unwrap_or(format::NONE).to_owned(),
        bottleneck_detail: limit(subject).and_then(|_| busiest(&subject.bottleneck)),
        grade: subject.grade.to_string(),
        within: figure.map(|figure| figure.half_width()).filter(|half| *half > 0.0).map(format::percent),
        grade_class: match subject.grade {
            Grade::A => "a",
            Grade::B => "b",
            Grade::C => "c",
            Grade::D => "d",
            Grade::F => "f",
        },
        reasons: own_reasons.cloned().map(Prose).collect(),
    }
}

/// The ceiling in words: `echo mmsg, 480k q/s`.
fn ceiling(verdict: &RunVerdict, subject: &CellVerdict) -> Option<String> {
    let name = subject.ceiling.as_ref()?;
    let echo = verdict.ceilings.echo(name)?;
    Some(format!("{name}, {}", format::rate(echo.median_qps()?)))
}

fn is_range(interval: &Interval) -> bool {
    interval.high > interval.low
}

fn interval(figure: &Interval) -> String {
    let starts = match figure.count {
        1 => "one start".to_owned(),
        count => format!("{count} starts"),
    };
    if !is_range(figure) {
        return starts;
    }
    let range = format::rate_interval(figure.low, figure.high);
    format!("{range}, {starts}, {:.0} % coverage", figure.coverage * 100.0)
}

/// The rate as the host came, beside the rate at its usual speed.
fn as_it_came(subject: &CellVerdict) -> Option<String> {
    let came = format::rate(subject.as_it_came_qps?.median);
    Some(format!("Uncorrected: {came}, with the speed of the cores and all trials as they came"))
}

/// The bounds of every start. Empty if all starts failed, since the page says so elsewhere.
fn starts(subject: &CellVerdict) -> Vec<String> {
    if subject.starts.iter().all(|start| start.failure.is_some()) {
        return Vec::new();
    }
    let wording = Wording { rate: &format::rate, is_claimed: !subject.grade.refuses() };
    let seen = if wording.is_claimed { "" } else { ", seen" };
    let text = |start: &StartVerdict| format!("start {}{seen}: {}", start.block + 1, start.in_words(wording));
    subject.starts.iter().map(text).collect()
}

fn sentence(subject: &CellVerdict) -> String {
    if let Some(least_qps) = subject.at_least_qps {
        return format!("answers at least {}, the greatest load that was allowed.", format::rate(least_qps));
    }
    let Some(figure) = subject.figure_qps else {
        return refusal(subject);
    };
    let share = match (subject.ceiling_share, &subject.ceiling) {
        (Some(share), Some(ceiling)) => {
            let range = subject.share.filter(is_range).map_or_else(String::new, |range| {
                format!(" ({} to {})", format::percent(range.low), format::percent(range.high))
            });
            format!("reaches {}{range} of what {ceiling} does here, and ", format::percent(share))
        }
        _ => String::new(),
    };
    let limit = limit(subject).map_or(String::new(), |limit| format!(" Its limit: {limit}."));
    format!("{share}{}.{limit}", rate(subject, &figure))
}

/// The figure, and for a single search the load that held. The loss that the goal allows makes the figure less
/// than that load. If half of the trials may be bad, the figure is an estimate from all of them, and no load
/// held it.
fn rate(subject: &CellVerdict, figure: &Interval) -> String {
    let is_search = subject.starts.iter().any(|start| start.is_searched) && !subject.goal.wants_half();
    let answered = format::rate(figure.median);
    match subject.lower_bound_qps.map(format::rate) {
        Some(held) if figure.count == 1 && is_search && held == answered => {
            format!("held {held} in its one start")
        }
        Some(held) if figure.count == 1 && is_search => {
            format!("held {held} in its one start and answered {answered} of them")
        }
        _ if is_range(figure) => {
            let range = format::rate_interval(figure.low, figure.high);
            format!("answered {} ({range})", statistic(figure))
        }
        _ => format!("answered {}", statistic(figure)),
    }
}

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
    // The code of a warning means nothing in a sentence; its advice does.
    let warning = subject.warnings.iter().find(|warning| warning.to_string() == *reason);
    let why = warning.map_or(reason, |warning| &warning.advice);
    format!("gets no number. {why}")
}

/// The bottleneck that ended the climb. For a refused figure, "nothing" is left out.
fn limit(subject: &CellVerdict) -> Option<&'static str> {
    match subject.bottleneck.resource {
        Resource::NoneSaturated | Resource::Unknown if subject.grade.refuses() => None,
        resource => Some(subject.bottleneck.player_lack.map_or(resource.in_short(), PlayerLack::in_words)),
    }
}

/// How busy the busiest thread was, on the side of the bottleneck.
fn busiest(bottleneck: &Bottleneck) -> Option<String> {
    if bottleneck.resource == Resource::Player {
        return Some(format!("{} busy", format::busy(bottleneck.shown_player_busy()?)));
    }
    let thread = bottleneck.thread.as_ref()?;
    Some(format!("thread {} {}, {} busy", thread.name, thread.tid, format::busy(thread.busy)))
}

#[cfg(test)]
mod tests {
    use kqps_observation::fingerprint::BinaryFacts;
    use kqps_observation::run::{Outcome, Purpose, Role};
    use kqps_observation::trial::LoadFacts;
    use kqps_observation::{Accounts, Fingerprint, HostRole, RunHost, RunTrial, Target, Trial};
    use kqps_verdict::judge::{facts_of, judge};
    use kqps_verdict::search::{Goal, Preset};

    use super::*;

    /// A run of one start, with trials at these loads, each with the number of queries that it lost.
    fn searched(goal: &Goal, loads: &[(f64, u64)]) -> Run {
        let trial = |number: u64, load_qps: f64, lost: u64| {
            let intended = load_qps as u64;
            let accounts =
                Accounts { intended, sent: intended, correct: intended - lost, lost, ..Accounts::default() };
            let load = LoadFacts { intended_qps: Some(load_qps), duration_s: 1.0, ..LoadFacts::default() };
            let outcome = Outcome::Measured(Box::new(Trial { load, accounts, ..Trial::default() }));
            RunTrial { number, cell: 0, block: 0, start: 1, purpose: Purpose::Search, outcome }
        };
        let loads = loads.iter().flat_map(|facts| [*facts; 3]);
        Run {
            goal: goal.name.clone(),
            goal_facts: Some(facts_of(goal)),
            cells: vec![Cell { name: "mine".into(), ..Cell::default() }],
            trials: (1..).zip(loads).map(|(number, (qps, lost))| trial(number, qps, lost)).collect(),
            ..Run::default()
        }
    }

    /// The sentence of the only answer, with plain spaces.
    fn sentence_of(run: &Run) -> String {
        let (answers, _) = of_run(run, &judge(run));
        answers[0].sentence.replace('\u{a0}', " ")
    }

    #[test]
    fn what_held_is_the_load_that_was_played_and_not_what_was_answered_of_it() {
        let goal = Goal { loss: 0.05, exceed: 0.0, ..Preset::Quick.goal() };
        let lossy = sentence_of(&searched(&goal, &[(100_000.0, 4_000), (102_000.0, 9_000)]));
        assert!(
            lossy.starts_with("held 100k q/s in its one start and answered 96.0k q/s of them."),
            "{lossy}"
        );
        let whole = sentence_of(&searched(&goal, &[(100_000.0, 0), (102_000.0, 9_000)]));
        assert!(whole.starts_with("held 100k q/s in its one start."), "{whole}");
    }

    #[test]
    fn the_title_names_the_servers_host_if_the_run_does() {
        let mut run = searched(&Preset::Quick.goal(), &[(100_000.0, 0), (102_000.0, 9_000)]);
        run.hosts = vec![RunHost {
            name: "ns1".into(),
            role: HostRole::Server,
            address: [192, 0, 2, 1].into(),
            fingerprint: Fingerprint::default(),
            kqps: BinaryFacts::default(),
        }];
        assert!(headline(&run, &judge(&run)).ends_with(" on ns1"), "{}", headline(&run, &judge(&run)));
    }

    #[test]
    fn an_estimate_is_not_said_to_have_held() {
        let run = searched(&Preset::Quick.goal(), &[(100_000.0, 0), (102_000.0, 9_000)]);
        let said = sentence_of(&run);
        assert!(said.starts_with("answered 101k q/s in its one start (97.8k to 104k q/s)."), "{said}");
    }

    #[test]
    fn one_start_shows_its_range_and_the_rate_as_the_host_came() {
        let plain = |text: String| text.replace('\u{a0}', " ");
        let one = Interval { median: 9e4, low: 8.5e4, high: 9.5e4, coverage: 0.95, count: 1 };
        assert_eq!(plain(interval(&one)), "85.0k to 95.0k q/s, one start, 95 % coverage");
        assert_eq!(interval(&Interval { low: 9e4, high: 9e4, ..one }), "one start");
        let run = searched(&Preset::Quick.goal(), &[(100_000.0, 0), (102_000.0, 9_000)]);
        let subject = CellVerdict { as_it_came_qps: Some(one), ..judge(&run).subjects.remove(0) };
        let said = plain(as_it_came(&subject).unwrap());
        assert_eq!(said, "Uncorrected: 90.0k q/s, with the speed of the cores and all trials as they came");
    }

    #[test]
    fn a_server_elsewhere_is_not_said_to_be_on_this_host_nor_its_echo_here() {
        let mut run = searched(&Preset::Quick.goal(), &[(100_000.0, 0), (102_000.0, 9_000)]);
        let mut ceiling = run.trials[0].clone();
        (ceiling.number, ceiling.cell, ceiling.purpose) = (99, 1, Purpose::Ceiling);
        let Outcome::Measured(trial) = &mut ceiling.outcome else { panic!() };
        trial.load.answered_qps = 900_000.0;
        run.trials.push(ceiling);
        run.cells.push(Cell { role: Role::PlayerCeiling, ..Cell::default() });
        for (on_this_host, place, echo) in [
            (true, "on this host", "at 900k q/s here, "),
            (false, "on another host", "at 900k q/s from the server's host, "),
        ] {
            let target = Target { address: "192.0.2.1:53".parse().unwrap(), on_this_host };
            for cell in &mut run.cells {
                cell.target = Some(target);
            }
            let verdict = judge(&run);
            assert!(headline(&run, &verdict).ends_with(place), "{}", headline(&run, &verdict));
            let ceiling = player_ceiling(&run, &verdict).unwrap().replace('\u{a0}', " ");
            assert!(ceiling.contains(echo), "{ceiling}");
        }
    }
}

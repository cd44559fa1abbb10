//! Every cell with its figures, and the reasons for its grade.

use std::collections::BTreeSet;

use kqps_catalogue::Figure;
use kqps_observation::{Run, cpu_list};
use kqps_verdict::figure::{Figures, State};
use kqps_verdict::interval::Interval;
use kqps_verdict::judge::{CellVerdict, RunVerdict};

use super::sheet::{
    Sheet, Value, cell, count, counted, ends, name, named, number, numbers, text, trials, words,
};

/// A column after the factors: its name, its content, and its value of a cell.
type Rest = (&'static str, &'static str, fn(&CellVerdict, &Figures) -> Value);

/// The columns after the factors.
const REST: &[Rest] = &[
    ("state", "measured, refused, crashed or not-measured", |_, figures| named(figures.state)),
    ("absence", "why there is no figure", |subject, figures| words(&absence(subject, figures))),
    ("grade", "A, B, C, D or F", |subject, _| text(subject.grade.to_string())),
    ("rate_qps", "the figure, correct answers a second", |subject, _| {
        number(subject.figure_qps.map(|rate| rate.median))
    }),
    ("rate_low_qps", "low end of its interval", |subject, _| low(subject.figure_qps.as_ref())),
    ("rate_high_qps", "high end of its interval", |subject, _| high(subject.figure_qps.as_ref())),
    ("rate_coverage_share", "the probability that the interval covers the truth", |subject, _| {
        number(subject.figure_qps.map(|rate| rate.coverage).filter(|coverage| *coverage > 0.0))
    }),
    ("rate_starts", "the number of starts behind it", |subject, _| {
        subject.figure_qps.map_or(Value::None, |rate| count(rate.count))
    }),
    ("as_it_came_qps", "the figure at the speed that the cores had", |subject, _| {
        number(subject.as_it_came_qps.map(|rate| rate.median))
    }),
    ("lower_bound_qps", "the least load that held in a start", |subject, _| number(subject.lower_bound_qps)),
    ("upper_bound_qps", "the greatest load that did not hold in a start", |subject, _| {
        number(subject.upper_bound_qps)
    }),
    ("mean_qps", "mean of the starts", |_, figures| number(figures.spread_qps.map(|spread| spread.mean))),
    ("min_qps", "least of the starts", |_, figures| number(figures.spread_qps.map(|spread| spread.min))),
    ("max_qps", "greatest of the starts", |_, figures| number(figures.spread_qps.map(|spread| spread.max))),
    ("published_qps", "the published figure with the same factors", |_, figures| {
        number(figures.ranged(Figure::Published).0)
    }),
    ("ceiling", "the echo with the same I/O model", |subject, _| {
        words(subject.ceiling.as_deref().unwrap_or_default())
    }),
    ("ceiling_share", "the figure as a share of its rate", |subject, _| number(subject.ceiling_share)),
    ("ceiling_low_share", "low end of the share's interval", |subject, _| low(subject.share.as_ref())),
    ("ceiling_high_share", "high end of the share's interval", |subject, _| high(subject.share.as_ref())),
    ("player_ceiling_qps", "what the player reached with the same settings", |subject, _| {
        number(subject.player_ceiling_qps)
    }),
    ("efficiency_share", "rate divided by workers times the rate of one", |_, figures| {
        number(figures.efficiency)
    }),
    ("published_efficiency_share", "the same of the published rates", |_, figures| {
        number(figures.published_efficiency)
    }),
    ("bottleneck", "the resource that ended the climb", |subject, _| named(subject.bottleneck.resource)),
    ("cpu_s_per_million", "CPU seconds of the subject per million correct answers", |_, figures| {
        number(figures.cpu_s_per_million)
    }),
    ("memory_bytes", "memory of the subject, also if the rate is refused", |_, figures| {
        counted(figures.memory.map(|memory| memory.bytes))
    }),
    ("memory_is_proportional", "whether shared pages are divided among processes (PSS)", |_, figures| {
        figures.memory.map_or(Value::None, |memory| Value::Flag(memory.proportional))
    }),
    ("memory_bytes_per_record", "memory divided by the records of all zones", |_, figures| {
        number(figures.memory_bytes_per_record)
    }),
    (
        "memory_bytes_per_connection",
        "memory beyond that of the fewest connections, by connection",
        |_, figures| number(figures.memory_bytes_per_connection),
    ),
    ("load_time_mean_s", "time until the subject answered, mean of the starts", |_, figures| {
        number(figures.load_time_s.map(|load| load.mean))
    }),
    ("load_time_min_s", "least of the starts", |_, figures| number(figures.load_time_s.map(|load| load.min))),
    ("load_time_max_s", "greatest of the starts", |_, figures| {
        number(figures.load_time_s.map(|load| load.max))
    }),
    ("reply_bytes", "mean size of a correct reply", |_, figures| number(figures.reply_bytes)),
    ("p99_at_half_us", "p99 latency at half of the rate", |_, figures| {
        counted(figures.p99_at_half_us.filter(|_| figures.state == State::Measured))
    }),
    ("latency_mean_us", "mean latency at the rate", |_, figures| {
        number(figures.latency_us.map(|latency| latency.mean))
    }),
    ("latency_p99_us", "p99 latency at the rate", |_, figures| {
        counted(figures.latency_us.and_then(|latency| latency.p99))
    }),
    ("lost_share", "share of the queries sent that were lost at the rate", |_, figures| {
        number(figures.lost_share)
    }),
    ("trials", "numbers of the trials behind the figure", |subject, _| numbers(&subject.trials)),
];

fn low(interval: Option<&Interval>) -> Value {
    let [low, _] = ends(interval);
    low
}

fn high(interval: Option<&Interval>) -> Value {
    let [_, high] = ends(interval);
    high
}

/// A row for every cell of a subject.
pub(super) fn cells(run: &Run, verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("cells", "one cell: a subject with its settings");
    let names: BTreeSet<&String> =
        verdict.subjects.iter().flat_map(|one| run.cells[one.cell as usize].factors.words().keys()).collect();
    for (subject, figures) in verdict.subjects.iter().zip(&verdict.figures) {
        let cell = &run.cells[subject.cell as usize];
        let first = [
            ("cell", "index of the cell in the run", count(subject.cell)),
            ("name", "the cell's name", text(&cell.name)),
            ("experiment", "the experiment that it belongs to", words(&cell.experiment)),
            ("subject", "the subject", text(&cell.subject)),
            ("version", "its version, if it is known", words(cell.version.as_deref().unwrap_or_default())),
            ("io", "its I/O model", words(&cell.io)),
            ("workers", "its number of workers; 0 if that is not known", count(cell.workers)),
            ("subject_cpus", "the cores of the subject", words(&cpu_list::write(&cell.subject_cpus))),
            ("player_cpus", "the cores of the player", words(&cpu_list::write(&cell.player_cpus))),
        ];
        let first = first.map(|(name, about, value)| (name.to_owned(), about.to_owned(), value));
        let factor = |name: &&String| {
            let value = words(cell.factors.word(name).unwrap_or_default());
            (format!("factor.{name}"), "the value of this factor".to_owned(), value)
        };
        let rest = REST
            .iter()
            .map(|(name, about, value)| ((*name).to_owned(), (*about).to_owned(), value(subject, figures)));
        sheet.push(first.into_iter().chain(names.iter().map(factor)).chain(rest));
    }
    sheet
}

/// Why a cell has no figure; empty if it has one.
pub(super) fn absence(subject: &CellVerdict, figures: &Figures) -> String {
    match figures.state {
        State::Measured => String::new(),
        State::NotMeasured => "no trial of it was made".to_owned(),
        State::Crashed => {
            let reason = figures.crashes.first().map_or("no start could be measured", |crash| &crash.reason);
            reason.to_owned()
        }
        State::Refused => subject.reasons.first().cloned().unwrap_or_else(|| "grade F".to_owned()),
    }
}

/// A row for every reason for a grade, the gravest first.
pub(super) fn reasons(verdict: &RunVerdict) -> Sheet {
    let mut sheet = Sheet::new("reasons", "one reason for the grade of a cell");
    for subject in &verdict.subjects {
        for (rank, reason) in (1u32..).zip(&subject.reasons) {
            sheet.push([
                cell(subject.cell),
                name(&subject.name),
                ("grade", "A, B, C, D or F", text(subject.grade.to_string())),
                ("rank", "1 is the gravest", count(rank)),
                ("reason", "the reason, a sentence", text(reason)),
            ]);
        }
    }
    sheet
}

/// A row for every kind of thread of every cell.
pub(super) fn cpu_by_thread(verdict: &RunVerdict) -> Sheet {
    const CPU_S: &str = "CPU seconds of these threads per million correct answers";
    let mut sheet = Sheet::new("cpu_by_thread", "one kind of thread of a subject");
    for (subject, figures) in verdict.subjects.iter().zip(&verdict.figures) {
        for (thread, cpu_s) in &figures.cpu_by_thread {
            sheet.push([
                cell(subject.cell),
                name(&subject.name),
                ("thread", "name of the threads, without a number at its end", text(thread)),
                ("cpu_s_per_million", CPU_S, number(*cpu_s)),
                trials(&subject.trials),
            ]);
        }
    }
    sheet
}

//! Figures of the cells of a study, of closed loops and fixed rates: their parts, and how they are laid out.

use std::collections::BTreeMap;

use kqps_observation::question::{Chart, Experiment, Factor, Figure, Published, Question, Table};
use kqps_observation::run::{CellLoad, Outcome, Purpose, Role};
use kqps_observation::{Cell, Factors, Histogram, Run, RunTrial, Trial};
use kqps_verdict::bottleneck::Resource;
use kqps_verdict::figure::{Absence, Grid, Latency, Memory, State, best_of, charts_of, factor, tables_of};
use kqps_verdict::grade::Grade;
use kqps_verdict::judge::{RunVerdict, judge};
use kqps_verdict::warning::Code;

use super::facts::{closed, subject_busy, trial};

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A study of the echo: two I/O models with one to three workers each, and `uring` left out.
fn study() -> Run {
    let published = |io: &str, workers: &str, rate_qps| Published {
        factors: map(&[("io", io), ("workers", workers)]),
        rate_qps,
        ..Published::default()
    };
    let factor = |name: &str, values: &[&str]| Factor {
        name: name.into(),
        values: values.iter().map(|value| (*value).to_owned()).collect(),
    };
    let experiment = Experiment {
        name: "scaling".into(),
        factors: vec![factor("io", &["mmsg", "poll", "uring"]), factor("workers", &["1", "2", "3"])],
        tables: vec![Table {
            title: "Rates".into(),
            rows: vec!["io".into()],
            columns: "workers".into(),
            show: vec![Figure::Median, Figure::Published],
        }],
        charts: vec![Chart { x: "workers".into(), ..Chart::default() }],
        published: vec![
            published("mmsg", "1", 1_000.0),
            published("mmsg", "2", 1_800.0),
            published("solaris", "4", 3_000.0),
        ],
        ..Experiment::default()
    };
    let mut run = Run {
        goal: "quick".into(),
        question: Some(Question { experiments: vec![experiment], ..Question::default() }),
        skipped: map(&[("scaling: io=uring", "the kernel forbids it")]),
        ..Run::default()
    };
    for io in ["mmsg", "poll"] {
        for workers in 1..=3 {
            run.cells.push(Cell {
                name: format!("{io} {workers}"),
                experiment: "scaling".into(),
                subject: "echo".into(),
                load: CellLoad::Closed(1.0),
                io: io.into(),
                workers,
                player_cpus: vec![0],
                subject_cpus: vec![1],
                factors: Factors::read(map(&[("io", io), ("workers", &workers.to_string())])).unwrap(),
                ..Cell::default()
            });
        }
    }
    run
}

fn push(run: &mut Run, cell: u32, block: u32, purpose: Purpose, outcome: Outcome) {
    let number = run.trials.len() as u64 + 1;
    let start = u64::from(block * 100 + cell);
    run.trials.push(RunTrial { number, cell, block, start, purpose, outcome });
}

fn measured(trial: Trial) -> Outcome {
    Outcome::Measured(Box::new(trial))
}

fn died() -> Outcome {
    Outcome::Failed { reason: "it died".into(), output: vec!["out of memory".into()] }
}

/// Ten starts of every cell except the last two: `poll 2` dies each time, and `poll 3` never begins.
fn played() -> Run {
    let mut run = study();
    for block in 0..10 {
        for (cell, rate_qps) in [(0, 100e3), (1, 180e3), (2, 240e3), (3, 80e3)] {
            let mut trial = closed(rate_qps + f64::from(block) * 100.0);
            subject_busy(&mut trial, 0.99);
            trial.subject.as_mut().unwrap().cpu_user_s = trial.accounts.correct as f64 / 1e6 * 4.0;
            trial.subject.as_mut().unwrap().rss_bytes = 7 << 20;
            push(&mut run, cell, block, Purpose::WarmUp, measured(closed(1.0)));
            push(&mut run, cell, block, Purpose::Closed, measured(trial));
        }
        push(&mut run, 4, block, Purpose::Closed, died());
    }
    run
}

fn near(figure: Option<f64>, wanted: f64) -> bool {
    figure.is_some_and(|figure| (figure / wanted - 1.0).abs() < 1e-9)
}

#[test]
fn a_closed_loop_gets_a_figure_a_bottleneck_and_a_grade() {
    let verdict = judge(&played());
    let mmsg = &verdict.subjects[0];
    let figure = mmsg.figure_qps.unwrap();
    assert_eq!((figure.count, figure.median), (10, 100_450.0));
    assert!(figure.low > 100_000.0 && figure.high < 100_900.0, "the second to the ninth: {figure:?}");
    assert_eq!(mmsg.bottleneck.resource, Resource::SubjectCpu);
    assert_eq!(mmsg.grade, Grade::C);
    assert_eq!(mmsg.warnings.iter().map(|warning| warning.code).collect::<Vec<_>>(), [Code::SingleHost]);
    assert_eq!((mmsg.ceiling.as_deref(), mmsg.ceiling_share), (Some("mmsg 1"), Some(1.0)));
    assert_eq!(mmsg.trials.len(), 10, "warm-ups are not behind the figure");
    let spread = verdict.figures[0].spread_qps.unwrap();
    assert_eq!((spread.min, spread.mean, spread.max), (100_000.0, 100_450.0, 100_900.0));
    assert!(near(verdict.figures[0].cpu_s_per_million, 4.0));
    assert_eq!(verdict.figures[0].memory, Some(Memory { bytes: 7 << 20, proportional: false }));
}

#[test]
fn a_player_that_is_full_in_a_closed_loop_is_warned_of() {
    let mut run = study();
    for block in 0..6 {
        let mut trial = closed(100e3);
        trial.players.first.per_thread[0].busy = 0.99;
        push(&mut run, 0, block, Purpose::Closed, measured(trial));
    }
    let verdict = judge(&run).subjects.remove(0);
    assert_eq!(verdict.bottleneck.resource, Resource::Player);
    assert!(verdict.warnings.iter().any(|warning| warning.code == Code::PlayerLimited));
}

#[test]
fn an_echo_of_the_study_is_the_ceiling_of_a_server_beside_it() {
    let mut run = played();
    let nsd = Cell { subject: "nsd".into(), name: "nsd".into(), ..run.cells[1].clone() };
    run.cells.push(nsd);
    let cell = run.cells.len() as u32 - 1;
    push(&mut run, cell, 0, Purpose::Closed, measured(closed(90_225.0)));
    let verdict = judge(&run).subjects.pop().unwrap();
    assert_eq!(verdict.ceiling.as_deref(), Some("mmsg 2"));
    assert!(near(verdict.ceiling_share, 0.5));
}

#[test]
fn efficiency_is_held_against_one_worker_measured_and_published() {
    let verdict = judge(&played());
    assert!(near(verdict.figures[0].efficiency, 1.0));
    assert!(near(verdict.figures[1].efficiency, 180_450.0 / 200_900.0));
    assert!(near(verdict.figures[1].published_efficiency, 0.9));
    assert_eq!(verdict.figures[2].published_efficiency, None);
    assert_eq!(verdict.figures[4].efficiency, None, "it crashed");
}

#[test]
fn without_one_worker_there_is_no_efficiency() {
    let mut run = played();
    run.trials.retain(|trial| trial.cell != 0);
    assert_eq!(judge(&run).figures[1].efficiency, None);
}

#[test]
fn more_workers_may_have_more_cores() {
    let mut run = played();
    for (cell, cores) in [(0, "1"), (1, "1,2")] {
        run.cells[cell].factors.set("cores", cores).unwrap();
    }
    assert!(near(judge(&run).figures[1].efficiency, 180_450.0 / 200_900.0));
}

#[test]
fn processes_times_threads_are_workers_too() {
    let mut run = played();
    for (cell, processes, threads) in [(0, "1", "1"), (1, "2", "1"), (2, "2", "2")] {
        let words = map(&[("io", "mmsg"), ("processes", processes), ("threads", threads)]);
        run.cells[cell].factors = Factors::read(words).unwrap();
    }
    let verdict = judge(&run);
    assert!(near(verdict.figures[2].efficiency, 240_450.0 / (4.0 * 100_450.0)));
}

#[test]
fn a_cell_that_crashed_and_one_never_begun_say_so() {
    let verdict = judge(&played());
    let states: Vec<State> = verdict.figures.iter().map(|one| one.state).collect();
    assert_eq!(states[3..], [State::Measured, State::Crashed, State::NotMeasured]);
    assert_eq!(verdict.figures[4].crashes.len(), 10);
    assert_eq!(verdict.figures[4].crashes[0].output, ["out of memory"]);
    assert_eq!(
        verdict.subjects[5].reasons,
        ["It was never tried: the run or its budget ended before it began."]
    );
}

fn shown(run: &Run, verdict: &RunVerdict, grid: &Grid) -> Vec<Vec<String>> {
    let slot = |slot: &kqps_verdict::figure::Slot| match (slot.figures, &slot.absence) {
        (Some(index), _) => run.cells[verdict.figures[index].cell as usize].name.clone(),
        (None, Some(Absence::Skipped(why))) => why.clone(),
        (None, _) => "-".to_owned(),
    };
    grid.lines
        .iter()
        .map(|line| line.values.iter().cloned().chain(line.slots.iter().map(slot)).collect())
        .collect()
}

#[test]
fn a_table_holds_what_was_measured_left_out_and_published() {
    let run = played();
    let verdict = judge(&run);
    let experiment = &run.question.as_ref().unwrap().experiments[0];
    let grid = tables_of(&run, &verdict.figures, experiment).remove(0);
    assert_eq!(grid.column_values, ["1", "2", "3", "4"], "what was published counts");
    let left_out = "the kernel forbids it";
    assert_eq!(
        shown(&run, &verdict, &grid),
        [
            ["mmsg", "mmsg 1", "mmsg 2", "mmsg 3", "-"],
            ["poll", "poll 1", "poll 2", "poll 3", "-"],
            ["uring", left_out, left_out, left_out, left_out],
            ["solaris", "-", "-", "-", "-"],
        ]
    );
    let published = |line: usize| -> Vec<f64> {
        grid.lines[line].slots.iter().filter_map(|slot| Some(slot.published.as_ref()?.rate_qps)).collect()
    };
    assert_eq!((published(0), published(3)), (vec![1_000.0, 1_800.0], vec![3_000.0]));
}

#[test]
fn a_chart_that_names_too_few_series_gets_those_that_distinguish_cells() {
    let run = played();
    let verdict = judge(&run);
    let chart = charts_of(&run, &verdict.figures, &run.question.as_ref().unwrap().experiments[0]).remove(0);
    assert_eq!((chart.rows, chart.columns), (vec!["io".to_owned()], "workers".to_owned()));
}

#[test]
fn fixed_rates_give_the_highest_that_holds_and_latency_at_its_half() {
    let mut run = Run { goal: "quick".into(), cells: vec![Cell::default()], ..Run::default() };
    run.cells[0].role = Role::Subject;
    run.cells[0].load = CellLoad::Rates { rates_qps: vec![50e3, 100e3, 150e3, 160e3], duration_s: 1.0 };
    for (rate_qps, lost) in [(50e3, 0), (100e3, 10), (150e3, 5_000), (160e3, 0)] {
        let mut trial = trial(rate_qps, lost);
        let mut latency = Histogram::default();
        latency.record_many_us(rate_qps as u64 / 1000, 20_000);
        trial.histograms.insert("latency".into(), latency.encode());
        let threads = &mut trial.subject.as_mut().unwrap().threads;
        for (number, thread) in threads.iter_mut().enumerate() {
            (thread.name, thread.cpu_s) = (format!("front {number}"), 0.3);
        }
        let mut idle = threads[0].clone();
        (idle.name, idle.cpu_s) = ("health".to_owned(), 0.002);
        threads.push(idle);
        push(&mut run, 0, 0, Purpose::Rate, measured(trial));
    }
    let verdict = judge(&run);
    let subject = &verdict.subjects[0];
    assert_eq!((subject.lower_bound_qps, subject.upper_bound_qps), (Some(100e3), Some(150e3)));
    assert!(near(subject.figure_qps.map(|figure| figure.median), 99_990.0));
    let figures = &verdict.figures[0];
    assert_eq!(figures.p99_at_half_us, Some(50));
    // The trials behind the figure are those at its rate.
    assert_eq!(figures.latency_us, Some(Latency { mean: 100.0, p99: Some(100) }));
    assert!(near(figures.lost_share, 10.0 / 100_000.0));
    let [(kind, cpu_s)] = figures.cpu_by_thread.as_slice() else { panic!("{:?}", figures.cpu_by_thread) };
    assert_eq!(kind, "front", "its threads differ in nothing but a number, and one hardly ran");
    assert!(near(Some(*cpu_s), 2.0 * 0.3 / 0.099_990));

    run.trials.truncate(2);
    let verdict = judge(&run).subjects.remove(0);
    assert_eq!(verdict.upper_bound_qps, None);
    assert!(verdict.warnings.iter().any(|warning| warning.code == Code::Irregular));
}

#[test]
fn what_the_player_spoiled_and_made_anew_is_no_latency_of_the_subjects() {
    let mut run = Run { goal: "quick".into(), cells: vec![Cell::default()], ..Run::default() };
    run.cells[0].role = Role::Subject;
    run.cells[0].load = CellLoad::Rates { rates_qps: vec![50e3, 100e3], duration_s: 1.0 };
    // The run was cut short, and another start repeated it.
    let played = [(1, 50e3, 9_000, 3), (2, 50e3, 50, 0), (2, 100e3, 100, 0)];
    for (start, rate_qps, latency_us, socket_drops) in played {
        let mut trial = trial(rate_qps, 0);
        let mut latency = Histogram::default();
        latency.record_many_us(latency_us, 20_000);
        trial.histograms.insert("latency".into(), latency.encode());
        trial.players.first.socket_drops = socket_drops;
        push(&mut run, 0, 0, Purpose::Rate, measured(trial));
        run.trials.last_mut().unwrap().start = start;
    }
    let verdict = judge(&run);
    let point = &verdict.subjects[0].latency[0];
    assert_eq!((point.latency_us.p99, point.trials.as_slice()), (Some(50), &[2][..]));
    assert_eq!(verdict.figures[0].p99_at_half_us, Some(50));
}

/// A lost query counts as the timeout, 250 ms here, in the histogram of latencies.
#[test]
fn a_timeout_and_a_spoiled_trial_are_no_latency_at_half_load() {
    let p99_of = |lost: u64, socket_drops: u64, stood_still: bool| {
        let mut run = Run { goal: "quick".into(), cells: vec![Cell::default()], ..Run::default() };
        run.cells[0].role = Role::Subject;
        run.cells[0].load = CellLoad::Rates { rates_qps: vec![100e3, 150e3], duration_s: 1.0 };
        let played =
            [(50e3, lost, Purpose::Latency), (100e3, 0, Purpose::Rate), (150e3, 5_000, Purpose::Rate)];
        for (rate_qps, lost, purpose) in played {
            let mut trial = trial(rate_qps, lost);
            let mut latency = Histogram::default();
            latency.record_many_us(60, trial.accounts.sent - lost);
            latency.record_many_us(250_000, lost);
            trial.histograms.insert("latency".into(), latency.encode());
            let is_at_half = purpose == Purpose::Latency;
            trial.players.first.socket_drops = if is_at_half { socket_drops } else { 0 };
            let beside = kqps_observation::trial::Beside { cpu_s: 10.0, ..Default::default() };
            trial.beside = if stood_still && is_at_half { vec![beside] } else { Vec::new() };
            push(&mut run, 0, 0, purpose, measured(trial));
        }
        judge(&run).figures[0].p99_at_half_us
    };
    assert_eq!(p99_of(499, 0, false), Some(60), "fewer than 1 %");
    assert_eq!(p99_of(500, 0, false), None, "1 % of 50,000");
    assert_eq!(p99_of(10, 3, false), None, "the player spoiled it");
    assert_eq!(p99_of(10, 0, true), None, "the host spoiled it");
}

#[test]
fn what_is_the_best_of_several_cells_is_no_figure_of_one() {
    let mut run = played();
    let plain = judge(&run).figures;
    let best = Published {
        factors: map(&[("io", "mmsg")]),
        rate_qps: 9_999.0,
        best: true,
        note: "read off a chart".into(),
    };
    run.question.as_mut().unwrap().experiments[0].published.push(best);
    let experiment = &run.question.as_ref().unwrap().experiments[0];
    let figures = judge(&run).figures;
    assert_eq!(figures, plain);
    let found = best_of(&run, &figures, experiment);
    let of_mmsg =
        |index: usize| factor(&run.cells[figures[index].cell as usize], "io").as_deref() == Some("mmsg");
    let highest = (0..figures.len())
        .filter(|index| of_mmsg(*index))
        .filter_map(|index| Some((index, figures[index].median_qps?.median)));
    let highest = highest.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(index, _)| index);
    assert_eq!((found.len(), found[0].measured, found[0].published.rate_qps), (1, highest, 9_999.0));
    assert!(highest.is_some());
}

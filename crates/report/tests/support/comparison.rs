//! A run that compares two servers, of which the new one is 5 % slower.

use kqps_observation::factors::ComparedAs;
use kqps_observation::run::{CellLoad, Outcome, Purpose};
use kqps_observation::{Run, RunTrial};

use super::sample;
use super::simulated::Simulated;

/// Ten blocks, each with two starts of the old server and one of the new.
pub(crate) fn run() -> Run {
    let frame = sample::run();
    let template = frame.cells.last().expect("the sample has cells").clone();
    let cell = |name: &str, part| {
        let mut cell = template.clone();
        (cell.name, cell.subject, cell.load) = (name.to_owned(), "server".to_owned(), CellLoad::Closed(1.0));
        cell.factors.set_compared_as(part);
        cell
    };
    let cells =
        vec![cell("old", ComparedAs::A), cell("old again", ComparedAs::Again), cell("new", ComparedAs::B)];
    let mut run = Run { study: "compare".to_owned(), blocks: 10, cells, trials: Vec::new(), ..frame };
    for block in 0..10_u32 {
        for cell in 0..3 {
            // Starts differ by up to ± 0.4 %.
            let spread = f64::from((block * block * 3 + block * 5 + cell * 7) % 17) / 2000.0 - 0.004;
            let share = if cell == 2 { 0.95 } else { 1.0 };
            let capacity_qps = 200_000.0 * share * (1.0 + spread);
            let simulated = Simulated { capacity_qps, alone_us: 40.0, wrong_per_mille: 0, thread: "server" };
            let trial = simulated.trial(None, 1.0, Purpose::Closed);
            let number = run.trials.len() as u64 + 1;
            run.trials.push(RunTrial {
                number,
                cell,
                block,
                start: number,
                purpose: Purpose::Closed,
                outcome: Outcome::Measured(Box::new(trial)),
            });
        }
    }
    run
}

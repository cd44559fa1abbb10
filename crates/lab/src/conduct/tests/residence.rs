//! Trials in which packets are stamped: one for a cell that has a load, and the reason for a cell that has none.

use super::*;
use crate::residence;

fn cell(name: &str, rates_qps: &[f64]) -> observation::Cell {
    let load = CellLoad::Rates { rates_qps: rates_qps.to_vec(), duration_s: 0.1 };
    observation::Cell { name: name.into(), load, residence: true, ..observation::Cell::default() }
}

#[test]
fn the_residence_of_a_cell_is_measured_once_at_half_of_the_load_that_held_or_the_run_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let cells =
        vec![cell("swift", &[1_000.0, 40_000.0]), cell("slow", &[100_000.0]), cell("broken", &[1_000.0])];
    let plan = Run { goal: "quick".into(), blocks: 2, seed: 7, cells, ..Run::default() };
    let store = Store::create(&folder.path().join("run.sqlite"), &plan).unwrap();
    let mut trials = 0;
    for _ in 0..2 {
        conduct(&store, None, &|| Ok(()), &mut |_| ()).unwrap();
        let run = store.run().unwrap();
        let stamped: Vec<_> = run.trials.iter().filter(|one| one.purpose == Purpose::Residence).collect();
        let rates =
            stamped.iter().map(|one| (one.cell, one.block, one.measured().unwrap().load.intended_qps));
        assert_eq!(rates.collect::<Vec<_>>(), [(0, 0, Some(20_000.0))]);
        let skipped: Vec<_> = run.skipped.iter().map(|(what, why)| (what.as_str(), why.as_str())).collect();
        assert_eq!(
            skipped,
            [("residence of slow", residence::NO_LOAD)],
            "a cell that failed has its own reason"
        );
        assert!(trials == 0 || trials == run.trials.len(), "nothing is left to be done");
        trials = run.trials.len();
    }
}

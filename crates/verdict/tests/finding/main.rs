//! Findings whose answer is known: cells are made with effects that the test chose.

use kqps_verdict::finding::{FactorCell, Finding, Outcome, Quantity, find};

/// Starts scatter by ±1 %, evenly around the figure.
const STARTS: [f64; 6] = [0.99, 0.994, 0.998, 1.002, 1.006, 1.01];

/// Cells over `io` and `workers`. `rate` gives the rate of each; 0 is refused.
fn found(starts: &[f64], rate: impl Fn(&str, &str) -> f64) -> Finding {
    let factors = ["io".to_owned(), "workers".to_owned()];
    let mut cells = Vec::new();
    for io in ["mmsg", "uring"] {
        for workers in ["1", "2", "4"] {
            let rate = rate(io, workers);
            let values = vec![io.to_owned(), workers.to_owned()];
            let starts =
                if rate > 0.0 { starts.iter().map(|share| rate * share).collect() } else { Vec::new() };
            cells.push(FactorCell { values, starts });
        }
    }
    find(Quantity::Rate, &factors, &cells)
}

fn words(finding: &Finding) -> String {
    finding.to_string().replace('\u{a0}', " ")
}

#[test]
fn the_one_factor_that_matters_is_named_with_its_ratio_and_interval() {
    let finding = found(&STARTS, |io, _| if io == "uring" { 130e3 } else { 100e3 });
    let Outcome::Mattered { most, others, interaction } = &finding.outcome else { panic!("{finding:?}") };
    assert_eq!((most.factor.as_str(), most.greater.as_str(), most.lesser.as_str()), ("io", "uring", "mmsg"));
    assert!((most.ratio.1 - 1.3).abs() < 1e-9 && most.ratio.0 > 1.28 && most.ratio.2 < 1.32, "{most:?}");
    assert_eq!((most.pairs, others.len(), interaction), (3, 0, &None));
    let said = words(&finding);
    assert!(
        said.starts_with("io mattered most: with uring the rate is 1.300 times that with mmsg ("),
        "{said}"
    );
    assert!(said.ends_with(", 3 pairs of cells), and no other factor mattered beyond the MDE."), "{said}");
}

#[test]
fn none_matters_below_what_can_be_detected_and_the_sentence_says_how_much_that_is() {
    let finding =
        found(&STARTS, |io, workers| 100e3 * if io == "uring" && workers == "4" { 1.002 } else { 1.0 });
    let Outcome::None(greatest) = &finding.outcome else { panic!("{finding:?}") };
    assert!(
        greatest.ratio.0 < 1.0 && greatest.ratio.2 > 1.0 && (0.005..0.03).contains(&greatest.mde),
        "{greatest:?}"
    );
    let said = words(&finding);
    assert!(
        said.starts_with(
            "No factor mattered beyond the MDE: the greatest difference of the rate is 0.1 %, of "
        ),
        "{said}"
    );
    assert!(said.ends_with("% would be found."), "{said}");
}

#[test]
fn a_second_factor_that_matters_comes_after_the_first() {
    let by_workers = |workers: &str| match workers {
        "1" => 1.0,
        "2" => 1.9,
        _ => 3.5,
    };
    let finding =
        found(&STARTS, |io, workers| 100e3 * by_workers(workers) * if io == "uring" { 1.2 } else { 1.0 });
    let Outcome::Mattered { most, others, interaction } = &finding.outcome else { panic!("{finding:?}") };
    assert_eq!((most.factor.as_str(), most.greater.as_str(), most.lesser.as_str()), ("workers", "4", "1"));
    assert!((most.ratio.1 - 3.5).abs() < 1e-9);
    assert_eq!((others.len(), others[0].factor.as_str(), interaction), (1, "io", &None));
    assert!(words(&finding).contains("; after it io (uring to mmsg: 1.200 times, "), "{finding}");
}

#[test]
fn two_factors_that_interact_are_both_named() {
    let with_4 = |io: &str, workers: &str| if io == "uring" && workers == "4" { 1.5 } else { 1.0 };
    let finding = found(&STARTS, |io, workers| 100e3 * with_4(io, workers));
    let Outcome::Mattered { most, interaction: Some(depends), .. } = &finding.outcome else {
        panic!("{finding:?}")
    };
    assert_eq!((&depends.of, depends.greatest.1 > 1.2), (most, true), "{finding:?}");
    assert!(words(&finding).contains("it depends on the rest: 1.000 times with "), "{finding}");
    // What one value gains, the other loses: no factor matters on the average.
    let crossed = |io: &str, workers: &str| match (io, workers) {
        ("uring", "1") | ("mmsg", "4") => 1.2,
        ("uring", "4") | ("mmsg", "1") => 1.0,
        _ => 1.1,
    };
    let finding = found(&STARTS, |io, workers| 100e3 * crossed(io, workers));
    let Outcome::Together(depends) = &finding.outcome else { panic!("{finding:?}") };
    assert!((depends.greatest.1 / depends.least.1 - 1.44).abs() < 1e-9, "{depends:?}");
    assert!(words(&finding).starts_with("No factor mattered by itself, but "), "{finding}");
}

#[test]
fn refused_cells_are_left_out_and_counted() {
    let finding = found(&STARTS, |io, workers| match (io, workers) {
        ("uring", "2" | "4") => 0.0,
        ("uring", _) => 130e3,
        _ => 100e3,
    });
    let Outcome::Mattered { most, .. } = &finding.outcome else { panic!("{finding:?}") };
    assert_eq!((most.factor.as_str(), most.pairs), ("io", 1));
    assert!(words(&finding).ends_with("; 2 of 6 cells have no number and are left out."), "{finding}");
    let none = found(&STARTS, |_, _| 0.0);
    assert_eq!(
        (&none.outcome, words(&none).as_str()),
        (&Outcome::NoNumber, "No cell has a number, so nothing was found.")
    );
    let apart = found(
        &STARTS,
        |io, workers| if (io == "uring") == (workers == "2") && workers != "4" { 1e5 } else { 0.0 },
    );
    assert_eq!(apart.outcome, Outcome::NoPair, "{apart:?}");
}

#[test]
fn one_start_for_each_cell_has_no_interval() {
    let finding = found(&[1.0], |io, _| if io == "uring" { 130e3 } else { 100e3 });
    let Outcome::NoInterval(greatest) = &finding.outcome else { panic!("{finding:?}") };
    assert_eq!(greatest.factor, "io");
    assert!(
        words(&finding)
            .contains("since each cell has one start: the greatest difference of the rate is 30.0 %"),
        "{finding}"
    );
}

/// Equals: at most one in twenty of such experiments may name a factor.
#[test]
fn noise_alone_seldom_names_a_factor() {
    let mut random = fastrand::Rng::with_seed(3);
    let mut named = 0;
    for _ in 0..400 {
        let factors = ["io".to_owned(), "workers".to_owned()];
        let mut cells = Vec::new();
        for io in ["a", "b"] {
            for workers in ["1", "2", "3"] {
                // The sum of twelve even values is nearly normal.
                let mut start = || 1e5 * (0.02 * ((0..12).map(|_| random.f64()).sum::<f64>() - 6.0)).exp();
                let starts = (0..6).map(|_| start()).collect();
                cells.push(FactorCell { values: vec![io.to_owned(), workers.to_owned()], starts });
            }
        }
        let finding = find(Quantity::Rate, &factors, &cells);
        named += u32::from(matches!(finding.outcome, Outcome::Mattered { .. }));
    }
    // 20 are the most that are expected; 34 or more have a probability below 0.002 then.
    assert!(named <= 33, "{named}");
}

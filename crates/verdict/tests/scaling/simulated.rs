//! Simulated series with known constants: the intervals hold the truth as often as they say.

use super::series::{FAMILIES, NUMBERS};

/// The number of series of each kind: a few in the tests, and a thousand with `KQPS_RUNS=1000` and in
/// `cargo xtask prove judgement`.
fn runs() -> u64 {
    std::env::var("KQPS_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

#[test]
fn the_intervals_hold_the_truth_as_often_as_they_say() {
    let runs = runs();
    let mut wrong = Vec::new();
    for family in &FAMILIES {
        for (what, share) in NUMBERS.iter().zip(family.shares(runs)) {
            println!("{}: {what}: {:.1} % hold the truth", family.name, share * 100.0);
            if !family.right(runs).contains(&share) {
                wrong.push(format!("{}: {what}: {share}", family.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

//! The four verdicts, each from ratios that leave no other.

use kqps_verdict::compare::{Case, Comparison, Figure, Outcome, compare};

/// Six ABBA blocks around a ratio, spread by ± `spread`.
fn blocks(ratio: f64, spread: f64) -> Vec<Vec<f64>> {
    let offsets = [-1.0, 0.6, -0.2, 0.3, 1.0, -0.7];
    offsets.map(|offset| vec![ratio * (1.0 + offset * spread), ratio * (1.0 - offset * spread * 0.9)]).into()
}

fn judged(figure: Figure, ratio: f64, spread: f64) -> Comparison {
    // A against itself within ± 0.5 %, which makes an MDE of about 1 %.
    let same = [0.005, -0.004, 0.004, -0.005, 0.005, -0.003].map(|log: f64| vec![log.exp(); 2]).into();
    let case = Case { blocks: blocks(ratio, spread), same, figure, ..Case::default() };
    compare(&[case], 7).remove(0)
}

#[test]
fn all_four_are_given() {
    let outcome = |ratio, spread| judged(Figure::AnsweredRate, ratio, spread).outcome;
    assert_eq!(outcome(1.05, 0.005), Outcome::Faster);
    assert_eq!(outcome(0.95, 0.005), Outcome::Slower);
    assert_eq!(outcome(1.001, 0.003), Outcome::Equivalent);
    assert_eq!(outcome(1.01, 0.03), Outcome::Inconclusive);
}

#[test]
fn less_time_is_faster() {
    assert_eq!(judged(Figure::CpuPerAnswer, 1.05, 0.005).outcome, Outcome::Slower);
    assert_eq!(judged(Figure::P99Latency, 0.95, 0.005).outcome, Outcome::Faster);
}

#[test]
fn a_difference_below_the_mde_is_none_however_narrow_its_interval() {
    let small = judged(Figure::AnsweredRate, 0.996, 0.001);
    assert!(small.ratio.unwrap().high < 1.0, "the interval excludes 1");
    assert_eq!(small.outcome, Outcome::Equivalent);
    let caveat = small.caveat().unwrap();
    assert!(
        caveat.contains("has 0.4 % less answered rate, with the whole interval on one side of 1"),
        "{caveat}"
    );
}

#[test]
fn equals_say_that_a_difference_cannot_be_told_where_it_would_have_to_be_large() {
    let of_mde = |log: f64| {
        let same = [log, -log].repeat(3).into_iter().map(|log| vec![log.exp(); 2]).collect();
        let blocks = blocks(1.0, 0.003);
        compare(&[Case { blocks, same, ..Case::default() }], 7).remove(0)
    };
    let (coarse, fine) = (of_mde(0.1), of_mde(0.01));
    assert_eq!([coarse.outcome, fine.outcome], [Outcome::Equivalent; 2]);
    assert_eq!(coarse.caveat().unwrap(), "A difference of up to 27.7 % cannot be told from none here.");
    assert_eq!(fine.caveat(), None, "{:?}", fine.mde);
    let slower = judged(Figure::AnsweredRate, 0.8, 0.005);
    assert_eq!((slower.outcome, slower.caveat()), (Outcome::Slower, None));
}

#[test]
fn without_blocks_enough_there_is_no_verdict_and_the_number_missing_is_told() {
    let whole = judged(Figure::AnsweredRate, 0.8, 0.001).case;
    for count in 0..6 {
        let few = Case { blocks: whole.blocks[..count].to_vec(), ..whole.clone() };
        let judged = compare(&[few], 7).remove(0);
        assert_eq!(judged.outcome, Outcome::Inconclusive);
        assert_eq!(judged.more_blocks, Some(6 - count as u32));
        // Three blocks of two ratios are enough for an interval, and so for an estimate.
        assert_eq!(judged.more_at_least, count < 3);
        let said = if count < 3 { "cannot be told yet; at least" } else { "would tell." };
        assert!(judged.to_string().contains(said), "{judged}");
    }
    let without_mde = compare(&[Case { same: Vec::new(), ..whole }], 7).remove(0);
    assert_eq!((without_mde.outcome, without_mde.mde), (Outcome::Inconclusive, None));
}

/// Six blocks of one start each are just enough for one comparison, and not for two.
#[test]
fn what_is_compared_together_must_be_surer() {
    let one = judged(Figure::AnsweredRate, 0.9, 0.001).case;
    let short = Case { blocks: one.blocks.iter().map(|ratios| ratios[..1].to_vec()).collect(), ..one };
    assert_eq!(compare(std::slice::from_ref(&short), 7)[0].outcome, Outcome::Slower);
    let both = compare(&[short.clone(), short.clone()], 7);
    assert_eq!((both[0].outcome, both[0].more_blocks), (Outcome::Inconclusive, Some(1)));
    let longer = Case { blocks: [short.blocks.clone(), short.blocks[..1].to_vec()].concat(), ..short };
    assert!(compare(&[longer.clone(), longer], 7).iter().all(|it| it.outcome == Outcome::Slower));
}

#[test]
fn the_same_seed_gives_the_same_and_it_survives_being_stored() {
    let judged = judged(Figure::AnsweredRate, 1.01, 0.03);
    assert_eq!(compare(std::slice::from_ref(&judged.case), 7)[0], judged);
    let stored = serde_json::to_string(&judged).unwrap();
    assert_eq!(serde_json::from_str::<Comparison>(&stored).unwrap(), judged);
}

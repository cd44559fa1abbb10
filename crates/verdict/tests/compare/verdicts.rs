//! The four verdicts, each from ratios that allow no other.

use kqps_verdict::compare::{Case, Comparison, Figure, Outcome, compare};

/// Six blocks around a ratio, spread by ± `spread`.
fn blocks(ratio: f64, spread: f64) -> Vec<f64> {
    [-1.0, 0.6, -0.2, 0.3, 1.0, -0.7].map(|offset| ratio * (1.0 + offset * spread)).into()
}

fn judged(figure: Figure, ratio: f64, spread: f64) -> Comparison {
    // A against itself within ± 0.5 %.
    let same = [0.005, -0.004, 0.004, -0.005, 0.005, -0.003].map(f64::exp).into();
    let (a, b) = ("old".into(), "new".into());
    let case = Case { a, b, blocks: blocks(ratio, spread), same, figure, ..Case::default() };
    compare(&[case]).remove(0)
}

#[test]
fn all_four_are_given() {
    let outcome = |ratio, spread| judged(Figure::AnsweredRate, ratio, spread).outcome;
    assert_eq!(outcome(1.05, 0.005), Outcome::Faster);
    assert_eq!(outcome(0.95, 0.005), Outcome::Slower);
    assert_eq!(outcome(1.001, 0.003), Outcome::Equivalent);
    assert_eq!(outcome(1.034, 0.03), Outcome::Inconclusive);
}

#[test]
fn less_time_is_faster() {
    assert_eq!(judged(Figure::CpuPerAnswer, 1.05, 0.005).outcome, Outcome::Slower);
    assert_eq!(judged(Figure::P99Latency, 0.95, 0.005).outcome, Outcome::Faster);
}

#[test]
fn a_difference_below_the_mde_is_none_however_narrow_its_interval() {
    let small = judged(Figure::AnsweredRate, 0.9985, 0.001);
    assert!(small.ratio.unwrap().high < 1.0, "the interval excludes 1");
    assert_eq!(small.outcome, Outcome::Equivalent);
    let caveat = small.caveat().unwrap();
    assert!(
        caveat
            .contains("new has 0.2 % less answered rate than old, with the whole interval on one side of 1"),
        "{caveat}"
    );
    let expected = format!(
        "equivalent: new differs from old in answered rate by less than {:.1} %, the least that could be seen.",
        small.mde.unwrap() * 100.0
    );
    assert_eq!(small.to_string(), expected);
}

#[test]
fn a_great_difference_is_a_factor() {
    let said = |figure, by| judged(figure, by, 0.005).to_string();
    let expected = "faster: new has 3.40 times the answered rate of old.";
    assert_eq!(said(Figure::AnsweredRate, 3.4), expected);
    assert_eq!(said(Figure::CpuPerAnswer, 3.4), "slower: new has 3.40 times the CPU time per answer of old.");
    assert_eq!(said(Figure::P99Latency, 0.2), "faster: new has 80.0 % less p99 latency than old.");
    assert_eq!(said(Figure::AnsweredRate, 1.0 / 930.0), "slower: new has 1/930 of the answered rate of old.");
}

/// Six blocks of equals on a noisy host: the MDE is 20 %.
#[test]
fn equals_that_could_hide_more_than_five_percent_are_inconclusive() {
    let of_mde = |log: f64| {
        let same = [log, -log].repeat(3).into_iter().map(f64::exp).collect();
        let blocks = blocks(1.0, 0.003);
        compare(&[Case { blocks, same, ..Case::default() }]).remove(0)
    };
    let (coarse, fine) = (of_mde(0.1), of_mde(0.01));
    assert_eq!([coarse.outcome, fine.outcome], [Outcome::Inconclusive, Outcome::Equivalent]);
    let said = coarse.to_string();
    let head = "inconclusive: this comparison of the answered rate of  and  cannot see a difference of less than 20.0 %; \
                about ";
    assert!(said.starts_with(head) && said.ends_with(" more blocks would decide."), "{said}");
    // With Student's t for so few blocks, 3.7 times narrower takes far fewer than 13.7 times the blocks.
    assert!((30..=60).contains(&coarse.more_blocks.unwrap()), "{:?}", coarse.more_blocks);
    assert_eq!(coarse.sees_no_less_than(), coarse.mde);
    assert_eq!((coarse.caveat(), fine.caveat(), fine.sees_no_less_than()), (None, None, None));
    // An MDE of 2 % does not show a difference of 1 %.
    assert!((0.018..0.020).contains(&fine.mde.unwrap()), "{:?}", fine.mde);
    assert_eq!(fine.seeing(0.021).outcome, Outcome::Equivalent);
    let finer = fine.seeing(0.01);
    assert_eq!((finer.outcome, finer.mde), (Outcome::Inconclusive, fine.mde));
    assert!(finer.more_blocks.is_some_and(|blocks| blocks > 1), "{:?}", finer.more_blocks);
    assert_eq!(coarse.seeing(0.5).outcome, Outcome::Inconclusive, "5 % at most");
    let slower = judged(Figure::AnsweredRate, 0.8, 0.005);
    assert_eq!((slower.outcome, slower.caveat()), (Outcome::Slower, None));
}

#[test]
fn with_too_few_blocks_there_is_no_verdict_and_the_missing_number_is_reported() {
    let whole = judged(Figure::AnsweredRate, 0.8, 0.001).case;
    for count in 0..6 {
        let few = Case { blocks: whole.blocks[..count].to_vec(), ..whole.clone() };
        let judged = compare(&[few]).remove(0);
        assert_eq!(judged.outcome, Outcome::Inconclusive);
        assert_eq!((judged.more_blocks, judged.more_at_least), (Some(6 - count as u32), true));
        let said = judged.to_string();
        assert!(said.starts_with("inconclusive: there is no verdict below 6 blocks; at least "), "{said}");
        // So few blocks have no interval, and no MDE.
        assert!(
            judged.ratio.is_none_or(
                |ratio| (ratio.low, ratio.high, ratio.coverage) == (ratio.median, ratio.median, 0.0)
            )
        );
        assert_eq!(judged.mde, None);
    }
    let without_mde = compare(&[Case { same: Vec::new(), ..whole }]).remove(0);
    assert_eq!((without_mde.outcome, without_mde.mde), (Outcome::Inconclusive, None));
}

/// Evidence that suffices for one comparison does not suffice for two.
#[test]
fn what_is_compared_together_must_be_surer() {
    // 3.85 standard errors: a single comparison claims a difference at 3.63, and one of two at 4.07.
    let case = judged(Figure::AnsweredRate, 0.97, 0.0254).case;
    assert_eq!(compare(std::slice::from_ref(&case))[0].outcome, Outcome::Slower);
    let both = compare(&[case.clone(), case.clone()]);
    assert_eq!((both[0].outcome, both[0].error_rate), (Outcome::Inconclusive, 0.025));
    assert!(both[0].to_string().contains("it is not yet known whether new differs from old"), "{}", both[0]);
    assert!(both[0].more_blocks.is_some_and(|blocks| blocks < 6), "{:?}", both[0].more_blocks);
    let longer = Case { blocks: case.blocks.repeat(2), same: case.same.repeat(2), ..case };
    assert!(compare(&[longer.clone(), longer]).iter().all(|it| it.outcome == Outcome::Slower));
}

#[test]
fn it_survives_being_stored() {
    let judged = judged(Figure::AnsweredRate, 1.01, 0.03);
    let stored = serde_json::to_string(&judged).unwrap();
    assert_eq!(serde_json::from_str::<Comparison>(&stored).unwrap(), judged);
}

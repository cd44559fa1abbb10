//! The comparison that the run was made for: the verdict, the ratio of every block, and the least detectable
//! difference.

use kqps_observation::Run;
use kqps_verdict::change::{difference, typeset};
use kqps_verdict::compare::{Comparison, LEAST_BLOCKS, Pairing};
use kqps_verdict::judge::RunVerdict;

use super::Panel;
use crate::chart::{Ratios, ratios};

/// A panel for every figure that was compared.
pub(crate) fn panels(run: &Run, verdict: &RunVerdict) -> Vec<Panel> {
    let sides =
        Pairing::from_run(run).map_or(Vec::new(), |pairing| vec![pairing.a, pairing.again, pairing.b]);
    let has_trials = |cell: &usize| run.trials_of(*cell).next().is_some();
    let of_cell = |cell: usize| (run.cells[cell].name.clone(), format!("trials-{cell}"));
    let cells: Vec<(String, String)> = sides.into_iter().filter(has_trials).map(of_cell).collect();
    let comparisons = verdict.comparisons.iter().enumerate();
    comparisons.map(|(index, comparison)| panel(index, comparison, &cells)).collect()
}

fn panel(index: usize, comparison: &Comparison, cells: &[(String, String)]) -> Panel {
    let case = &comparison.case;
    let caption = caption(comparison);
    let drawing = comparison.ratio.map_or(String::new(), |ratio| {
        ratios(&Ratios {
            id: &format!("comparison-{index}"),
            title: &format!("Ratio of {} to {} in {}, block by block", case.b, case.a, case.figure),
            description: &caption,
            blocks: &case.blocks,
            numbers: &(0..case.blocks.len()).map(|place| case.number(place)).collect::<Vec<_>>(),
            mde: comparison.mde,
            interval: (ratio.low, ratio.median, ratio.high),
        })
    });
    Panel { name: comparison.to_string(), caption, drawing, link: None, cells: cells.to_vec() }
}

fn caption(comparison: &Comparison) -> String {
    let (refusals, doubts) = comparison.case.doubts.split_at(comparison.case.refusals as usize);
    let mut sentences: Vec<String> = refusals.iter().map(|refusal| format!("Because {refusal}.")).collect();
    if let Some(ratio) = comparison.ratio.filter(|ratio| ratio.coverage == 0.0) {
        let blocks = match ratio.count {
            1 => "The ratio of one block".to_owned(),
            some => format!("The mean ratio of {some} blocks"),
        };
        sentences.push(format!(
            "{blocks} is {:.4}, which has no interval: that takes {LEAST_BLOCKS} blocks.",
            ratio.median
        ));
    } else if let Some(ratio) = &comparison.ratio {
        sentences.push(format!(
            "The mean ratio of {} blocks is {:.4}, its interval {:.4} to {:.4}, which covers the true one with {:.1}\u{a0}%.",
            ratio.count,
            ratio.median,
            ratio.low,
            ratio.high,
            ratio.coverage * 100.0
        ));
    }
    sentences.push(match comparison.mde {
        Some(mde) => {
            format!(
                "A difference of {} is found in 19 of 20 comparisons like this one: that is the MDE.",
                typeset(&difference(mde, 2))
            )
        }
        None => "There are too few blocks to know what can be detected.".to_owned(),
    });
    sentences.extend(comparison.caveat());
    sentences.extend(doubts.iter().map(|doubt| format!("Doubtful: {doubt}.")));
    sentences.join(" ")
}

#[cfg(test)]
mod tests {
    use kqps_verdict::compare::{Case, compare};

    use super::caption;

    #[test]
    fn few_blocks_have_a_ratio_and_no_interval() {
        let of =
            |blocks: &[f64]| caption(&compare(&[Case { blocks: blocks.to_vec(), ..Case::default() }])[0]);
        let none = "which has no interval: that takes 6 blocks.";
        assert!(of(&[1.016]).starts_with(&format!("The ratio of one block is 1.0160, {none}")));
        assert!(of(&[1.016; 5]).starts_with(&format!("The mean ratio of 5 blocks is 1.0160, {none}")));
        assert!(of(&[1.016; 6]).contains("its interval "));
    }
}

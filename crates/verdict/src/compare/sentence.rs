//! A comparison in one sentence, the verdict first, as terminals and pages print it; and a second sentence if a
//! difference shows that is smaller than the MDE.

use std::fmt;

use super::{Case, Comparison, LEAST_BLOCKS, Outcome};
use crate::change::{Form, difference, times};

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (a, b, figure) = (&self.case.a, &self.case.b, self.case.figure);
        if self.case.refusal().is_some() {
            return write!(
                f,
                "inconclusive: nothing is shown of the {figure} of {b} and {a}, and more blocks would not help."
            );
        }
        match self.outcome {
            Outcome::Faster | Outcome::Slower => {
                let ratio = self.ratio.map_or(1.0, |ratio| ratio.median);
                write!(f, "{}: {}.", self.outcome, self.beside(ratio))
            }
            Outcome::Equivalent => {
                let least = difference(self.mde.unwrap_or(f64::INFINITY), 1);
                write!(
                    f,
                    "equivalent: {b} differs from {a} in {figure} by less than {least}, the least that could be seen."
                )
            }
            Outcome::Inconclusive => {
                if self.case.blocks.len() < LEAST_BLOCKS as usize {
                    write!(f, "inconclusive: there is no verdict below {LEAST_BLOCKS} blocks; ")?;
                } else if let Some(mde) = self.sees_no_less_than() {
                    let least = difference(mde, 1);
                    write!(
                        f,
                        "inconclusive: this comparison of the {figure} of {b} and {a} cannot see a difference of less \
                         than {least}; "
                    )?;
                } else {
                    write!(
                        f,
                        "inconclusive: it is not yet known whether {b} differs from {a} in {figure}; "
                    )?;
                }
                match self.more_blocks {
                    Some(1) if self.more_at_least => f.write_str("at least one more block is needed."),
                    Some(blocks) if self.more_at_least => {
                        write!(f, "at least {blocks} more blocks are needed.")
                    }
                    Some(1) => f.write_str("about one more block would decide."),
                    Some(blocks) => write!(f, "about {blocks} more blocks would decide."),
                    None => f.write_str("how many more blocks would decide is not known."),
                }
            }
        }
    }
}

impl Comparison {
    /// A difference that shows although it is smaller than the MDE, as a sentence. `None` if none shows, and for a
    /// verdict of a difference.
    pub fn caveat(&self) -> Option<String> {
        let ratio = self.ratio?;
        let is_within = self.outcome == Outcome::Equivalent || self.sees_no_less_than().is_some();
        (is_within && (ratio.low > 1.0 || ratio.high < 1.0)).then(|| {
            format!(
                "{}, with the whole interval on one side of 1: a difference of this size is not detectable here.",
                self.beside(ratio.median)
            )
        })
    }

    /// B beside A in words: `new has 1.4 % less answered rate than old`, `new has 3.40 times the answered rate of old`.
    fn beside(&self, ratio: f64) -> String {
        let Case { a, b, figure, .. } = &self.case;
        match Form::from_ratios(&[ratio]) {
            Form::Percent => {
                let direction = if ratio < 1.0 { "less" } else { "more" };
                format!("{b} has {:.1} % {direction} {figure} than {a}", (ratio - 1.0).abs() * 100.0)
            }
            Form::Factor if ratio < 1.0 => format!("{b} has {} of the {figure} of {a}", times(ratio)),
            Form::Factor => format!("{b} has {} times the {figure} of {a}", times(ratio)),
        }
    }
}

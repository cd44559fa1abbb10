//! A comparison in one sentence, the verdict first, as terminals and pages print it; and a second sentence with
//! the limits of a verdict of equivalence.

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

/// With an MDE (a share) above this, equivalence says little. A figure that is known no better than to ± 5 %
/// has at best a C, too.
const COARSE: f64 = 0.05;

impl Comparison {
    /// The limits of a verdict of equivalence, as a sentence: a difference shows although the MDE is larger, or
    /// a difference would have to be large to show. `None` for other verdicts, and if the two are equal within
    /// a small MDE.
    pub fn caveat(&self) -> Option<String> {
        let (mde, ratio) = (self.mde?, self.ratio?);
        if self.outcome != Outcome::Equivalent {
            return None;
        }
        if ratio.low > 1.0 || ratio.high < 1.0 {
            return Some(format!(
                "{}, with the whole interval on one side of 1: a difference of this size is not detectable here.",
                self.beside(ratio.median)
            ));
        }
        (mde > COARSE)
            .then(|| format!("A difference of up to {} is not detectable here.", difference(mde, 1)))
    }

    /// B beside A in words: `new has 1.4 % less answered rate than old`, `new has 3.40 times the answered rate of old`.
    fn beside(&self, ratio: f64) -> String {
        let Case { a, b, figure, .. } = &self.case;
        match Form::of(&[ratio]) {
            Form::Percent => {
                let direction = if ratio < 1.0 { "less" } else { "more" };
                format!("{b} has {:.1} % {direction} {figure} than {a}", (ratio - 1.0).abs() * 100.0)
            }
            Form::Factor if ratio < 1.0 => format!("{b} has {} of the {figure} of {a}", times(ratio)),
            Form::Factor => format!("{b} has {} times the {figure} of {a}", times(ratio)),
        }
    }
}

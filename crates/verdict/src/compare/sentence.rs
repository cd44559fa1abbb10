//! A comparison in one sentence, the verdict first, as words and pages print it.

use std::fmt;

use super::{Comparison, Outcome};

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
                let beyond = self.ratio.map_or(0.0, |ratio| ratio.median - 1.0);
                let direction = if beyond < 0.0 { "less" } else { "more" };
                let percent = beyond.abs() * 100.0;
                write!(f, "{}: {b} has {percent:.1} % {direction} {figure} than {a}.", self.outcome)
            }
            Outcome::Equivalent => {
                let percent = self.mde.unwrap_or(f64::INFINITY) * 100.0;
                write!(
                    f,
                    "equivalent: {b} differs from {a} in {figure} by less than the {percent:.1} % that could be told."
                )
            }
            Outcome::Inconclusive => {
                write!(f, "inconclusive: whether {b} differs from {a} in {figure} cannot be told yet; ")?;
                match self.more_blocks {
                    Some(1) => f.write_str("about one more block would tell."),
                    Some(blocks) => write!(f, "about {blocks} more blocks would tell."),
                    None => f.write_str("how many more blocks would tell is not known."),
                }
            }
        }
    }
}

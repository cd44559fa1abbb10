//! A comparison in one sentence, the verdict first, as words and pages print it, and in another what equivalence leaves
//! open.

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
                let beyond = beyond(self.ratio.map_or(1.0, |ratio| ratio.median));
                write!(f, "{}: {b} has {beyond} {figure} than {a}.", self.outcome)
            }
            Outcome::Equivalent => {
                let percent = self.mde.unwrap_or(f64::INFINITY) * 100.0;
                write!(
                    f,
                    "equivalent: {b} differs from {a} in {figure} by less than the {percent:.1} % that could be seen."
                )
            }
            Outcome::Inconclusive => {
                write!(f, "inconclusive: whether {b} differs from {a} in {figure} cannot be told yet; ")?;
                match self.more_blocks {
                    Some(1) if self.more_at_least => f.write_str("at least one more block is needed."),
                    Some(blocks) if self.more_at_least => {
                        write!(f, "at least {blocks} more blocks are needed.")
                    }
                    Some(1) => f.write_str("about one more block would tell."),
                    Some(blocks) => write!(f, "about {blocks} more blocks would tell."),
                    None => f.write_str("how many more blocks would tell is not known."),
                }
            }
        }
    }
}

/// Above this MDE, a share, equivalence says little: what is known to more than ± 5 % has at best a C as a figure, too.
const COARSE: f64 = 0.05;

impl Comparison {
    /// What equivalence leaves open here, a sentence: a difference that shows although the MDE is larger, or one that
    /// would have to be large to show. None of other verdicts, and where the two are equal as far as a fine MDE can tell.
    pub fn caveat(&self) -> Option<String> {
        let (mde, ratio) = (self.mde?, self.ratio?);
        if self.outcome != Outcome::Equivalent {
            return None;
        }
        if ratio.low > 1.0 || ratio.high < 1.0 {
            return Some(format!(
                "{} has {} {}, with the whole interval on one side of 1: a difference of so much cannot be \
                 told from none here.",
                self.case.b,
                beyond(ratio.median),
                self.case.figure
            ));
        }
        (mde > COARSE)
            .then(|| format!("A difference of up to {:.1} % cannot be told from none here.", mde * 100.0))
    }
}

/// How far a ratio lies from 1: `1.4 % less`.
fn beyond(ratio: f64) -> String {
    let direction = if ratio < 1.0 { "less" } else { "more" };
    format!("{:.1} % {direction}", (ratio - 1.0).abs() * 100.0)
}

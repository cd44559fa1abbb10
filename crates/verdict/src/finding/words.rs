//! The finding in one sentence.

use std::fmt;

use super::{Contrast, Finding, Interaction, Outcome, Quantity};

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rate => "rate",
            Self::Latency => "median latency",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.quantity;
        match &self.outcome {
            Outcome::NoNumber => return write!(f, "No cell has a number, so nothing was found."),
            Outcome::NoPair => {
                f.write_str(
                    "No two cells with a number differ in one factor alone, so no factor can be judged",
                )?;
            }
            Outcome::NoInterval(greatest) => write!(
                f,
                "Whether a factor mattered is not known, since each cell has one start: the greatest difference of the \
                 {what} is {}",
                plain(greatest)
            )?,
            Outcome::Mattered { most, others, interaction } => {
                write!(f, "{} mattered most: {}", most.factor, said(what, most))?;
                match interaction {
                    Some(depends) => write!(f, ", and it depends on the rest: {}", by_place(depends))?,
                    None if others.is_empty() && self.factors.len() > 1 => {
                        write!(f, ", and no other factor mattered beyond the MDE")?;
                    }
                    None => {}
                }
                if !others.is_empty() {
                    let others: Vec<String> = others.iter().map(short).collect();
                    write!(f, "; after it {}", others.join(", then "))?;
                }
            }
            Outcome::Together(depends) => write!(
                f,
                "No factor mattered by itself, but {} does in combination: the {what} with {} is {} of that with {}",
                depends.of.factor,
                depends.of.greater,
                by_place(depends),
                depends.of.lesser
            )?,
            Outcome::None(greatest) => {
                let which = match self.factors.as_slice() {
                    [one] => format!("{one} did not matter"),
                    _ => "No factor mattered".to_owned(),
                };
                write!(
                    f,
                    "{which} beyond the MDE: the greatest difference of the {what} is {}, from {} to {}, and {} would be \
                     found",
                    plain(greatest),
                    change(greatest.ratio.0),
                    change(greatest.ratio.2),
                    percent(greatest.mde)
                )?;
            }
        }
        match self.without {
            0 => write!(f, "."),
            some => write!(f, "; {some} of {} cells have no number and are left out.", self.cells),
        }
    }
}

/// `with uring the rate is 1.24 times that with mmsg (1.20 to 1.28, 4 pairs of cells)`.
fn said(what: Quantity, one: &Contrast) -> String {
    let (low, ratio, high) = one.ratio;
    let pairs = match one.pairs {
        1 => "one pair of cells".to_owned(),
        some => format!("{some} pairs of cells"),
    };
    format!(
        "with {} the {what} is {ratio:.3} times that with {} ({low:.3} to {high:.3}, {pairs})",
        one.greater, one.lesser
    )
}

/// `1.1 %, of io uring above io mmsg`.
fn plain(one: &Contrast) -> String {
    format!(
        "{}, of {factor} {} above {factor} {}",
        percent(one.ratio.1 - 1.0),
        one.greater,
        one.lesser,
        factor = one.factor
    )
}

/// `workers (4 to 1: 1.10 times)`.
fn short(one: &Contrast) -> String {
    let (low, ratio, high) = one.ratio;
    format!("{} ({} to {}: {ratio:.3} times, {low:.3} to {high:.3})", one.factor, one.greater, one.lesser)
}

/// `1.02 times with workers 1, and 1.31 times with workers 4`.
fn by_place(depends: &Interaction) -> String {
    let (least, greatest) = (&depends.least, &depends.greatest);
    format!("{:.3} times with {}, and {:.3} times with {}", least.1, least.0, greatest.1, greatest.0)
}

fn percent(share: f64) -> String {
    format!("{:.1}\u{a0}%", share * 100.0)
}

/// A ratio as a change with its sign.
fn change(ratio: f64) -> String {
    format!("{:+.1}\u{a0}%", (ratio - 1.0) * 100.0).replace('-', "\u{2212}")
}

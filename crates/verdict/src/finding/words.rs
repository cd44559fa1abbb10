//! The finding in a few sentences.

use std::fmt;

use super::{Contrast, Finding, Interaction, Outcome, Quantity};

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rate => "rate",
            Self::Latency => "median latency",
            Self::LatencyMean => "mean latency",
            Self::LatencyP99 => "p99 latency",
            Self::Cpu => "CPU time per answer",
            Self::Memory => "memory",
            Self::MemoryPerRecord => "memory per record",
            Self::MemoryPerConnection => "memory per connection",
            Self::LoadTime => "time to load",
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.quantity;
        match &self.outcome {
            Outcome::NoNumber => return f.write_str("No cell has a number, so nothing was found."),
            Outcome::OneCell => {
                return f.write_str("The experiment has one cell, so there is nothing to compare.");
            }
            Outcome::NoPair => {
                f.write_str(
                    "No two cells with a number differ in one factor alone, so no factor can be judged.",
                )?;
            }
            Outcome::NoInterval(greatest) => write!(
                f,
                "Whether a factor changed the {what} is not known, since the blocks are too few for an interval. The \
                 greatest difference is {}.",
                plain(greatest)
            )?,
            Outcome::Mattered { most, others, interactions } => {
                let mattered = if self.factors.len() > 1 { "mattered most" } else { "mattered" };
                write!(f, "{} {mattered}: {}.", most.factor, compared(what, most))?;
                for other in others {
                    write!(f, " {} mattered, too: {}.", other.factor, compared(what, other))?;
                }
                depends(f, interactions)?;
                if others.is_empty()
                    && interactions.is_empty()
                    && self.untested == 0
                    && self.factors.len() > 1
                {
                    write!(f, " No other factor mattered beyond the MDE.")?;
                }
            }
            Outcome::Together(interactions) => {
                write!(f, "No factor changed the {what} on the average, but factors depend on each other.")?;
                depends(f, interactions)?;
            }
            Outcome::None(greatest) => {
                let which = match self.factors.as_slice() {
                    [one] => format!("{one} did not change"),
                    _ => "No factor changed".to_owned(),
                };
                write!(
                    f,
                    "{which} the {what} beyond the MDE: the greatest difference is {}",
                    plain(greatest)
                )?;
                if let Some((low, high)) = greatest.interval {
                    write!(f, " (95\u{a0}%: {} to {})", change(low), change(high))?;
                }
                f.write_str(".")?;
                if let Some(mde) = self.mde {
                    write!(f, " A difference of {} would have been found.", percent(mde))?;
                }
            }
        }
        if self.own_rates {
            f.write_str(" Each cell is at its own rate.")?;
        }
        if self.untested > 0 && !matches!(self.outcome, Outcome::NoInterval(_)) {
            match self.untested {
                1 => write!(f, " One pair of values has too few blocks for an interval.")?,
                some => write!(f, " {some} pairs of values have too few blocks for an interval.")?,
            }
        }
        match self.without {
            0 => Ok(()),
            some => write!(f, " {some} of {} cells have no number and are left out.", self.cells),
        }
    }
}

/// A sentence for each factor whose effect depends on the others.
fn depends(f: &mut fmt::Formatter<'_>, interactions: &[Interaction]) -> fmt::Result {
    for one in interactions {
        let (low, apart, high) = one.apart;
        write!(
            f,
            " The ratio of {} {} to {} depends on other factors: it is {:.3} with {} and {:.3} with {}, {apart:.3} times as \
             much (95\u{a0}%: {low:.3} to {high:.3}).",
            one.factor, one.greater, one.lesser, one.least.1, one.least.0, one.greatest.1, one.greatest.0
        )?;
    }
    Ok(())
}

/// `with io uring the rate is 1.240 times that with io mmsg (95\u{a0}%: 1.200 to 1.280, 4 pairs of cells)`.
fn compared(what: Quantity, one: &Contrast) -> String {
    let interval =
        one.interval.map_or_else(String::new, |(low, high)| format!("95\u{a0}%: {low:.3} to {high:.3}, "));
    let pairs = match one.pairs {
        1 => "one pair of cells".to_owned(),
        some => format!("{some} pairs of cells"),
    };
    let mean = if one.pairs > 1 { "on the average " } else { "" };
    format!(
        "with {factor} {} the {what} is {mean}{ratio:.3} times that with {factor} {} ({interval}{pairs})",
        one.greater,
        one.lesser,
        ratio = one.ratio,
        factor = one.factor
    )
}

/// `1.1 % between io uring and io mmsg`.
fn plain(one: &Contrast) -> String {
    format!(
        "{} between {factor} {} and {factor} {}",
        percent(one.ratio - 1.0),
        one.greater,
        one.lesser,
        factor = one.factor
    )
}

fn percent(share: f64) -> String {
    format!("{:.1}\u{a0}%", share * 100.0)
}

/// A ratio as a change with its sign.
fn change(ratio: f64) -> String {
    format!("{:+.1}\u{a0}%", (ratio - 1.0) * 100.0).replace('-', "\u{2212}")
}

//! How far a figure can be trusted.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::Display;

/// The grade of a figure, best first.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema, Display,
)]
pub enum Grade {
    /// Two hosts, no warning, interval within ± 1 %.
    A,
    /// Interval within ± 5 %, or minor warnings.
    B,
    /// A single host, or a figure that is only good for comparisons within the same run.
    C,
    /// A rough figure: its range is wide, other programs had the subject's cores, or nothing shows what its limit was.
    D,
    /// The figure is refused: no number is printed.
    F,
}

impl Grade {
    /// The next worse grade. C and D stay, since only a cause of its own makes a figure rough, or refuses it.
    #[must_use]
    pub fn down_one(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B | Self::C => Self::C,
            Self::D => Self::D,
            Self::F => Self::F,
        }
    }

    /// Whether the figure is refused.
    pub fn refuses(self) -> bool {
        self == Self::F
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grades_are_their_letters() {
        let grades = [Grade::A, Grade::B, Grade::C, Grade::D, Grade::F];
        assert_eq!(grades.map(|grade| grade.to_string()).concat(), "ABCDF");
    }
}

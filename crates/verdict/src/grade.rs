//! How far a figure can be trusted.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The grade of a figure, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
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

impl fmt::Display for Grade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
            Self::F => "F",
        })
    }
}

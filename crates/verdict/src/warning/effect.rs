//! The effect of a warning on the grade.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::grade::Grade;

/// The effect of a warning on the grade, the mildest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// None: the figure stands, and the warning explains it.
    Mention,
    /// The next worse grade.
    DownOne,
    /// No better than this grade.
    Cap(Grade),
    /// The trial is repeated, at most twice; if the warning stays, the figure is refused.
    RedoThenRefuse,
    /// The figure is refused.
    Refuse,
}

/// A trial with [`Effect::RedoThenRefuse`] is repeated at most this often.
pub const REDOS: u32 = 2;

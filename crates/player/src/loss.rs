//! Why a query is lost.

/// Why a query is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No reply came in the time that the player waits for one.
    Time,
    /// The subject closed the flow.
    Closed,
    /// The subject or the network reset the flow.
    Reset,
}

impl Loss {
    /// The names, by [`Self::number`].
    pub const NAMES: [&'static str; 3] = ["time", "closed", "reset"];

    /// The index of this cause among the counts of all causes.
    pub fn number(self) -> usize {
        self as usize
    }
}

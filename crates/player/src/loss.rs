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
    /// The subject refused the connection.
    Refused,
    /// No route leads to the subject.
    Unreachable,
    /// The connection was not made in time.
    ConnectTimeout,
    /// This host had no port, descriptor or memory left for the connection.
    Local,
}

impl Loss {
    /// The names, by [`Self::number`].
    pub const NAMES: [&'static str; 7] =
        ["time", "closed", "reset", "refused", "unreachable", "connect-timeout", "local"];

    /// The index of this cause among the counts of all causes.
    pub fn number(self) -> usize {
        self as usize
    }
}

//! When a run is judged: while it goes on, or after it.

/// The moment of a judgement. It decides the words for what is not done: a run that goes on may still do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// While the run goes on.
    SoFar,
    /// After the run, which may have ended early.
    AtEnd,
}

//! How much of a run is judged: a page shows more than a history compares.

/// The content of a judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// All that the page of a run shows.
    Page,
    /// The figures, with their grades and reasons.
    Figures,
}

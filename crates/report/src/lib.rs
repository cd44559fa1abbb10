//! What a person sees: one self-contained HTML page of a run and its verdict.
//!
//! For: the answer first, and then everything that it rests on, down to the last trial; readable on a phone, in
//! the dark and on paper. Not for: figures that are not in the run or the verdict already.
//!
//! Invariant: it computes nothing that is claimed, it formats. The page needs no network, runs no script, and
//! shows whatever text a run holds as text.

mod chart;
mod format;
mod page;
mod prose;
mod section;

pub use page::page;

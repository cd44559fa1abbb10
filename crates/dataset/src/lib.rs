//! The queries to ask, and the right answers.
//!
//! For: reading query files, encoding their queries once into a file that is mapped into memory, returning
//! them in a few nanoseconds, and generating zones and query files from a seed. Not for: when a query is
//! sent, or what became of it.
//!
//! Invariant: a dataset is frozen. It is named by the hash of its source's content, never changes once it is
//! open, and uses no anonymous memory however many queries it holds.

mod answer;
mod binary;
mod cache;
mod compile;
mod dataset;
mod encoded;
mod error;
mod skipped;
mod text;

pub mod generate;
pub mod toml_file;
pub mod unfinished;

pub use answer::Digest;
pub use cache::cache_folder;
pub use compile::compile;
pub use dataset::{Check, Dataset, Expected, Format, Options, Position, Query};
pub use error::{DatasetError, LineFault, RecordFault};

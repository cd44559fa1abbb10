//! The queries to ask, and the right answers.
//!
//! For: reading query files and captures, encoding their queries once into a file that is mapped into memory, and
//! returning them in a few nanoseconds. Not for: the packets of a capture (`capture`), making zones and query files
//! (`recipe`), when a query is sent, or what became of it.
//!
//! Invariant: a dataset is frozen. It is named by the hash of its source's content, never changes once it is
//! open, and uses no anonymous memory however many queries it holds.

mod additions;
mod answer;
mod bad;
mod binary;
mod cache;
mod capture;
mod captured;
mod compile;
mod dataset;
mod encoded;
mod error;
mod facts;
mod failure;
mod mapped;
mod open;
mod options;
mod skipped;
mod source;
mod tail;
mod text;
mod updates;
mod writer;

pub use additions::Additions;
pub use answer::{Agreement, Digest};
pub use bad::Bad;
pub use captured::Captured;
pub use compile::compile;
pub use dataset::{Check, Dataset, Expected, Position, Query};
pub use error::{DatasetError, LineFault, RecordFault};
pub use facts::{CaptureFacts, ClientPlace};
pub use kqps_capture::Transport as Carried;
pub use options::{CaptureOptions, Client, Format, Options};

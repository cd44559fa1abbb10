//! Files that people write and files that kqps writes.
//!
//! For: reading TOML with the place of an error, writing files and folders that appear whole or not at all, folders that
//! only their owner writes, removing what an ended program left unfinished, and the user's cache folder. Not for: what
//! the keys of a file mean.
//!
//! Invariant: a path that another program reads is never half written. An error names the file as the user gave it.

pub mod cache;
pub mod own;
pub mod toml_file;
pub mod unfinished;
pub mod whole;

pub use cache::cache_folder;
pub use whole::{replaced_by, write_whole};

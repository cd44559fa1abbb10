//! The catalogue: a row for each setting, each figure, each cause of a lost query or a wrong reply, and each place of a
//! loss. That of a setting has its name, kind, limits, transports, flag and help; that of a figure its names, unit and
//! order; that of a cause or a place its name in records and its words.
//!
//! For: the settings of player, subject, host, path and dataset, the words of their values, and the factors of a cell,
//! which are settings as words and as values; numbers with units such as `60s`. Studies, command lines, stores and tables of the documentation read the
//! rows. Not for: what a setting does, which the player and the lab know.
//!
//! Invariant: pure; no I/O and no clock. A setting exists once: its row names it, and its field has its value.

pub mod cause;
pub mod choice;
pub mod course;
pub mod cpu_list;
pub mod factors;
pub mod figure;
pub mod hostile;
pub mod name;
pub mod place;
pub mod scenario;
pub mod setting;
pub mod settings;
pub mod sources;
pub mod table;
pub mod value;

pub use choice::Transport;
pub use factors::Factors;
pub use figure::Figure;
pub use hostile::Hostile;
pub use place::Place;

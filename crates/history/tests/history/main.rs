//! The history as a function of records, and its store.

mod alarms;
mod hosts;
mod records;
mod runs;
mod simulate;
mod stored;

//! Merged trials of several players, and the store as the lab uses it, on a disk that fills up, and when its process is
//! killed.

mod merge;
mod store;
mod store_full;
mod store_kill;

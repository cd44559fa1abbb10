//! Searches of the lab.

mod find;

//! The parts of the lab with real processes and networks, and its searches.

mod find;
mod path;
mod subjects;

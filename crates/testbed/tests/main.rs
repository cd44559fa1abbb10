//! The parts of the test bed with real processes and networks.

mod path;
mod subjects;

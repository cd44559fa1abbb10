//! kqps as a user runs it, command by command. It is one test program, so that tests that mostly wait for their
//! loads to end share the cores with others. What measures is not here, and has the machine to itself:
//! `known_answers`, `known_counts` and `peers`.

mod answers;
mod auth;
mod compare;
mod dataset;
mod errors;
mod front;
mod host;
mod load;
mod published;
mod report;
mod run;
mod serve;
mod study;
mod subjects;

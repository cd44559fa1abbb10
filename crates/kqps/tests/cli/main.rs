//! kqps as a user runs it, command by command. It is one test program, so that tests that mostly wait for their
//! loads to end share the cores with others. What measures is not here: `known_answers` has the machine to itself,
//! and `together` holds what a busy machine does not change.

mod alone;
mod answers;
mod auth;
mod compare;
mod dataset;
mod errors;
mod failing;
mod find;
mod front;
mod host;
mod load;
mod nonsense;
mod outside;
mod printing;
mod published;
mod report;
mod run;
mod running;
mod serve;
mod study;
mod subjects;

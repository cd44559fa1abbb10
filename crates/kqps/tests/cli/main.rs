//! kqps as a user runs it, command by command. All of it is one test program, so that tests, which mostly
//! wait for their loads, share the cores. Measurements are elsewhere: `known_answers` has the machine to
//! itself, and `together` holds those that a busy machine does not change.

mod agent;
mod answers;
mod auth;
mod cache;
mod capture;
mod check;
mod compare;
mod course;
mod dataset;
mod dnsperf;
mod errors;
mod events;
mod export;
mod failing;
mod find;
mod front;
mod history;
mod host;
mod host_advise;
mod hostile;
mod internet;
mod live;
mod load;
mod no_command;
mod nonsense;
mod outside;
mod packaged;
mod plan;
mod power;
mod printing;
mod published;
mod python;
mod report;
mod resperf;
mod run;
mod running;
mod scenario;
mod serve;
mod study;
mod study_attack;
mod study_events;
mod subjects;
mod tied;
mod typed;

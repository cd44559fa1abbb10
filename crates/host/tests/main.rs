//! The host as it is seen during a trial, beside real processes and threads.

mod watch;
mod witness;

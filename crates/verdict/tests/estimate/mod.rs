//! The estimate of a subject's rate from trials: known answers, and simulated hosts.

mod answers;
mod host;
mod hosts;
mod played;

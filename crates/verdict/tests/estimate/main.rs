//! What subjects hold, estimated from trials: known answers, and simulated hosts.

mod answers;
mod host;
mod hosts;
mod played;

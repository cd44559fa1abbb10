//! TCP's state machine: its states one by one with segments made by hand, its timers and windows, whole connections
//! over a link that loses, repeats and reorders, and very many connections at once.

mod closing;
mod full;
mod link;
mod losses;
mod many;
mod opening;
mod peer;
mod resets;
mod rig;
mod timers;
mod windows;

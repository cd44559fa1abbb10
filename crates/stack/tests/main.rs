//! Frames, and the state machine of TCP.

mod frames;
mod tcp;

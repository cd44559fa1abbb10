//! Caches at the boundary of bytes: their answers, and what they keep when their memory is full.

mod answers;
mod memory;

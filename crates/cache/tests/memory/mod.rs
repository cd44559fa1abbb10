//! A cache when its memory is full: the bound, the memory of an entry, and which entries stay.

mod bound;
mod policy;
mod support;

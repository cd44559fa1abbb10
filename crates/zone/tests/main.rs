//! Zones at the boundary of bytes and files: master files in, answers out.

mod answer;
mod load;
mod master;
mod source;

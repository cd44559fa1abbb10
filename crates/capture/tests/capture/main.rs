//! Captures of every format and link, their faults and their damage, and what the reader makes of them.

mod bytes;
mod compressed;
mod copies;
mod damaged;
mod formats;
mod links;
mod network;
mod pcapng;
mod properties;
mod times;
mod whys;
mod written;

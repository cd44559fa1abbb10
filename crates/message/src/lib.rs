//! DNS messages as bytes (header, names, types, rcodes, the question, EDNS) and the text forms of their fields.
//!
//! For: reading the few fields that a player or a server needs from untrusted bytes, and writing the queries of a
//! dataset. Not for: RDATA, zones or sockets.
//!
//! Invariant: no I/O, no clock, no allocation per message, and no panic whatever the bytes are. The crate writes
//! into buffers that the caller keeps.

pub mod canonical;
pub mod edns;
pub mod header;
pub mod name;
pub mod presentation;
pub mod query;
pub mod question;
pub mod rcode;
pub mod record;
pub mod replay;
pub mod rtype;
pub mod text;
pub mod tsig;

pub use edns::{ClientSubnet, Edns};
pub use header::{HEADER_BYTES, Header};
pub use name::{NameError, NameFault};
pub use replay::may_be_replayed;

//! DNS messages as bytes: the header, names, types, rcodes, the question, EDNS; and their words as people write them.
//!
//! For: reading the few fields that a player or a server needs from bytes that anyone may have sent, and
//! writing the queries that a dataset asks. Not for: RDATA, zones or sockets.
//!
//! Invariant: no I/O, no clock, no allocation per message, and no panic whatever the bytes are. What is
//! written goes into a buffer that the caller keeps.

pub mod canonical;
pub mod edns;
pub mod header;
pub mod name;
pub mod query;
pub mod question;
pub mod rcode;
pub mod record;
pub mod rtype;
pub mod text;

pub use edns::{ClientSubnet, Edns};
pub use header::{HEADER_BYTES, Header};
pub use name::{NameError, NameFault};

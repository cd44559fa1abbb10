//! Zones: reads them from master files, compiles them to wire bytes, and answers from them.
//!
//! For: loading big zones fast into little memory, and turning a query into an authoritative reply in the
//! query's buffer. Not for: sockets, reloading on a signal, recursion, or signing.
//!
//! Invariant: an answer is a function of the zones and the query's bytes. There is no socket and no clock.
//! Other inputs (the client's address, the time of a cookie) are passed with the query.

pub mod batch;
pub mod compile;
mod hash;
pub mod load;
pub mod master;
mod name;
mod nsec3;
mod position;
pub mod respond;
pub mod source;
pub mod zone;
pub mod zones;

pub use batch::{Batch, Record};
pub use compile::{Builder, Compiled, Fault, Severity};
pub use name::{Name, canonical, labels};
pub use nsec3::{HASH_BYTES, hash as nsec3_hash, letters as nsec3_letters};
pub use respond::{
    Asked, AskedEdns, Asker, Full, Heading, Names, Outcome, PLACE_MAX, Responder, ResponderSettings, Section,
    Silence, Transfer, Transport,
};
pub use zone::Zone;
pub use zones::{Entry, Zones};

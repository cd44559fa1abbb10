//! The reference servers: servers with known behaviour, for comparison with real name servers.
//!
//! For: answering DNS over UDP with every I/O model, with any number of worker processes and threads, shared
//! or separate sockets, on chosen cores, also past the kernel's network stack; over TCP as well; and counting exactly
//! what was received, answered and dropped. Not for: reading zones, or deciding the answer to a query.
//!
//! Invariant: an answer never sees a socket. Each file under `loops` contains a whole loop, since studies
//! compare loops. What surrounds the loops (workers, sockets, counts) and what they call ([`Answer`]) is
//! shared.

pub mod answer;
pub mod connections;
pub mod counts;
pub mod error;
pub mod frames;
pub mod later;
pub mod model;
pub mod report;
pub mod runs;
pub mod serve;
pub mod service;
pub mod services;
pub mod setup;
pub mod sockets;
pub mod worker;

mod deadline;
mod device;
mod loops;
mod processes;

pub use answer::{Answer, Answered, Client, Query};
pub use error::ServeError;
pub use model::Model;
pub use report::{Ended, Report};
pub use serve::Server;
pub use service::Service;
pub use services::echo::Echo;
pub use setup::ServerSetup;

//! Other hosts: who they are, how they are reached, and one conversation with each.
//!
//! For: the hosts' file and Ansible's inventories, starting `kqps agent` there by the user's own means (`ssh HOST`,
//! `srun -w HOST`, `kubectl exec -i POD --`, `ip netns exec NAME`), the lines of JSON between controller and agent, the
//! check that both are the same build, bringing that build there, the offset of the clocks, and the end of either side
//! when the other is gone. Not for: what an agent is asked to do; that is a job, whose type the caller chooses.
//!
//! Invariant: a remote part is reached over its standard input and output alone, and ends by itself when nothing comes
//! any more.

pub mod clock;
#[cfg(feature = "fuzz")]
pub mod fuzz;
pub mod message;

mod command;
mod error;
mod file;
mod host;
mod identity;
mod inventory;
mod lines;
mod link;
mod map_hosts;
mod outbox;
mod push;
mod read;
mod reason;
mod remote;
mod serve;

pub use clock::Offset;
pub use error::HostsError;
pub use host::{Host, Hosts};
pub use identity::Identity;
pub use link::{JobError, Link, Ticket};
pub use map_hosts::map_hosts;
pub use message::{AgentHello, ControllerHello, HelloFacts, Role};
pub use push::{find_pushed, push};
pub use serve::{ENDED_WITHIN, LEASE, Worker, serve};

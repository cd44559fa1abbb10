//! The tree of an Internet in a box: the root, top-level domains, and the name servers of a million zones, each server at its
//! own address.
//!
//! For: the answer of each server to each query, its delay and its faults; the answer that a resolver must find, and how many
//! questions that takes; questions of clients by popularity; the zones as text; and a tree from the replies that a resolver
//! saw. Not for: sockets, waiting, or counting.
//!
//! Invariant: an answer is a function of the recipe, the server and the query's bytes and turn. There is no socket, no clock
//! and no thread. Memory is bounded: a zone is computed from the seed and its number, and not stored.

mod answer;
mod answered;
mod behaviour;
mod cache;
mod content;
mod ecdsa;
mod expected;
mod internet;
mod keys;
mod locate;
mod message;
mod names;
mod order;
mod place;
mod question;
mod rebuilt;
pub mod recipe;
mod rrset;
mod server;
mod sign;
mod site;
mod steady;
mod text;
mod tree;
mod writer;

pub use answered::{Answered, Kind, Level, TcpConduct};
pub use expected::{Expected, ExpectedRecord};
pub use internet::Internet;
pub use place::ZoneId;
pub use question::ClientQuestion;
pub use rebuilt::{RebuiltServer, RebuiltTree, RebuiltZone, SightingCounts, Sightings};
pub use recipe::{Behaviour, Fault, InternetRecipe, RecipeError};
pub use server::Server;
pub use steady::{KEPT, SteadyQuestions};
pub use text::HINTS_TTL_S;

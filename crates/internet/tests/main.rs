//! The tree as resolvers find it.

mod book;
mod bytes;
mod conduct;
mod rebuilt;
mod referrals;
mod secure;
mod steady;
mod text;
mod walk;

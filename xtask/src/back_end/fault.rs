//! The ways in which a back end misbehaves, and what they make of a reply.

use std::time::Duration;

use clap::ValueEnum;
use fastrand::Rng;

use crate::relay::answer;

/// How late a slow back end is.
pub(super) const SLOW: Duration = Duration::from_millis(200);

/// How a back end behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// It answers every query right.
    None,
    /// It answers right, 200 ms late.
    Slow,
    /// It sends random bytes.
    Garbage,
    /// Its replies have IDs that nobody gave them.
    WrongIds,
    /// Its replies are to other questions.
    WrongQuestions,
    /// Of every reply the second half is missing; what comes next follows at once.
    Truncated,
    /// It closes the connection in the middle of a reply.
    MidFrame,
    /// It closes the connection behind a reply while more are awaited.
    Closing,
    /// Nobody listens.
    Refusing,
    /// It takes connections and queries, and never answers.
    HalfOpen,
}

impl Fault {
    /// Whether it could be there without connections.
    pub fn is_for_datagrams(self) -> bool {
        !matches!(self, Self::MidFrame | Self::Closing)
    }

    /// Whether what it sends is right.
    pub(super) fn is_right(self) -> bool {
        matches!(self, Self::None | Self::Slow | Self::Closing)
    }
}

/// The reply of a back end that behaves like this to a query, which has a header.
pub(super) fn reply(query: &[u8], fault: Fault, rng: &mut Rng) -> Vec<u8> {
    let mut reply = query.to_vec();
    answer(&mut reply);
    match fault {
        Fault::Garbage => rng.fill(&mut reply),
        Fault::WrongIds => {
            let id = u16::from_be_bytes([reply[0], reply[1]]);
            reply[..2].copy_from_slice(&(id ^ rng.u16(1..)).to_be_bytes());
        }
        // The first letter of the name is another one.
        Fault::WrongQuestions => reply[13] ^= 1,
        Fault::Truncated | Fault::MidFrame => reply.truncate(reply.len() / 2),
        Fault::None | Fault::Slow | Fault::Closing | Fault::Refusing | Fault::HalfOpen => {}
    }
    reply
}

//! The ways in which a back end misbehaves, and their effects on a reply.

use std::time::Duration;

use clap::ValueEnum;
use fastrand::Rng;

use crate::relay::answer;

/// Delay of a slow back end.
pub(super) const SLOW: Duration = Duration::from_millis(200);

/// How a back end behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// It answers every query correctly.
    None,
    /// It answers correctly, but 200 ms late.
    Slow,
    /// It sends random bytes.
    Garbage,
    /// Its replies have IDs that no query had.
    WrongIds,
    /// Its replies are to other questions.
    WrongQuestions,
    /// The second half of every reply is missing, and the next message follows at once.
    Truncated,
    /// It closes the connection in the middle of a reply.
    MidFrame,
    /// It closes the connection after a reply although more queries wait.
    Closing,
    /// It does not listen.
    Refusing,
    /// It accepts connections and queries, and never answers.
    HalfOpen,
}

impl Fault {
    /// Whether the fault exists without connections.
    pub fn is_for_datagrams(self) -> bool {
        !matches!(self, Self::MidFrame | Self::Closing)
    }

    /// Whether the replies are correct.
    pub(super) fn is_right(self) -> bool {
        matches!(self, Self::None | Self::Slow | Self::Closing)
    }
}

/// The reply to a query, which has a header, by a back end with this fault.
pub(super) fn reply(query: &[u8], fault: Fault, rng: &mut Rng) -> Vec<u8> {
    let mut reply = query.to_vec();
    answer(&mut reply);
    match fault {
        Fault::Garbage => rng.fill(&mut reply),
        Fault::WrongIds => {
            let id = u16::from_be_bytes([reply[0], reply[1]]);
            reply[..2].copy_from_slice(&(id ^ rng.u16(1..)).to_be_bytes());
        }
        // This changes the first letter of the name.
        Fault::WrongQuestions => reply[13] ^= 1,
        Fault::Truncated | Fault::MidFrame => reply.truncate(reply.len() / 2),
        Fault::None | Fault::Slow | Fault::Closing | Fault::Refusing | Fault::HalfOpen => {}
    }
    reply
}

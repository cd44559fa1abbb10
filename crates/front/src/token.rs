//! The subject of an event, encoded in the one word that the kernel keeps for each registered descriptor.

use mio::Token;

/// The kinds of registered descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Another thread wants the worker to look around.
    Waker,
    /// A socket for clients' datagrams, by its index.
    Endpoint,
    /// A socket for clients' connections, or one of these connections, by the keeper's number for it.
    Client,
    /// A back end's connection, by the numbers of both.
    Stream,
    /// A back end's socket, by the numbers of both.
    Datagrams,
}

const SOURCES: [Source; 5] =
    [Source::Waker, Source::Endpoint, Source::Client, Source::Stream, Source::Datagrams];

/// The bits of the lower number, and of both numbers.
const LOW_BITS: u32 = 24;
const NUMBER_BITS: u32 = 56;

/// The token of a source with up to two numbers, each below 2²⁴.
pub(super) fn token(source: Source, high: usize, low: usize) -> Token {
    debug_assert!(high < 1 << LOW_BITS && low < 1 << LOW_BITS, "numbers that fit");
    Token((source as usize) << NUMBER_BITS | high << LOW_BITS | low)
}

/// The source and the numbers of a token.
pub(super) fn source(Token(word): Token) -> (Source, usize, usize) {
    let mask = (1 << LOW_BITS) - 1;
    (SOURCES[word >> NUMBER_BITS], word >> LOW_BITS & mask, word & mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_gives_back_what_it_was_made_of() {
        for kind in SOURCES {
            assert_eq!(source(token(kind, 5, 1 << 23)), (kind, 5, 1 << 23));
        }
    }
}

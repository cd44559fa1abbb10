//! What an event is about, in the one word that the kernel keeps with each thing that is watched.

use mio::Token;

/// The things that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Somebody wants the worker to look around.
    Waker,
    /// A socket where clients' datagrams come in, by its place.
    Endpoint,
    /// A socket where clients' connections come in, by its place.
    Listener,
    /// A client's connection, by its place.
    Client,
    /// A back end's connection, by their numbers.
    Stream,
    /// A back end's socket, by their numbers.
    Datagrams,
}

const SOURCES: [Source; 6] =
    [Source::Waker, Source::Endpoint, Source::Listener, Source::Client, Source::Stream, Source::Datagrams];

/// Bits of the lower number, and of both.
const LOW_BITS: u32 = 24;
const NUMBER_BITS: u32 = 56;

/// The token of a thing with up to two numbers, each below 2²⁴.
pub(super) fn token(source: Source, high: usize, low: usize) -> Token {
    debug_assert!(high < 1 << LOW_BITS && low < 1 << LOW_BITS, "numbers that fit");
    Token((source as usize) << NUMBER_BITS | high << LOW_BITS | low)
}

/// The thing with its numbers.
pub(super) fn source(Token(word): Token) -> (Source, usize, usize) {
    let mask = (1 << LOW_BITS) - 1;
    (SOURCES[word >> NUMBER_BITS], word >> LOW_BITS & mask, word & mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_tells_what_it_was_made_of() {
        for kind in SOURCES {
            assert_eq!(source(token(kind, 5, 1 << 23)), (kind, 5, 1 << 23));
        }
    }
}

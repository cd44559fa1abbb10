//! The word of a scenario: classes of clients that play beside the good ones.

use crate::course::RATE_MOST;
use crate::value::{NUMBERS, scaled};

/// The scenarios that kqps has (`docs/SCENARIOS.md`).
pub const NAMES: [&str; 11] = [
    "random-names",
    "one-name",
    "large-answers",
    "many-sources",
    "few-sources",
    "malformed",
    "connections",
    "idle-connections",
    "half-queries",
    "handshakes",
    "rapid-reset",
];

/// Scenarios of connections and streams that ask nothing.
const ATTACKERS: [&str; 4] = ["idle-connections", "half-queries", "handshakes", "rapid-reset"];

/// Scenarios whose clients have addresses of loopback.
const ON_LOOPBACK: [&str; 2] = ["many-sources", "few-sources"];

/// The word for no scenario.
pub const NONE: &str = "none";

/// The words that a study accepts, for people.
pub const EXPECTED: &str = "none, or one of random-names, one-name, large-answers, many-sources, few-sources, malformed, \
                            connections, idle-connections, half-queries, handshakes and rapid-reset, with =RATE behind it for \
                            a rate such as 50k";

/// A scenario with its rate, if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario<'a> {
    /// The word as a player takes it: `random-names=50k`.
    pub word: &'a str,
    /// Whether the word has a rate. Without one, a search varies the rate.
    pub has_rate: bool,
}

impl<'a> Scenario<'a> {
    /// Reads a word; `None` for no scenario.
    pub fn read(word: &'a str) -> Option<Self> {
        (word != NONE).then_some(Self { word, has_rate: word.contains('=') })
    }

    /// Whether several hosts may play it: it is not of attackers, and its clients have no addresses of loopback.
    pub fn may_be_shared(&self) -> bool {
        !self.is_of_attackers() && !ON_LOOPBACK.contains(&self.name())
    }

    fn name(&self) -> &'a str {
        self.word.split('=').next().unwrap_or_default()
    }

    /// Whether it is of attackers, whose attempts are no queries.
    pub fn is_of_attackers(&self) -> bool {
        ATTACKERS.contains(&self.name())
    }
}

/// Checks the word of a study.
///
/// # Errors
///
/// The accepted words.
pub fn check(word: &str) -> Result<(), &'static str> {
    let (name, rate) = word.split_once('=').map_or((word, None), |(name, rate)| (name, Some(rate)));
    // Rates are those of the command line.
    let is_rate = |rate: &str| scaled(rate, &NUMBERS).is_some_and(|qps| qps > 0.0 && qps <= RATE_MOST);
    let is_known = NAMES.contains(&name) && rate.is_none_or(is_rate);
    if word == NONE || is_known { Ok(()) } else { Err(EXPECTED) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_name_perhaps_with_a_rate() {
        let right = "none random-names one-name=50k connections=0.5M malformed=100 one-name=0.1G rapid-reset=5k \
                     handshakes";
        for word in right.split(' ') {
            assert_eq!(check(word), Ok(()), "{word}");
        }
        let wrong = ",none=5,other,one-name=,one-name=fast,one-name=5kk,one-name=-1,one-name=0,one-name=1e5,\
                     one-name=0.2G,handshake";
        for word in wrong.split(',') {
            assert!(check(word).is_err(), "{word}");
        }
        assert_eq!(Scenario::read("none"), None);
        let is_of_attackers = |word| Scenario::read(word).is_some_and(|one| one.is_of_attackers());
        let attackers = ["handshakes=5k", "rapid-reset", "connections"].map(is_of_attackers);
        assert_eq!(attackers, [true, true, false]);
        let may_be_shared = |word| Scenario::read(word).is_some_and(|one| one.may_be_shared());
        let shared = ["one-name=5k", "connections", "few-sources=5k", "handshakes"].map(may_be_shared);
        assert_eq!(shared, [true, true, false, false]);
        assert_eq!(Scenario::read("one-name=5k").map(|one| one.has_rate), Some(true));
        assert_eq!(Scenario::read("one-name").map(|one| one.has_rate), Some(false));
    }
}

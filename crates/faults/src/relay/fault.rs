//! The faults that the relay can make, their shares, and the choice for each query. A query gets one fault at
//! most, so that its fate in the player's accounts is certain.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};

use crate::shares::{Fate, Shares};

enumeration! {
    /// A change to one query or its reply, in the order in which a draw considers them. Beside each stands the fate that the
    /// player must count.
    pub enum Fault: (&'static str, Fate) {
        /// The relay drops the query: lost.
        DropQuery => ("drop-query", Fate::Other),
        /// The relay drops the reply: lost.
        DropReply => ("drop-reply", Fate::Other),
        /// The reply waits for less than the timeout: correct.
        Delay => ("delay", Fate::Correct),
        /// The reply waits for more than the timeout and less than the drain: late.
        Late => ("late", Fate::Other),
        /// The relay sends the reply twice: correct, and one duplicate.
        Duplicate => ("duplicate", Fate::Correct),
        /// The reply waits for the next one on its flow: correct.
        Reorder => ("reorder", Fate::Correct),
        /// The reply has an ID that is not outstanding: lost, and one unsolicited.
        WrongId => ("wrong-id", Fate::Other),
        /// The reply's question has another name: wrong, `question`.
        WrongQuestion => ("wrong-question", Fate::Wrong("question")),
        /// A bit of the reply's question is flipped: wrong, `question`.
        Corrupt => ("corrupt", Fate::Wrong("question")),
        /// The reply has the rcode SERVFAIL: wrong, `rcode` (if the dataset expects another one).
        WrongRcode => ("wrong-rcode", Fate::Wrong("rcode")),
        /// A bit of the data of the reply's first answer is flipped: wrong, `answer` (if the dataset expects the answer,
        /// and there is one).
        WrongData => ("wrong-data", Fate::Wrong("answer")),
        /// The reply has QR=0: wrong, `not-a-response`.
        NotAReply => ("not-a-reply", Fate::Wrong("not-a-response")),
        /// The reply ends within its question: wrong, `short`.
        CutShort => ("cut-short", Fate::Wrong("short")),
        /// The reply comes from another port: lost, and one unsolicited.
        WrongPort => ("wrong-port", Fate::Other),
        /// The reply has TC=1: correct, and truncated.
        Truncate => ("truncate", Fate::Correct),
    }
}

impl Fault {
    /// Its name on the command line and in the counts.
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    /// Whether the player counts the query as correct.
    pub(super) fn is_correct(self) -> bool {
        self.facts().1 == Fate::Correct
    }

    /// The cause for which the player counts the reply as wrong; `None` if it does not.
    pub fn wrong_cause(self) -> Option<&'static str> {
        match self.facts().1 {
            Fate::Wrong(cause) => Some(cause),
            _ => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A `NAME=SHARE` of the command line. The name `every` stands for all faults.
#[derive(Clone, Debug)]
pub struct Share {
    faults: Vec<Fault>,
    share: f64,
}

impl FromStr for Share {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, share) = text.split_once('=').context("expected NAME=SHARE, such as drop-query=0.01")?;
        let faults: Vec<Fault> =
            Fault::ALL.into_iter().filter(|fault| name == "every" || name == fault.name()).collect();
        if faults.is_empty() {
            let names: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
            bail!("no fault is called {name}; there are: every {}", names.join(" "));
        }
        let share: f64 = share.parse().with_context(|| format!("{share} is not a number"))?;
        if !(0.0..=1.0).contains(&share) {
            bail!("a share lies between 0 and 1, and {share} does not");
        }
        Ok(Self { faults, share })
    }
}

/// The share of queries for each fault, from 0 to 1. All shares together are at most 1.
#[derive(Clone, Debug, Default)]
pub struct Plan(Shares<Fault>);

impl Plan {
    /// A plan of these shares. Later shares replace earlier ones of the same fault. An error if their sum is
    /// more than 1.
    pub fn from_shares(shares: &[Share]) -> Result<Self> {
        let mut wanted = BTreeMap::new();
        for one in shares {
            wanted.extend(one.faults.iter().map(|fault| (*fault, one.share)));
        }
        let mut shares = Shares::default();
        wanted.into_iter().try_for_each(|(fault, share)| shares.add(fault, share))?;
        Ok(Self(shares))
    }

    /// A plan that makes every fault for `share_each` of the queries. An error if their sum is more than 1.
    pub fn every(share_each: f64) -> Result<Self> {
        Self::from_shares(&[Share { faults: Fault::ALL.to_vec(), share: share_each }])
    }

    #[inline]
    pub(super) fn draw(&self, random: &mut fastrand::Rng) -> Option<Fault> {
        self.0.draw(random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draw_keeps_to_the_shares() {
        let plan =
            Plan::from_shares(&["drop-query=0.25".parse().unwrap(), "late=0.5".parse().unwrap()]).unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        let draws: Vec<_> = (0..10_000).map(|_| plan.draw(&mut random)).collect();
        let count = |wanted| draws.iter().filter(|drawn| **drawn == wanted).count();
        assert!((2_300..2_700).contains(&count(Some(Fault::DropQuery))));
        assert!((4_800..5_200).contains(&count(Some(Fault::Late))));
        assert!((2_300..2_700).contains(&count(None)));
    }

    #[test]
    fn bad_shares_are_refused() {
        let error = |text: &str| text.parse::<Share>().unwrap_err().to_string();
        assert!(error("drop").contains("NAME=SHARE"));
        assert!(error("drpo=0.1").contains("drop-query"));
        assert!(error("late=2").contains("between 0 and 1"));
        assert!(Plan::every(0.1).is_err(), "fifteen tenths are more than all");
    }
}

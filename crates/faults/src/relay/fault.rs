//! The faults that the relay can make, their shares, and the choice for each query. A query gets one fault at
//! most, so that its fate in the player's accounts is certain.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use strum::{Display, IntoStaticStr, VariantArray};

/// A change to one query or its reply. Beside each stands the fate that the player must count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Display, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Fault {
    /// The relay drops the query: lost.
    DropQuery,
    /// The relay drops the reply: lost.
    DropReply,
    /// The reply waits for less than the timeout: correct.
    Delay,
    /// The reply waits for more than the timeout and less than the drain: late.
    Late,
    /// The relay sends the reply twice: correct, and one duplicate.
    Duplicate,
    /// The reply waits for the next one on its flow: correct.
    Reorder,
    /// The reply has an ID that is not outstanding: lost, and one unsolicited.
    WrongId,
    /// The reply's question has another name: wrong, `question`.
    WrongQuestion,
    /// A bit of the reply's question is flipped: wrong, `question`.
    Corrupt,
    /// The reply has the rcode SERVFAIL: wrong, `rcode` (if the dataset expects another one).
    WrongRcode,
    /// A bit of the data of the reply's first answer is flipped: wrong, `answer` (if the dataset expects the answer,
    /// and there is one).
    WrongData,
    /// The reply has QR=0: wrong, `not-a-response`.
    NotAReply,
    /// The reply ends within its question: wrong, `short`.
    CutShort,
    /// The reply comes from another port: lost, and one unsolicited.
    WrongPort,
    /// The reply has TC=1: correct, and truncated.
    Truncate,
}

impl Fault {
    /// All of them, in the order in which a draw considers them.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Its name on the command line and in the counts.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The cause for which the player counts the reply as wrong; `None` if it does not.
    pub fn wrong_cause(self) -> Option<&'static str> {
        match self {
            Self::WrongQuestion | Self::Corrupt => Some("question"),
            Self::WrongRcode => Some("rcode"),
            Self::WrongData => Some("answer"),
            Self::NotAReply => Some("not-a-response"),
            Self::CutShort => Some("short"),
            _ => None,
        }
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
        let is_named = |fault: &&Fault| name == "every" || name == fault.name();
        let faults: Vec<Fault> = Fault::ALL.iter().filter(is_named).copied().collect();
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
pub struct Plan {
    /// Fault → the upper end of its part of 0 to 1, in ascending order.
    upper_ends: Vec<(f64, Fault)>,
}

impl Plan {
    /// A plan of these shares. Later shares replace earlier ones of the same fault. An error if their sum is
    /// more than 1.
    pub fn from_shares(shares: &[Share]) -> Result<Self> {
        let mut wanted = BTreeMap::new();
        for one in shares {
            wanted.extend(one.faults.iter().map(|fault| (*fault, one.share)));
        }
        let mut sum = 0.0;
        let mut upper_ends = Vec::new();
        for (fault, share) in wanted {
            sum += share;
            upper_ends.push((sum, fault));
        }
        if sum > 1.0 {
            bail!("the shares of all faults add up to {sum}, and a query meets one fault at most");
        }
        Ok(Self { upper_ends })
    }

    /// A plan that makes every fault for `share_each` of the queries. An error if their sum is more than 1.
    pub fn every(share_each: f64) -> Result<Self> {
        Self::from_shares(&[Share { faults: Fault::ALL.to_vec(), share: share_each }])
    }

    #[inline]
    pub(super) fn draw(&self, random: &mut fastrand::Rng) -> Option<Fault> {
        let end = self.upper_ends.last()?.0;
        let point = random.f64();
        if point >= end {
            return None;
        }
        self.upper_ends.iter().find(|(upper, _)| point < *upper).map(|(_, fault)| *fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_as_they_are() {
        let names: Vec<&str> = Fault::ALL.iter().map(|fault| fault.name()).collect();
        let expected = "drop-query drop-reply delay late duplicate reorder wrong-id wrong-question corrupt \
             wrong-rcode wrong-data not-a-reply cut-short wrong-port truncate";
        assert_eq!(names.join(" "), expected);
        assert_eq!(Fault::DropQuery.to_string(), "drop-query");
    }

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

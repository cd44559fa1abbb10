//! What is compared with what, and what the ratio must be.

use super::Name;
use super::side::{Player, Side};

/// A comparison of two sides.
pub(super) struct Row {
    pub(super) what: &'static str,
    pub(super) figure: Figure,
    pub(super) target: Target,
    pub(super) a: Side,
    pub(super) b: Side,
}

/// Which of a side's figures is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Figure {
    /// Correct answers a second.
    AnsweredRate,
    /// CPU seconds of the player per million answers, where both sides answer as many.
    PlayerCpu,
}

/// What the ratio of side A to side B must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    AtLeast(f64),
    AtMost(f64),
}

/// The windows and sockets that dnsperf does best with here, and kqps gets the same.
const WINDOW: &[&str] = &["-c", "8", "-q", "500"];

/// Few flows with much outstanding on each: what segmentation can gather.
const FEW_FLOWS: &[&str] = &["-c", "4", "-q", "8k", "--io", "gso", "--burst", "64"];

/// A load that both players carry easily.
const EQUAL_RATE: &[&str] = &["-c", "8", "-Q", "150k"];

/// The same with queries that wait for each other for longer than a lag of 50 µs allows.
const EQUAL_RATE_COALESCED: &[&str] = &["-c", "8", "-Q", "150k", "--coalesce", "100us"];

/// The same load in dnsperf's words.
const EQUAL_RATE_DNSPERF: &[&str] = &["-c", "8", "-q", "500", "-Q", "150000"];

/// The rows of one table.
pub(super) fn of(name: Name) -> Vec<Row> {
    match name {
        Name::Player => player(),
        Name::Echo => echo(),
    }
}

fn player() -> Vec<Row> {
    let kqps = |echo, flags| Side { player: Player::Kqps, flags, echo };
    let dnsperf = |echo, flags| Side { player: Player::Dnsperf, flags, echo };
    vec![
        Row {
            what: "answered rate at echo mmsg: kqps / dnsperf",
            figure: Figure::AnsweredRate,
            target: Target::AtLeast(1.6),
            a: kqps("mmsg", WINDOW),
            b: dnsperf("mmsg", WINDOW),
        },
        Row {
            what: "answered rate at echo segment, few flows: kqps / dnsperf",
            figure: Figure::AnsweredRate,
            target: Target::AtLeast(10.0),
            a: kqps("segment", FEW_FLOWS),
            b: dnsperf("segment", WINDOW),
        },
        Row {
            what: "player's CPU per million answers at 150 kqps: kqps / dnsperf",
            figure: Figure::PlayerCpu,
            target: Target::AtMost(0.4),
            a: kqps("mmsg", EQUAL_RATE),
            b: dnsperf("mmsg", EQUAL_RATE_DNSPERF),
        },
        Row {
            what: "the same, with --coalesce 100us",
            figure: Figure::PlayerCpu,
            target: Target::AtMost(0.4),
            a: kqps("mmsg", EQUAL_RATE_COALESCED),
            b: dnsperf("mmsg", EQUAL_RATE_DNSPERF),
        },
    ]
}

fn echo() -> Vec<Row> {
    let kqps = |echo, flags| Side { player: Player::Kqps, flags, echo };
    vec![
        Row {
            what: "answered rate: echo mmsg / echo blocking",
            figure: Figure::AnsweredRate,
            target: Target::AtLeast(1.15),
            a: kqps("mmsg", WINDOW),
            b: kqps("blocking", WINDOW),
        },
        Row {
            what: "answered rate, few flows: echo segment / echo mmsg",
            figure: Figure::AnsweredRate,
            target: Target::AtLeast(8.0),
            a: kqps("segment", FEW_FLOWS),
            b: kqps("mmsg", FEW_FLOWS),
        },
    ]
}

impl Target {
    pub(super) fn is_met(self, ratio: f64) -> bool {
        match self {
            Self::AtLeast(least) => ratio >= least,
            Self::AtMost(most) => ratio <= most,
        }
    }

    pub(super) fn words(self) -> String {
        match self {
            Self::AtLeast(least) => format!("≥ {least}"),
            Self::AtMost(most) => format!("≤ {most}"),
        }
    }
}

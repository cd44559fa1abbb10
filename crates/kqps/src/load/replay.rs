//! How a capture is replayed: which part of it, how fast, and how many clients and transports it needs.

use std::collections::BTreeMap;
use std::time::Duration;

use kqps_catalogue::value::scaled;
use kqps_dataset::{CaptureFacts, Carried, Dataset};
use kqps_observation::trial::Transport;
use kqps_player::{Arrivals, LoadPlan, ReplayPlan};

use super::target::parse_transport;
use crate::exit::bad_input;
use crate::value::{parse_count, parse_some_time};

/// The greatest accepted speed. A greater one is a slip.
const SPEED_MOST: f64 = 1e6;

/// The shortest pass, seconds: all queries of a capture may have one stamp.
const PASS_LEAST_S: f64 = 1e-3;

/// Parses a speed: a positive factor, such as `2x`.
pub(super) fn parse_speed(text: &str) -> Result<f64, String> {
    let speed = scaled(text, &[("x", 1.0), ("", 1.0)]).filter(|speed| *speed > 0.0 && *speed <= SPEED_MOST);
    speed.ok_or_else(|| "expected how many times as fast, such as 2x or 0.5x".into())
}

/// How often all queries are sent, and the pause between two passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repeat {
    pub(super) times: u64,
    /// Only for captures.
    pub(super) gap: Option<Duration>,
}

/// Parses a number of passes: `COUNT` or `COUNT:GAP`.
pub(super) fn parse_repeat(text: &str) -> Result<Repeat, String> {
    let (times, gap) = text.split_once(':').map_or((text, None), |(times, gap)| (times, Some(gap)));
    Ok(Repeat { times: parse_count(times)?, gap: gap.map(parse_some_time).transpose()? })
}

/// The load that the flags ask of a capture.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestedLoad {
    pub(super) rate_qps: Option<f64>,
    pub(super) arrivals: Option<Arrivals>,
    pub(super) outstanding: Option<u64>,
    pub(super) speed: Option<f64>,
}

impl RequestedLoad {
    /// The speed of the captured gaps, and the load, of a capture with this mean rate.
    pub(super) fn load(&self, captured_qps: f64) -> anyhow::Result<(f64, LoadPlan)> {
        let Self { rate_qps, arrivals, outstanding: window, speed } = *self;
        let captured = |speed: f64| {
            let rate_qps = captured_qps * speed;
            (speed, LoadPlan::Open { rate_qps, arrivals: Arrivals::Captured, window })
        };
        match (rate_qps, arrivals, window) {
            (Some(_), Some(Arrivals::Captured), _) if speed.is_some() => {
                Err(bad_input("--speed and -Q both say how fast the captured gaps are played: leave one out"))
            }
            (Some(rate_qps), Some(Arrivals::Captured), _) => Ok(captured(rate_qps / captured_qps)),
            (Some(_), ..) if speed.is_some() => Err(bad_input(
                "--speed is for captured gaps: leave out -Q, or add --arrivals captured instead",
            )),
            (Some(rate_qps), arrivals, window) => {
                let arrivals = arrivals.unwrap_or_default();
                Ok((1.0, LoadPlan::Open { rate_qps, arrivals, window }))
            }
            (None, None, Some(outstanding)) => match speed {
                None => Ok((1.0, LoadPlan::Closed { outstanding })),
                Some(_) => Err(bad_input(
                    "--speed is for captured gaps, and -q alone has none: add --arrivals captured to have both",
                )),
            },
            // Other arrivals without a rate were refused before.
            (None, ..) => Ok(captured(speed.unwrap_or(1.0))),
        }
    }
}

/// A capture that a plan plays.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    pub(crate) plan: ReplayPlan,
    /// Clients, those of every slice counted anew.
    pub(crate) clients: u64,
    /// Connections that are open at once, likewise.
    pub(crate) places: u64,
    /// The transport that queries came by → their number, in the whole capture.
    pub(crate) by_transport: BTreeMap<Carried, u64>,
    /// Whether queries go by the transport that they came by, unless the user names one.
    pub(crate) keeps_transports: bool,
    /// The transports that clients are shared out to, instead of those that they came by.
    pub(crate) mix: Option<Mix>,
}

/// The shares of the clients of a capture that go by several transports, in the order of their transports as typed. They
/// add up to 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mix(pub(crate) Vec<(Transport, f64)>);

/// Parses a mix of transports: `udp=60,tls=30,https=10`.
pub(super) fn parse_mix(text: &str) -> Result<Mix, String> {
    let expected = || "expected two transports or more with their shares, such as udp=60,tls=30,https=10";
    let one = |word: &str| {
        let (transport, share) = word.split_once('=').ok_or_else(expected)?;
        let share: f64 = share.trim_end_matches('%').parse().map_err(|_| expected())?;
        let is_share = share > 0.0 && share.is_finite();
        if is_share { Ok((parse_transport(transport)?, share)) } else { Err(expected().to_owned()) }
    };
    let mut shares = text.split(',').map(one).collect::<Result<Vec<(Transport, f64)>, String>>()?;
    let is_double = |at: usize| shares[..at].iter().any(|(other, _)| *other == shares[at].0);
    if let Some(double) = (0..shares.len()).find(|at| is_double(*at)) {
        return Err(format!("{} has two shares", shares[double].0.word()));
    }
    if shares.len() < 2 {
        return Err(expected().to_owned());
    }
    let all: f64 = shares.iter().map(|(_, share)| share).sum();
    for (_, share) in &mut shares {
        *share /= all;
    }
    Ok(Mix(shares))
}

impl Captured {
    /// The capture with a plan for it.
    pub(crate) fn new(facts: &CaptureFacts, plan: ReplayPlan, keeps_transports: bool) -> Self {
        let pile = u64::from(plan.pile);
        Self {
            clients: u64::from(facts.clients) * pile,
            places: u64::from(facts.places) * pile,
            by_transport: facts.by_transport.clone(),
            keeps_transports,
            mix: None,
            plan,
        }
    }
}

/// Passes over a capture that fill this time, pauses left out.
pub(super) fn passes_within(time: Duration, plan: &ReplayPlan, facts: &CaptureFacts) -> u64 {
    let end = plan.to.unwrap_or(Duration::MAX).min(Duration::from_nanos(facts.duration_ns));
    let pass_s = end.saturating_sub(plan.from).as_secs_f64() / f64::from(plan.pile) / plan.speed;
    (time.as_secs_f64() / pass_s.max(PASS_LEAST_S)).ceil() as u64 + 1
}

/// The replay by a plan that says nothing of captures, such as a study's: all of the capture. The hash of the capture
/// is the seed. So all trials of a run map clients alike, and the mapping is unknown without the capture. `None` for
/// other queries.
pub(crate) fn usual_replay(dataset: &Dataset) -> Option<ReplayPlan> {
    dataset.capture()?;
    let hash = dataset.hash();
    let seed = hash.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or_default();
    Some(ReplayPlan { seed, ..ReplayPlan::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(asked: RequestedLoad) -> Result<(f64, LoadPlan), String> {
        asked.load(1_000.0).map_err(|error| error.to_string())
    }

    #[test]
    fn a_capture_is_played_as_it_came_unless_the_flags_say_otherwise() {
        let open = |rate_qps, arrivals, window| LoadPlan::Open { rate_qps, arrivals, window };
        let (captured, none) = (Some(Arrivals::Captured), RequestedLoad::default());
        assert_eq!(load(none), Ok((1.0, open(1_000.0, Arrivals::Captured, None))));
        assert_eq!(
            load(RequestedLoad { speed: Some(2.0), ..none }),
            Ok((2.0, open(2_000.0, Arrivals::Captured, None)))
        );
        let at_rate = RequestedLoad { rate_qps: Some(500.0), ..none };
        assert_eq!(load(at_rate), Ok((1.0, open(500.0, Arrivals::Even, None))));
        let scaled = RequestedLoad { arrivals: captured, ..at_rate };
        assert_eq!(load(scaled), Ok((0.5, open(500.0, Arrivals::Captured, None))));
        let closed = RequestedLoad { outstanding: Some(7), ..none };
        assert_eq!(load(closed), Ok((1.0, LoadPlan::Closed { outstanding: 7 })));
        let limited = RequestedLoad { arrivals: captured, ..closed };
        assert_eq!(load(limited), Ok((1.0, open(1_000.0, Arrivals::Captured, Some(7)))));
        for (asked, wanted) in [(scaled, "leave one out"), (at_rate, "leave out -Q"), (closed, "-q alone")] {
            let error = load(RequestedLoad { speed: Some(2.0), ..asked }).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn as_many_passes_as_fill_the_time() {
        let facts = CaptureFacts { duration_ns: 10_000_000_000, ..CaptureFacts::default() };
        let passes = |plan: ReplayPlan| passes_within(Duration::from_mins(1), &plan, &facts);
        assert_eq!(passes(ReplayPlan::default()), 7);
        assert_eq!(passes(ReplayPlan { speed: 2.0, pile: 2, ..ReplayPlan::default() }), 25);
        let window = ReplayPlan { from: Duration::from_secs(4), ..ReplayPlan::default() };
        assert_eq!(passes(window), 11);
    }

    #[test]
    fn a_mix_has_shares_of_transports_in_any_unit() {
        let shares = |text: &str| parse_mix(text).map(|Mix(shares)| shares);
        let wanted = vec![(Transport::Udp, 0.625), (Transport::Tls, 0.25), (Transport::Https, 0.125)];
        assert_eq!(shares("udp=62.5,tls=25,https=12.5"), Ok(wanted.clone()));
        assert_eq!(shares("udp=5%,dot=2%,doh=1%"), Ok(wanted));
        for (bad, why) in [
            ("", "such as udp=60"),
            ("udp=60", "two transports"),
            ("udp,tls", "such as"),
            ("udp=60,tls=", "such as"),
            ("udp=60,tls=0", "such as"),
            ("udp=60,tls=-1", "such as"),
            ("udp=1,udp=2", "udp has two shares"),
            ("udp=1,gopher=2", "udp, tcp, tls"),
        ] {
            let error = parse_mix(bad).unwrap_err();
            assert!(error.contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn speeds_and_repeats_are_typed_with_their_units() {
        assert_eq!((parse_speed("2x"), parse_speed("0.5")), (Ok(2.0), Ok(0.5)));
        for bad in ["", "x", "0x", "-1x", "2y", "1e9x"] {
            assert!(parse_speed(bad).unwrap_err().contains("such as 2x"), "{bad}");
        }
        assert_eq!(parse_repeat("3"), Ok(Repeat { times: 3, gap: None }));
        assert_eq!(parse_repeat("1k:10s"), Ok(Repeat { times: 1000, gap: Some(Duration::from_secs(10)) }));
        for bad in ["", ":", "3:", ":1s", "3:0s", "x"] {
            assert!(parse_repeat(bad).is_err(), "{bad}");
        }
    }
}

//! The replay of a capture: which queries a thread plays, when, for which client, and on which of its flows.
//!
//! A [`window`] of the capture is cut into slices, which are played at the same time with clients of their own. The
//! [`census`] counts what they hold. The [`crowd`] are the clients of all slices, with their source addresses.
//! [`flows`] says which thread plays which client, or which connection of the capture, and on which flow. Each thread
//! has a [`cursor`]: it goes over all queries of the slices, stops at those of its own, and knows when they are due.
//! A [`mix`] gives each client a transport, whatever its queries came by.

pub(crate) mod census;
pub(crate) mod crowd;
pub(crate) mod cursor;
pub(crate) mod flows;
pub(crate) mod mix;
pub(crate) mod window;

use std::net::IpAddr;
use std::sync::Arc;

use kqps_dataset::{CaptureFacts, Captured, Carried, Dataset};

use crate::plan::{Arrivals, LoadPlan, Plan, ReplayPlan, Wire, whole_ns};
use crate::schedule::Schedule;
use census::Census;
use crowd::Crowd;
use cursor::{Clock, Cursor, Passes};
use flows::Flows;
use mix::Mix;
use window::Window;

/// The transports of captures.
pub(crate) const TRANSPORTS: [Carried; Carried::ALL.len()] = Carried::ALL;

/// The transports that have a lane in a plan, by their numbers; all if there are no lanes.
pub(crate) fn lanes_of(wire: &Wire) -> [bool; TRANSPORTS.len()] {
    let Wire::Captured(lanes) = wire else { return [true; TRANSPORTS.len()] };
    TRANSPORTS.map(|carried| lanes.iter().any(|lane| lane.carried == carried))
}

/// The mean rate of captured arrivals, queries per second: the queries of the window that came by these transports
/// (`None` for all), over the time that one pass takes, without the gap. 1 if there is no such query.
pub fn mean_rate_qps(plan: &ReplayPlan, dataset: &Dataset, carried: Option<&[Carried]>) -> f64 {
    let Some(capture) = dataset.capture() else { return 1.0 };
    let window_ns = plan.window_ns(capture.duration_ns);
    let counts = census::queries(dataset, &Window::new(dataset, plan), capture);
    let is_played = |one: Carried| carried.is_none_or(|carried| carried.contains(&one));
    let played = TRANSPORTS.into_iter().zip(counts).filter(|(one, _)| is_played(*one));
    let queries = played.map(|(_, count)| count).sum::<u64>() as f64;
    let pass_s = (window_ns.end - window_ns.start) as f64 / 1e9 / f64::from(plan.pile) / plan.speed;
    let rate_qps = if pass_s > 0.0 { queries / pass_s } else { queries };
    if rate_qps > 0.0 { rate_qps } else { 1.0 }
}

/// The source addresses that the clients of a replay are mapped to, each once. Of more than `most` of them as many,
/// evenly spread, with the lowest and the highest. None if the plan has no source addresses, or the dataset is no
/// capture.
pub fn source_addresses(plan: &Plan, dataset: &Dataset, most: usize) -> Vec<IpAddr> {
    let (Some(replay), Some(sources), Some(capture)) = (&plan.replay, plan.local, dataset.capture()) else {
        return Vec::new();
    };
    let crowd = Cast::new(plan, replay, dataset, capture).crowd;
    let numbers = crowd.used_addresses();
    let last = numbers.len().saturating_sub(1);
    let count = numbers.len().min(most.max(2));
    (0..count).map(|index| sources.of_number(numbers[index * last / (count - 1).max(1)])).collect()
}

/// The clients and queries of a replay.
pub(crate) struct Cast {
    pub(crate) window: Window,
    pub(crate) crowd: Crowd,
    /// The queries of one pass, by the numbers of the transports that they came by, or go by in a mix.
    pub(crate) queries: [u64; TRANSPORTS.len()],
}

impl Cast {
    pub(crate) fn new(plan: &Plan, replay: &ReplayPlan, dataset: &Dataset, capture: &CaptureFacts) -> Self {
        let window = Window::new(dataset, replay);
        let mut census = Census::from_window(dataset, &window, capture);
        if let Some(mix) = Mix::from_wire(&plan.wire) {
            mix.give(&mut census.asks, replay.seed);
            census.count_again(dataset, &window, capture);
        }
        let Census { queries, asks } = census;
        let crowd = Crowd::new(dataset, replay, plan.local.as_ref(), asks, lanes_of(&plan.wire));
        Self { window, crowd, queries }
    }
}

/// The part of a replay that the threads of one wire play.
pub(crate) struct Replayed {
    pub(crate) window: Arc<Window>,
    pub(crate) crowd: Arc<Crowd>,
    pub(crate) flows: Flows,
    /// The transport whose queries they play; `None` for those of all.
    pub(crate) carried: Option<Carried>,
    /// The share of the clients that play; `None` unless a mix decides which transport a client's queries go by.
    pub(crate) share: Option<f64>,
    /// The transports that have a lane, by their numbers.
    pub(crate) lanes: [bool; TRANSPORTS.len()],
    /// The queries of one pass, of all wires, by the numbers of their transports.
    pub(crate) queries: [u64; TRANSPORTS.len()],
    /// Whether the first of these threads counts the queries that no thread plays.
    pub(crate) counts_unplayed: bool,
    /// Whether connections begin and end as captured.
    pub(crate) follows: bool,
    pub(crate) plan: ReplayPlan,
    /// The load of all threads of the trial.
    pub(crate) load: LoadPlan,
}

impl Replayed {
    /// The queries of thread `thread` of those that share the wire.
    pub(crate) fn cursor<'a>(&'a self, dataset: &'a Dataset, plan: &Plan, thread: usize) -> Cursor<'a> {
        let clock = match self.load {
            LoadPlan::Open { arrivals: Arrivals::Captured, .. } => Clock::Captured,
            LoadPlan::Open { rate_qps, arrivals, .. } => {
                let schedule = Schedule::new(rate_qps, 1, 0, arrivals, plan.seed);
                Clock::Scheduled(Box::new(schedule.along(plan.course.as_ref())))
            }
            LoadPlan::Closed { .. } | LoadPlan::Limited { .. } => Clock::None,
        };
        let count = match (&clock, plan.stop.passes) {
            (Clock::Captured, passes) => self.plan.repeat.saturating_mul(passes.unwrap_or(1)),
            (_, Some(passes)) => self.plan.repeat.saturating_mul(passes),
            (_, None) => u64::MAX,
        };
        let passes = Passes { count, gap_ns: whole_ns(self.plan.gap) };
        Cursor::new(dataset, self, thread, clock, passes)
    }

    /// Whose the query is: of the thread with this number, of another one, or of none.
    #[inline]
    pub(crate) fn whose(&self, captured: &Captured, slice: u32, thread: usize) -> Whose {
        match self.carried {
            Some(carried) if self.share.is_some() => {
                let client = self.crowd.number(slice, captured.client);
                if !self.crowd.asks_by(client, Some(carried)) {
                    return Whose::Others;
                }
            }
            Some(carried) if carried != captured.carried => {
                return if self.lanes[captured.carried.number()] { Whose::Others } else { Whose::NoOnes };
            }
            _ => {}
        }
        let number = self.flows.number(captured, slice);
        if self.flows.owner(number) == thread { Whose::Own } else { Whose::Others }
    }
}

/// Whose a query is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Own,
    Others,
    /// Its transport has no lane.
    NoOnes,
}

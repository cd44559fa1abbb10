//! The threads of a trial that share one wire: all of them, or those of a lane. Each team plays a plan of its own.

use std::ops::Range;
use std::sync::Arc;

use kqps_dataset::{CaptureFacts, Carried, Dataset};

use crate::files;
use crate::plan::{CONNECTIONS_MOST, Lane, LoadPlan, Plan, ReplayPlan, SOCKETS_MOST, Wire};
use crate::replay::crowd::Crowd;
use crate::replay::flows::Flows;
use crate::replay::window::Window;
use crate::replay::{Cast, Replayed, TRANSPORTS, lanes_of};
use crate::share::{share_of, tables};

/// Threads that share one wire.
pub(crate) struct Team {
    /// Their plan. Its wire is none of lanes, and has as many sockets or connections as they use.
    pub(crate) plan: Plan,
    /// Their numbers among all threads.
    pub(crate) threads: Range<usize>,
    /// Their part of a replay; `None` unless the queries are a capture.
    pub(crate) replay: Option<Replayed>,
}

impl Team {
    /// The sockets of its threads, or their places for connections.
    pub(crate) fn sockets(&self) -> usize {
        let of_replay = self.replay.as_ref().map(|replay| replay.flows.all() / replay.flows.together());
        of_replay.unwrap_or_else(|| self.plan.flows())
    }

    /// Whether connections begin and end as captured.
    pub(crate) fn follows(&self) -> bool {
        self.replay.as_ref().is_some_and(|replay| replay.follows)
    }
}

/// The teams of a plan that fits its dataset.
pub(crate) fn teams(plan: &Plan, dataset: &Dataset) -> Vec<Team> {
    let (Some(replay), Some(capture)) = (&plan.replay, dataset.capture()) else {
        return vec![Team { plan: plan.clone(), threads: 0..plan.threads, replay: None }];
    };
    let Cast { window, crowd, queries } = Cast::new(plan, replay, dataset, capture);
    let (window, crowd) = (Arc::new(window), Arc::new(crowd));
    let of_all = OfAll { plan, replay, capture, window, crowd, queries, lanes: lanes_of(&plan.wire) };
    match &plan.wire {
        Wire::Captured(lanes) => of_all.lanes(lanes),
        _ => vec![of_all.team(None, plan.clone(), 0..plan.threads)],
    }
}

/// The data that the teams of a replay have in common.
struct OfAll<'a> {
    plan: &'a Plan,
    replay: &'a ReplayPlan,
    capture: &'a CaptureFacts,
    window: Arc<Window>,
    crowd: Arc<Crowd>,
    /// The queries of one pass by lanes, and the transports that have a lane, by their numbers.
    queries: [u64; TRANSPORTS.len()],
    lanes: [bool; TRANSPORTS.len()],
}

impl OfAll<'_> {
    fn lanes(&self, lanes: &[Lane]) -> Vec<Team> {
        let mut first = 0;
        let team = |lane: &Lane| {
            let threads = first..first + lane.threads;
            first = threads.end;
            let plan = Plan {
                targets: lane.targets_in(self.plan).to_vec(),
                wire: lane.wire.clone(),
                threads: lane.threads,
                load: self.load(lane, &threads),
                ..self.plan.clone()
            };
            self.team(Some(lane), plan, threads)
        };
        lanes.iter().map(team).collect()
    }

    /// The load of a lane: of the rate as much as its transport has of the queries with a lane, of the window as much
    /// as its threads have of all threads.
    fn load(&self, lane: &Lane, threads: &Range<usize>) -> LoadPlan {
        let played = self.queries.iter().zip(self.lanes).filter(|(_, has_lane)| *has_lane);
        let queries: u64 = played.map(|(count, _)| count).sum();
        let of_lane = self.queries[lane.carried.number()];
        let share = of_lane.max(1) as f64 / queries.max(1) as f64;
        let all = self.plan.threads;
        let of_window = |window: u64| {
            let last = threads.end.saturating_sub(1).max(threads.start);
            share_of(window, all, last).end - share_of(window, all, threads.start).start
        };
        match self.plan.load {
            LoadPlan::Open { rate_qps, arrivals, window } => {
                LoadPlan::Open { rate_qps: rate_qps * share, arrivals, window: window.map(of_window) }
            }
            LoadPlan::Closed { outstanding } => LoadPlan::Closed { outstanding: of_window(outstanding) },
            LoadPlan::Limited { outstanding, rate_qps } => {
                LoadPlan::Limited { outstanding: of_window(outstanding), rate_qps: rate_qps * share }
            }
        }
    }

    fn team(&self, lane: Option<&Lane>, mut plan: Plan, threads: Range<usize>) -> Team {
        let follows = lane.is_some_and(Lane::has_places);
        let carried = lane.map(|lane| lane.carried);
        let flows = self.flows(&plan, carried, follows);
        plan.wire.set_flows(flows.all() / flows.together());
        let replay = Replayed {
            window: Arc::clone(&self.window),
            crowd: Arc::clone(&self.crowd),
            flows,
            carried,
            share: lane.and_then(|lane| lane.share),
            lanes: self.lanes,
            queries: self.queries,
            counts_unplayed: threads.start == 0,
            follows,
            plan: self.replay.clone(),
            load: self.plan.load,
        };
        Team { plan, threads, replay: Some(replay) }
    }

    /// The flows of a team for the queries of `carried`, or for all. `follows` is whether connections begin and end as
    /// captured.
    fn flows(&self, plan: &Plan, carried: Option<Carried>, follows: bool) -> Flows {
        let (crowd, threads) = (&*self.crowd, plan.threads);
        let of_files = files::sockets_most(self.plan.threads) * threads / self.plan.threads.max(1);
        let connections_most = CONNECTIONS_MOST.min(of_files).max(threads);
        match &plan.wire {
            Wire::Udp(_) => {
                let settle = plan.timeout.saturating_add(plan.drain);
                let of_each = tables(plan.load, plan.timeout, settle).div_ceil(threads);
                // Addresses tell the tables of a socket apart.
                let of_addresses = 1 << crowd.used().ilog2();
                let together = of_each.next_power_of_two().min(of_addresses);
                let sockets_most = SOCKETS_MOST.min(of_files).max(threads);
                Flows::of_datagrams(crowd, carried, threads, (sockets_most, together))
            }
            // A ring closes a socket a little after the next one is made.
            Wire::Tcp(_) if follows => {
                Flows::of_places(self.capture.places.max(1), self.replay.pile, threads, connections_most / 2)
            }
            // Each query has a connection of its own, from the address of its client.
            Wire::Tcp(tcp) if tcp.connection_use().uses_of_connection() == Some(1) => {
                Flows::of_any(crowd, threads, tcp.connections)
            }
            _ => Flows::of_clients(crowd, carried, threads, connections_most),
        }
    }
}

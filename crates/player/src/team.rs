//! The threads of a trial that share one wire: all of them, or those of a lane. Each team plays a plan of its own.

use std::ops::Range;
use std::sync::Arc;

use kqps_dataset::{CaptureFacts, Carried, Dataset};
use kqps_kernel::limits;

use crate::plan::{CONNECTIONS_MOST, Lane, LoadPlan, Plan, ReplayPlan, SOCKETS_MOST, Wire};
use crate::replay::crowd::Crowd;
use crate::replay::flows::Flows;
use crate::replay::window::Window;
use crate::replay::{Replayed, TRANSPORTS, number_of};
use crate::share::{share_of, tables};

/// Descriptors that are left to the program itself, and to each thread.
const OTHER_FILES: usize = 64;
const FILES_PER_THREAD: usize = 8;

/// Threads that share one wire.
pub(crate) struct Team {
    /// Their plan. Its wire is none of lanes, and has as many sockets or connections as they use.
    pub(crate) plan: Plan,
    /// Their numbers among all threads.
    pub(crate) threads: Range<usize>,
    /// What they replay; `None` unless the queries are a capture.
    pub(crate) replay: Option<Replayed>,
}

impl Team {
    /// The flows that the thread with this first flow would have, if all flows of the plan were shared evenly.
    pub(crate) fn share_of_flows(&self, first: usize) -> Range<usize> {
        let before = |thread: usize| self.replay.as_ref().map_or(0, |replay| replay.flows.before(thread));
        let thread = (0..self.plan.threads).rfind(|thread| before(*thread) <= first).unwrap_or(0);
        let share = share_of(self.plan.flows() as u64, self.plan.threads, thread);
        share.start as usize..share.end as usize
    }
}

/// The teams of a plan that fits its dataset.
pub(crate) fn teams(plan: &Plan, dataset: &Dataset) -> Vec<Team> {
    let (Some(replay), Some(capture)) = (&plan.replay, dataset.capture()) else {
        return vec![Team { plan: plan.clone(), threads: 0..plan.threads, replay: None }];
    };
    let of_all = OfAll {
        plan,
        replay,
        capture,
        window: Arc::new(Window::new(dataset, replay)),
        crowd: Arc::new(Crowd::new(dataset, replay, plan.local.as_ref())),
    };
    match &plan.wire {
        Wire::Captured(lanes) => of_all.lanes(lanes),
        _ => vec![of_all.team(None, plan.clone(), 0..plan.threads)],
    }
}

/// What the teams of a replay have in common.
struct OfAll<'a> {
    plan: &'a Plan,
    replay: &'a ReplayPlan,
    capture: &'a CaptureFacts,
    window: Arc<Window>,
    crowd: Arc<Crowd>,
}

impl OfAll<'_> {
    fn lanes(&self, lanes: &[Lane]) -> Vec<Team> {
        let mut first = 0;
        let team = |lane: &Lane| {
            let threads = first..first + lane.threads;
            first = threads.end;
            let plan = Plan {
                wire: lane.wire.clone(),
                threads: lane.threads,
                load: self.load(lane, &threads),
                ..self.plan.clone()
            };
            self.team(Some(lane), plan, threads)
        };
        lanes.iter().map(team).collect()
    }

    /// The load of a lane: of the rate as much as its transport has of the capture's queries, of the window as much as
    /// its threads have of all threads.
    fn load(&self, lane: &Lane, threads: &Range<usize>) -> LoadPlan {
        let queries: u64 = self.capture.by_transport.values().sum();
        let of_lane = self.capture.by_transport.get(&lane.carried).copied().unwrap_or(0);
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
        }
    }

    fn team(&self, lane: Option<&Lane>, mut plan: Plan, threads: Range<usize>) -> Team {
        let follows = lane.is_some_and(Lane::has_places);
        let flows = self.flows(&plan, follows);
        match &mut plan.wire {
            Wire::Udp(udp) => udp.sockets = flows.all() / flows.together(),
            Wire::Tcp(tcp) => tcp.connections = flows.all(),
            Wire::Quic(quic) => quic.connections = flows.all(),
            Wire::Captured(_) => {}
        }
        let replay = Replayed {
            window: Arc::clone(&self.window),
            crowd: Arc::clone(&self.crowd),
            flows,
            carried: lane.map(|lane| lane.carried),
            lanes: self.has_lanes(),
            counts_unplayed: threads.start == 0,
            follows,
            plan: self.replay.clone(),
            load: self.plan.load,
        };
        Team { plan, threads, replay: Some(replay) }
    }

    /// The transports that have a lane; all if there are no lanes.
    fn has_lanes(&self) -> [bool; TRANSPORTS.len()] {
        let Wire::Captured(lanes) = &self.plan.wire else { return [true; TRANSPORTS.len()] };
        TRANSPORTS
            .map(|carried: Carried| lanes.iter().any(|lane| number_of(lane.carried) == number_of(carried)))
    }

    /// The flows of a team. `follows` is whether connections begin and end as captured.
    fn flows(&self, plan: &Plan, follows: bool) -> Flows {
        let (crowd, threads) = (&*self.crowd, plan.threads);
        let of_files = files_left(self.plan.threads) * threads / self.plan.threads.max(1);
        let connections_most = CONNECTIONS_MOST.min(of_files).max(threads);
        match &plan.wire {
            Wire::Udp(_) => {
                let settle = plan.timeout.saturating_add(plan.drain);
                let of_each = tables(plan.load, plan.timeout, settle).div_ceil(threads);
                // Addresses tell the tables of a socket apart.
                let of_addresses = 1 << crowd.used().ilog2();
                let together = of_each.next_power_of_two().min(of_addresses);
                let sockets_most = SOCKETS_MOST.min(of_files).max(threads);
                Flows::of_datagrams(crowd, threads, sockets_most, together)
            }
            Wire::Tcp(_) if follows => {
                Flows::of_places(self.capture.places.max(1), self.replay.pile, threads)
            }
            // Each query has a connection of its own, from the address of its client.
            Wire::Tcp(tcp) if tcp.uses_of_connection() == Some(1) => {
                Flows::of_any(crowd, threads, tcp.connections)
            }
            Wire::Tcp(_) | Wire::Quic(_) | Wire::Captured(_) => {
                Flows::of_clients(crowd, threads, connections_most)
            }
        }
    }
}

/// How many sockets the process may open beside its other files.
fn files_left(threads: usize) -> usize {
    let limit = limits::raise_open_files().unwrap_or(1024);
    let others = OTHER_FILES + threads * FILES_PER_THREAD;
    usize::try_from(limit).unwrap_or(usize::MAX).min(1 << 30).saturating_sub(others).max(1)
}

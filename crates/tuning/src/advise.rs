//! Advice on where a host should receive queries and where its name server should answer them, and on the settings
//! around that. It is a pure function of what the host is and of what is known of the server. It proposes; a
//! measurement decides.

mod arrange;
mod cores;
mod estimate;
mod ground;
mod host;
mod interface;
mod layout;
mod moves;
mod notes;
mod place;
mod rank;
mod value;
mod words;

use kqps_host::setup::HostSetup;
use kqps_host::topology::Topology;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use estimate::Costs;
use ground::Ground;
use place::Demands;

pub use layout::{Kind, Layout};

/// A request for advice, with known facts of the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ask {
    /// The device that carries the queries; `None` for the fastest one.
    pub device: Option<String>,
    /// Workers of the server; `None` for as many as a layout has room for.
    pub workers: Option<u32>,
    /// Queries a second that the server should answer; `None` for as many as possible.
    pub rate_qps: Option<f64>,
    /// Seconds of softirq for a received packet, from a trial. `None` if not known.
    pub softirq_s_per_packet: Option<f64>,
    /// Seconds of the server's CPU for an answer, from a trial. `None` if not known.
    pub server_s_per_answer: Option<f64>,
    /// Whether all workers share one socket, and have none of their own by `SO_REUSEPORT`.
    #[serde(default)]
    pub one_socket: bool,
}

/// The advice for a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// The device that it is for; `None` if none was found.
    pub device: Option<String>,
    /// Layouts that are worth a trial, the most promising first. Empty if no core may be used.
    pub layouts: Vec<Layout>,
    /// Settings for the first layout, in the order in which they must be applied. What is so already is left out.
    pub pieces: Vec<Piece>,
    /// Facts that the advice lacks, and settings that it cannot change. Each is a sentence or two.
    pub notes: Vec<String>,
}

/// A piece of advice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Piece {
    /// Settings with their values, as `kqps host apply` takes them.
    pub changes: Vec<(String, String)>,
    /// Why it may help.
    pub reason: String,
    /// Who found that it helps, or what documents it.
    pub source: String,
    /// The possible cost of the changes.
    pub cost: String,
    /// Whether applying it takes the device's link down for a while.
    pub takes_link_down: bool,
}

impl Piece {
    fn new(changes: Vec<(String, String)>, reason: &str, source: &str, cost: &str) -> Self {
        let (reason, source, cost) = (reason.into(), source.into(), cost.into());
        Self { changes, reason, source, cost, takes_link_down: false }
    }
}

/// The advice for a host with these settings and these cores that may be used.
pub fn advise(setup: &HostSetup, topology: &Topology, ask: &Ask) -> Advice {
    let ground = Ground::new(setup, topology, ask.device.as_deref());
    let wanted = Demands {
        workers: ask.workers.map(|workers| workers.max(1) as usize),
        rate_qps: ask.rate_qps.filter(|rate_qps| rate_qps.is_finite() && *rate_qps > 0.0),
        costs: Costs::new(ask.softirq_s_per_packet, ask.server_s_per_answer),
        one_socket: ask.one_socket,
    };
    let layouts = arrange::all(&ground, &wanted);
    let mut pieces = interface::pieces(&ground, layouts.first());
    pieces.extend(host::pieces(&ground, layouts.first()));
    let notes = notes::notes(&ground, ask, &layouts, &pieces);
    Advice { device: ground.device.map(|device| device.name.clone()), layouts, pieces, notes }
}

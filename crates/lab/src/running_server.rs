//! Servers that already run, on this host or another. A run plays the user's query file at them, since it does
//! not know their zones. It neither starts nor stops them, so each start is one session with a server.

use kqps_observation::factors::{PlayerFactors, name};
use kqps_observation::run::Role;
use kqps_observation::{Cell, Factors, Target};

use kqps_testbed::echo_io;
use kqps_testbed::player_setup::PlayerSetup;

/// A server that already runs.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningServer {
    /// The name of the server's cell.
    pub name: String,
    /// The server's address, and whether it is on this host.
    pub target: Target,
    /// The user's settings of the player for it: its transport, and the use of connections.
    pub factors: Box<Factors>,
}

/// The user's settings of the player. The path to a server may be longer than on one host, and one thread may
/// not suffice.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlayerRequest {
    /// Sending threads, each on a core of its own if there are enough; `None` for one.
    pub senders: Option<u32>,
    /// Seconds after which a reply is late; `None` for the default, which suits one host.
    pub timeout_s: Option<f64>,
}

impl PlayerRequest {
    /// The number of cores for the player.
    pub(crate) fn cores(self) -> usize {
        self.senders.unwrap_or(1) as usize
    }

    /// The settings of a player with these, and a window of `window` queries and at least one for each thread.
    pub(crate) fn settings(self, window: u32) -> PlayerFactors {
        let PlayerSetup(like) = PlayerSetup::many_flows();
        PlayerFactors {
            senders: self.senders,
            timeout_s: self.timeout_s.or(like.timeout_s),
            window: Some(window.max(self.senders.unwrap_or(1))),
            ..like
        }
    }
}

/// The echo's I/O model that is nearest to most name servers, assumed for a server of which nothing is known.
const USUAL_IO: &str = "mmsg";

impl RunningServer {
    /// The server's cell. The load and the player's cores are those of `like`, and so are the factors that the server
    /// does not set.
    pub fn cell(&self, like: &Cell) -> Cell {
        let factors = like.factors.with(&self.factors).fitting();
        let io = if factors.transport().has_connections() { echo_io::OVER_TCP } else { USUAL_IO };
        Cell {
            name: self.name.clone(),
            role: Role::Subject,
            subject: self.name.clone(),
            version: None,
            io: io.into(),
            workers: 0,
            subject_cpus: Vec::new(),
            target: Some(self.target),
            factors,
            ..like.clone()
        }
    }
}

/// The cell of the player's ceiling against an echo beside a server, on the server's host. `server` is the server's
/// cell. The echo's certificate names its address.
pub fn echo_cell(echo: Target, server: &Cell) -> Cell {
    let io = if server.factors.transport().has_connections() { echo_io::OVER_TCP } else { "segment" };
    let over = PlayerSetup::from_cell(server).over();
    Cell {
        factors: server
            .factors
            .filtered(|name| ![name::PLAYER_TLS_NAME, name::PLAYER_HTTP_PATH].contains(&name)),
        name: format!("player ceiling{over}, echo at {}", echo.address),
        role: Role::PlayerCeiling,
        subject: "echo".into(),
        version: None,
        io: io.into(),
        workers: 0,
        subject_cpus: Vec::new(),
        target: Some(echo),
        ..server.clone()
    }
}

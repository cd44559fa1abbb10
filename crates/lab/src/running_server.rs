//! Servers that already run, on this host or another. A run plays the user's query file at them, since it does
//! not know their zones. It neither starts nor stops them, so each start is one session with a server.

use kqps_observation::run::Role;
use kqps_observation::{Cell, Target};

use crate::player_setup::PlayerSetup;

/// A server that already runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningServer {
    /// The name of the server's cell.
    pub name: String,
    /// The server's address, and whether it is on this host.
    pub target: Target,
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

    /// Applies these settings to another setup. The window has at least one query for each thread.
    pub(crate) fn setup(self, like: PlayerSetup) -> PlayerSetup {
        PlayerSetup {
            senders: self.senders.or(like.senders),
            timeout_s: self.timeout_s.unwrap_or(like.timeout_s),
            window: like.window.max(self.senders.unwrap_or(1)),
            ..like
        }
    }
}

/// The echo's I/O model that is nearest to most name servers, assumed for a server of which nothing is known.
const USUAL_IO: &str = "mmsg";

impl RunningServer {
    /// The server's cell. The load, the player's cores and the factors are those of `like`.
    pub fn cell(&self, like: &Cell) -> Cell {
        Cell {
            name: self.name.clone(),
            role: Role::Subject,
            subject: self.name.clone(),
            version: None,
            io: USUAL_IO.into(),
            workers: 0,
            subject_cpus: Vec::new(),
            target: Some(self.target),
            ..like.clone()
        }
    }
}

/// The cell of the player's ceiling against an echo beside the server, on the server's host.
pub fn echo_cell(echo: Target, like: &Cell) -> Cell {
    Cell {
        name: format!("player ceiling, echo at {}", echo.address),
        role: Role::PlayerCeiling,
        subject: "echo".into(),
        version: None,
        io: "segment".into(),
        workers: 0,
        subject_cpus: Vec::new(),
        target: Some(echo),
        ..like.clone()
    }
}

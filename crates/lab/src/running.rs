//! Servers that run already, on this host or another. A run plays at them with a query file of the user's, since it knows
//! nothing of their zones, and neither starts nor stops them: a start is then one session with a server.

use kqps_observation::run::Role;
use kqps_observation::{Cell, Target};

use crate::setup::Setup;

/// A server that runs already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The name of its cell.
    pub name: String,
    /// Where it answers.
    pub target: Target,
}

/// How the player is set up at such servers, where the user says it: the way to them may be longer, and one thread too few.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlayerWish {
    /// Sending threads, each on a core of its own where there are enough; none for one.
    pub senders: Option<u32>,
    /// Seconds after which a reply is late; none for what is enough on one host.
    pub timeout_s: Option<f64>,
}

impl PlayerWish {
    /// How many cores the player is to have.
    pub(crate) fn cores(self) -> usize {
        self.senders.unwrap_or(1) as usize
    }

    /// The setup that this makes of another. Each thread has a window of one query at least.
    pub(crate) fn setup(self, like: Setup) -> Setup {
        Setup {
            senders: self.senders.or(like.senders),
            timeout_s: self.timeout_s.unwrap_or(like.timeout_s),
            window: like.window.max(self.senders.unwrap_or(1)),
            ..like
        }
    }
}

/// The echo's I/O model that most name servers come nearest to, taken for one of which nothing is known.
const USUAL_IO: &str = "mmsg";

impl Running {
    /// Its cell; the load, the player's cores and the factors are those of `like`.
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

/// The cell of the player's ceiling against an echo that runs beside the server, on its host.
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

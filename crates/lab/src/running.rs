//! Servers that run already, on this host or another. A run plays at them with a query file of the user's, since it knows
//! nothing of their zones, and neither starts nor stops them: a start is then one session with a server.

use kqps_observation::run::Role;
use kqps_observation::{Cell, Target};

/// A server that runs already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The name of its cell.
    pub name: String,
    /// Where it answers.
    pub target: Target,
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

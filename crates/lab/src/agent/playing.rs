//! Trials that an agent plays.

use std::path::Path;
use std::time::Duration;

use kqps_kernel::clock;
use kqps_kernel::interrupts::Interrupts;
use kqps_observation::Trial;

use super::failure::{Failure, plain};
use crate::path::LaidPath;
use crate::play::{PlayRequest, PlayerProgram};
use crate::trial_request::NoTrial;

/// The longest time from a request to the start that it asks for.
const AHEAD_MOST: Duration = Duration::from_mins(1);

/// Plays a trial that begins at `at_ns` on this host's monotonic clock. The main thread must call this.
pub(super) fn play(
    kqps: &Path,
    mut request: PlayRequest,
    queries: &Path,
    at_ns: Option<u64>,
    interrupts: &Interrupts,
) -> Result<Trial, Failure> {
    let ahead_ns = at_ns.map_or(0, |at_ns| at_ns.saturating_sub(clock::now_ns()));
    if Duration::from_nanos(ahead_ns) > AHEAD_MOST {
        return Err(plain(format!(
            "a start in {:.0} s is too far ahead: expected {:.0} s at most",
            ahead_ns as f64 / 1e9,
            AHEAD_MOST.as_secs_f64()
        )));
    }
    request.plan.start_at_ns = at_ns;
    queries.as_os_str().clone_into(&mut request.queries.path);
    // The targets were compared with those of the hosts' file. Standard error is the agent's.
    (request.is_allowed, request.shows_bar) = (true, false);
    // The player sends by the network of this host as it is.
    let player = PlayerProgram { kqps, path: &LaidPath::Loopback, interrupts };
    let played = player
        .play(&request)
        .and_then(|played| if interrupts.is_asked() { Err(NoTrial::Interrupted) } else { played.trial() });
    played.map_err(|error| match error {
        NoTrial::Interrupted => plain("the trial was interrupted"),
        NoTrial::Lost { reason } => plain(reason),
        NoTrial::Failed { reason, output } => (reason, output),
    })
}

//! Trials that an agent plays.

use std::path::Path;

use kqps_kernel::interrupts::Interrupts;
use kqps_observation::Trial;

use super::ahead;
use super::failure::{Failure, plain};
use kqps_testbed::path::LaidPath;
use kqps_testbed::play::{PlayRequest, PlayerProgram, SPARE};
use kqps_testbed::trial_request::NoTrial;

/// Plays a trial that begins at `at_ns` on this host's monotonic clock. The main thread must call this.
pub(super) fn play(
    kqps: &Path,
    mut request: PlayRequest,
    queries: &Path,
    at_ns: Option<u64>,
    interrupts: &Interrupts,
) -> Result<Trial, Failure> {
    ahead::check(at_ns)?;
    request.plan.start_at_ns = at_ns;
    queries.as_os_str().clone_into(&mut request.queries.path);
    // The targets were compared with those of the hosts' file. Standard error is the agent's.
    (request.is_allowed, request.shows_bar) = (true, false);
    // The player sends by the network of this host as it is.
    let player = PlayerProgram { kqps, path: &LaidPath::Loopback, interrupts, live: None, spare: SPARE };
    let played = player
        .play(&request)
        .and_then(|played| if interrupts.is_asked() { Err(NoTrial::Interrupted) } else { played.trial() });
    played.map_err(|error| match error {
        NoTrial::Interrupted => plain("the trial was interrupted"),
        NoTrial::Lost { reason } => plain(reason),
        NoTrial::Failed { reason, output } => (reason, output),
    })
}

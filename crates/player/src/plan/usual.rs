//! The values that a plan has unless the user asks for others.

use std::time::Duration;

/// The usual time that a due query waits for others. A thread with a core of its own waits less, since it can spend
/// more CPU time on being on time.
pub fn usual_coalesce(own_cores: bool) -> Duration {
    if own_cores { COALESCE_ON_OWN_CORES } else { COALESCE }
}

const COALESCE: Duration = Duration::from_micros(20);
const COALESCE_ON_OWN_CORES: Duration = Duration::from_micros(10);

/// The usual time after which a due query is given up.
pub const LAG_ALLOWED: Duration = Duration::from_millis(10);

/// The usual seed of random arrivals.
pub const SEED: u64 = 1;

/// The buffer that a socket asks for, in bytes. It has room for the replies that arrive while the player sleeps.
pub const BUFFER_BYTES: usize = 4 << 20;

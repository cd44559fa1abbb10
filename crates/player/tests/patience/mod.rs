//! Plans that wait longer for replies.

use std::time::Duration;

use kqps_player::Plan;

/// Gives a plan this timeout, and a drain as long.
pub(crate) fn within(timeout: Duration, plan: Plan) -> Plan {
    Plan { timeout, drain: timeout, ..plan }
}

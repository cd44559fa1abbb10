//! Options that the transport of a plan forbids in queries.

use kqps_dataset::{Dataset, Query};
use kqps_message::edns;
use kqps_message::header::HEADER_BYTES;
use kqps_player::{Plan, Wire};

use crate::exit::bad_input;

/// The least bytes of an OPT record with an option.
const OPT_BYTES: usize = 15;

/// Refuses queries with the option edns-tcp-keepalive over UDP and QUIC. A capture has none: the option was removed.
pub(super) fn check_options(plan: &Plan, dataset: &Dataset) -> anyhow::Result<()> {
    let why = match &plan.wire {
        Wire::Udp(_) => "over udp (RFC 7828, section 3.2.1)",
        Wire::Quic(_) => "over quic (RFC 9250, section 5.5.2), where it ends the connection",
        Wire::Tcp(_) | Wire::Captured(_) => return Ok(()),
    };
    if dataset.capture().is_some() {
        return Ok(());
    }
    let has_keepalive = |Query { message, question_bytes, .. }: Query<'_>| {
        message.len() >= HEADER_BYTES + question_bytes + OPT_BYTES
            && edns::find(message)
                .ok()
                .flatten()
                .is_some_and(|opt| edns::has_option(opt.data, edns::TCP_KEEPALIVE))
    };
    match dataset.iter().position(has_keepalive) {
        None => Ok(()),
        Some(at) => Err(bad_input(format!(
            "query {} has the option edns-tcp-keepalive (code 11), which is forbidden {why}; leave it out (-E 11:), or \
             play over tcp or tls",
            at + 1
        ))),
    }
}

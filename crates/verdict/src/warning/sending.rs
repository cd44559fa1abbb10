//! The warning about queries that the kernel refused to send, and what its errors mean.

use kqps_observation::Trial;

use super::player::{OFFERED_SHORT, not_sent};
use super::{Code, Effect, Warning};

/// The meaning of a kernel error for a query, and what to do about it.
pub fn refusal(errno: &str) -> (&'static str, &'static str) {
    match errno {
        "ENETUNREACH" => {
            ("no route leads to the network", "Check the target's address and this host's routes.")
        }
        "EHOSTUNREACH" => ("the host cannot be reached", "Check that it is up, and this host's routes."),
        "ENETDOWN" => ("the network interface is down", "Set it up."),
        "EPERM" => (
            "a packet filter of this host forbids it",
            "Look for rules in the output chain of nftables or iptables, and for limits of the control group.",
        ),
        "EACCES" => (
            "it is forbidden: a broadcast address, or a route that prohibits it",
            "Check the target's address and this host's routes.",
        ),
        "EINVAL" | "EADDRNOTAVAIL" => (
            "the source address is not one of this host's, or does not reach the target",
            "Check -a, or leave the address to the kernel.",
        ),
        "EMSGSIZE" => ("the query is longer than the link takes", "Use shorter queries."),
        "EAGAIN" | "ENOBUFS" | "ENOMEM" => (
            "there was no room to send it",
            "Enlarge the sockets' buffers (-b), or lower the rate. More sockets (-c) help, too; a capture has as many \
             as its clients need.",
        ),
        "ECONNREFUSED" => ("nothing listens at the target's port", "Start the server, or check the port."),
        _ => ("the kernel gives no further reason", "Look the error up in sendto(2)."),
    }
}

/// The error with which the kernel refused most queries, and how many; `None` if it refused none.
pub fn most_refused(trial: &Trial) -> Option<(&str, u64)> {
    let most = trial.send_failed_causes.iter().max_by_key(|(_, count)| **count);
    most.map(|(errno, count)| (errno.as_str(), *count))
}

/// More than 0.25 % of the queries were not sent, and most of these because the kernel refused them.
pub fn send_failed(trial: &Trial) -> Option<Warning> {
    let accounts = &trial.accounts;
    if not_sent(trial) <= OFFERED_SHORT
        || accounts.send_failed <= accounts.unsent.saturating_sub(trial.held_back())
    {
        return None;
    }
    let share = accounts.send_failed as f64 / accounts.intended as f64;
    let (errno, count) = most_refused(trial)?;
    let (what, advice) = refusal(errno);
    let advice = format!(
        "The kernel refused to send {:.2} % of the queries, {count} of them with {errno}: {what}. {advice}",
        share * 100.0
    );
    Some(Warning::new(Code::SendFailed, Effect::RedoThenRefuse, share, advice))
}

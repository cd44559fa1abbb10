//! The warning about queries that the kernel refused to send, and what its errors mean.

use std::collections::BTreeMap;

use kqps_observation::Trial;

use super::player::OFFERED_SHORT;
use super::players::{Share, on, shares};
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
    most(&trial.send_failed_causes)
}

fn most(causes: &BTreeMap<String, u64>) -> Option<(&str, u64)> {
    let most = causes.iter().max_by_key(|(_, count)| **count);
    most.map(|(errno, count)| (errno.as_str(), *count))
}

/// More than 0.25 % of the queries were not sent, and most of these because the kernel refused them. One of several
/// players is enough: the worst is named.
pub fn send_failed(trial: &Trial) -> Option<Warning> {
    let is_refused = |share: &Share<'_>| {
        share.not_sent_share() > OFFERED_SHORT && share.accounts.send_failed > share.given_up()
    };
    let refused_share =
        |share: &Share<'_>| share.accounts.send_failed as f64 / share.accounts.intended as f64;
    let refused = shares(trial).into_iter().filter(is_refused);
    let worst = refused.max_by(|one, other| refused_share(one).total_cmp(&refused_share(other)))?;
    let share = refused_share(&worst);
    let (errno, count) = most(worst.send_failed_causes)?;
    let (what, advice) = refusal(errno);
    let advice = format!(
        "The kernel{} refused to send {:.2} % of the queries, {count} of them with {errno}: {what}. {advice}",
        on(worst.host),
        share * 100.0
    );
    Some(Warning::new(Code::SendFailed, Effect::RedoThenRefuse, share, advice))
}

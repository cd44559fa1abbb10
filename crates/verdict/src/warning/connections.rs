//! Warnings about connections: a full listen queue, requests that were lost, and replies that waited for a delayed
//! acknowledgement.

use kqps_observation::{Histogram, Trial};

use super::limit::{had_time, is_many};
use super::{Code, Effect, Warning};

/// The queue of connections that the subject had not accepted yet was full many times.
pub fn listen_overflow(trial: &Trial) -> Option<Warning> {
    let connections = trial.connections.as_ref()?;
    let network = trial.subject_network()?;
    let overflows = network.tcp?.listen_overflows;
    is_many(overflows, trial).then(|| {
        let others = if network.shared { " (other servers beside it count, too)" } else { "" };
        let late = match connections.connections_with_retransmitted_syn {
            0 => String::new(),
            count => format!(" {count} of the player's connections had to ask again, {HUMPS}."),
        };
        let advice = format!(
            "The subject's listen queue overflowed {overflows} times{others}: the kernel dropped requests for \
             connections, which clients repeat after a second.{late} Give the subject a longer queue (its backlog, and \
             net.core.somaxconn), or more sockets and threads that accept connections."
        );
        Warning::new(Code::ListenOverflow, Effect::DownOne, overflows as f64, advice)
    })
}

/// The effect of repeated requests on the times.
const HUMPS: &str = "so times of connecting have humps at 1 s and 3 s that are no work of the subject";

/// Requests for connections were lost, and the subject's listen queue is not known to be the cause.
pub fn lost_syn(trial: &Trial) -> Option<Warning> {
    let count = trial.connections.as_ref()?.connections_with_retransmitted_syn;
    if !is_many(count, trial) || listen_overflow(trial).is_some() {
        return None;
    }
    let advice = format!(
        "{count} connections were asked for again, because no answer came within a second (SYN), {HUMPS}. Look at the \
         listen queue on the subject's host (`nstat -az TcpExtListenOverflows TcpExtListenDrops`), and for a packet \
         filter or losses on the path."
    );
    Some(Warning::new(Code::LostSyn, Effect::DownOne, count as f64, advice))
}

/// A reply that waited for a delayed acknowledgement came this long after the query was written, in microseconds. The
/// kernel's shortest delay is 40 ms, from one of its ticks to another.
const DELAYED_US: std::ops::Range<u64> = 39_000..60_000;

/// The times below are short of a delay, in microseconds: replies that wait in a queue have them, too.
const SHORT_OF_IT_US: std::ops::Range<u64> = 10_000..39_000;

/// The longest mean time of connecting, in microseconds, over a path on which the delay is no round trip.
const NEAR_US: f64 = 10_000.0;

/// Many replies waited until the player's side acknowledged what the subject had sent before. The rate stands, and so
/// does the latency: clients of the same kind wait as long. A busy subject is not judged, since its queue may last as
/// long.
pub fn delayed_ack(trial: &Trial) -> Option<Warning> {
    let connections = trial.connections.as_ref()?;
    let by_kernels = trial.hosts.iter().filter_map(|host| host.network.tcp).map(|tcp| tcp.delayed_acks);
    let acknowledged_late = by_kernels.sum::<u64>() + connections.delayed_acks;
    let times = Histogram::decode(trial.histograms.get("write to reply")?)?;
    let within = |range: std::ops::Range<u64>| {
        times.times().filter(|(time, _)| range.contains(time)).map(|(_, count)| count).sum::<u64>()
    };
    let delayed = within(DELAYED_US);
    let share = delayed as f64 / times.len().max(1) as f64;
    let is_near = connections.connect_us.mean.is_some_and(|mean| mean < NEAR_US);
    let is_apart = within(SHORT_OF_IT_US) * 10 <= delayed && acknowledged_late * 2 >= delayed;
    let may_have_had_time = trial.subject.is_none() || had_time(trial);
    if !is_many(delayed, trial) || share < 0.05 || !is_near || !is_apart || !may_have_had_time {
        return None;
    }
    let advice = format!(
        "{:.0} % of the replies came about 40 ms late, and {acknowledged_late} acknowledgements were delayed: the \
         subject writes a reply in pieces, or tickets before it, and its kernel holds the next \
         piece until the client acknowledges the last one (Nagle's algorithm). Set TCP_NODELAY in the subject, or send \
         no tickets. Most clients wait as long, so the latency is what they see.",
        share * 100.0
    );
    Some(Warning::new(Code::DelayedAck, Effect::Mention, share, advice))
}

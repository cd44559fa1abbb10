//! How many queries and replies passed each stage of the way, for all stages that can be counted in queries.
//!
//! The kernel counts packets as it carries them. Datagrams that travel together (segmentation offload, on either
//! side) are one packet to most counters. So if any did, the stages that count packets are left out.

use kqps_observation::ledger::{Merged, Stage, StageName};
use kqps_observation::network::{IpFacts, UdpFacts};
use kqps_observation::{Accounts, NetworkFacts};

use super::way::{WAY, places_between};
use super::{Evidence, SubjectSide};

/// The counts of what passed, by stage.
#[derive(Clone, Debug)]
pub(super) struct Passages {
    intended: u64,
    lost: u64,
    counts: [Option<u64>; WAY.len()],
    /// Whether other traffic moves the counters in between.
    shared: bool,
    /// Why some stages have no count.
    reason: &'static str,
    /// Whether IP on the subject's side received packets that it did not deliver, which shows that a filter is at
    /// work.
    pub(super) filtered: bool,
}

const SHARED_NAMESPACE: &str =
    "player and subject are in one network namespace, whose counters count both directions";
const TOGETHER: &str = "datagrams that travel together are one packet to the kernel's counters";
const UNSEEN: &str = "nothing could be read on the subject's side";
const PAST: &str = "the player's packets pass its kernel, which counts none of them";
const DISTURBED: &str = "other traffic moved the counters";

/// Counts the passages.
pub(super) fn count(evidence: &Evidence<'_>) -> Passages {
    let accounts = evidence.accounts;
    let there = evidence.subject.and_then(|subject| subject.network.as_ref());
    let none = Passages {
        intended: accounts.intended,
        lost: accounts.lost,
        counts: [None; WAY.len()],
        shared: evidence.host.network.shared,
        reason: UNSEEN,
        filtered: false,
    };
    let mut passages = match (evidence.side, there) {
        (SubjectSide::Here, _) => here(evidence, none),
        (SubjectSide::There, Some(there)) => {
            let shared = none.shared || there.shared;
            without_tcp(evidence, there, &Passages { shared, ..none })
        }
        _ => none,
    };
    passages.set_ends(accounts);
    passages
}

/// Packets of TCP, in numbers of segments, that move the same counters of IP as queries and replies do.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Segments {
    /// Received on the subject's side.
    to_subject: u64,
    /// Sent on the subject's side.
    from_subject: u64,
    /// Received on the player's side.
    to_player: u64,
}

/// Counts as [`two_sided`] does, without the packets of TCP: a control link may pass the same namespaces. The kernel
/// does not say which address family carried them. So they are left out unless the stages then fit together less well.
fn without_tcp(evidence: &Evidence<'_>, there: &NetworkFacts, none: &Passages) -> Passages {
    let (there_tcp, here_tcp) =
        (there.tcp.unwrap_or_default(), evidence.host.network.tcp.unwrap_or_default());
    let segments = Segments {
        to_subject: there_tcp.segments_received,
        from_subject: there_tcp.segments_sent,
        to_player: here_tcp.segments_received,
    };
    let count = |segments| {
        let mut passages = two_sided(evidence, there, none.clone(), segments);
        passages.set_ends(evidence.accounts);
        passages
    };
    let all = count(Segments::default());
    if segments == Segments::default() {
        return all;
    }
    let without = count(segments);
    if without.gained() <= all.gained() { without } else { all }
}

/// Counts with player and subject each in a namespace of its own: every stage has its own counters. `tcp` are packets
/// to leave out.
fn two_sided(
    evidence: &Evidence<'_>,
    there: &NetworkFacts,
    mut passages: Passages,
    tcp: Segments,
) -> Passages {
    let (ip, udp) = there.family(evidence.ipv6);
    let (back, _) = evidence.host.network.family(evidence.ipv6);
    let surplus = surplus(evidence);
    let replies = |packets: u64, icmp: u64| packets.saturating_sub(icmp + surplus);
    let left = match ip.out_transmits {
        Some(transmitted) => replies(transmitted, ip.icmp_out + tcp.from_subject),
        None => replies(udp.out_datagrams + udp.sndbuf_errors, 0),
    };
    let read = taken(udp, udp.in_datagrams);
    let replied = without_retries(replies(ip.out_requests, ip.icmp_out + tcp.from_subject), left, read);
    let is_seen = !evidence.past_kernel;
    let (queries_together, replies_together) = (come_together(ip), is_seen && come_together(back));
    // A subject that sent more replies than it read messages read several queries in one message.
    let reads_together = replies_together && queries_together || read < left;
    passages.counts = [
        None,
        Some(ip.in_segments.saturating_sub(ip.icmp_in + tcp.to_subject)),
        (!queries_together).then(|| ip.in_delivers.saturating_sub(ip.icmp_in + tcp.to_subject)),
        (!reads_together).then_some(read),
        (!replies_together).then_some(replied),
        (!replies_together).then_some(left),
        is_seen.then(|| replies(back.in_segments, back.icmp_in + tcp.to_player)),
        (is_seen && !replies_together).then(|| replies(back.in_delivers, back.icmp_in + tcp.to_player)),
        None,
    ];
    passages.reason = if is_seen || queries_together || reads_together { TOGETHER } else { PAST };
    passages.filtered = ip.in_receives > ip.in_delivers;
    passages
}

/// Counts with both in one namespace. What the player itself sent and read is known, and subtracted from the
/// counters.
fn here(evidence: &Evidence<'_>, mut passages: Passages) -> Passages {
    let (ip, udp) = evidence.host.network.family(evidence.ipv6);
    let accounts = evidence.accounts;
    let answered = accounts.correct + accounts.wrong + accounts.late;
    let back = answered + evidence.player_socket_drops;
    let refused = accounts.send_failed;
    let read = taken(udp, udp.in_datagrams.saturating_sub(evidence.messages_received));
    let surplus = surplus(evidence);
    let out = evidence.messages_sent + ip.icmp_out + surplus;
    let left = ip
        .out_transmits
        .unwrap_or(udp.out_datagrams + udp.sndbuf_errors.saturating_sub(refused) + ip.icmp_out)
        .saturating_sub(out);
    let replied = without_retries(ip.out_requests.saturating_sub(out + refused), left, read);
    let together = come_together(ip);
    let queries_together = accounts.sent > evidence.messages_sent;
    // More travelled together than the player sent together, or there were more answers than datagrams sent one
    // by one.
    let replies_together = together
        && (ip.in_segments - ip.in_receives > accounts.sent.saturating_sub(evidence.messages_sent)
            || left < answered);
    let reads_together = read < left || replies_together && queries_together;
    let delivered = if together {
        let dropped = evidence.subject.and_then(|subject| subject.socket_drops);
        let dropped = dropped
            .unwrap_or(udp.rcvbuf_errors.saturating_sub(evidence.player_socket_drops) + udp.mem_errors);
        (!reads_together).then_some(read + dropped)
    } else {
        let others = ip.icmp_in + evidence.messages_received + evidence.player_socket_drops;
        Some(ip.in_delivers.saturating_sub(others))
    };
    passages.counts = [
        None,
        None,
        delivered,
        (!reads_together).then_some(read),
        (!replies_together).then_some(replied),
        (!replies_together).then_some(left),
        None,
        Some(back),
        None,
    ];
    passages.reason = if reads_together || replies_together { TOGETHER } else { SHARED_NAMESPACE };
    passages.filtered = ip.in_receives > ip.in_delivers;
    passages
}

/// Datagrams that the subject's side received: those that were read, and those for ports without a listener. No buffer
/// dropped the latter, and no process answered them.
fn taken(udp: &UdpFacts, read: u64) -> u64 {
    read + udp.no_ports
}

/// Replies that the subject passed to IP. A filter makes a subject's send fail, and some subjects send again. IP
/// then has more replies than the subject read queries, and each reply counts once.
fn without_retries(requests: u64, left: u64, read: u64) -> u64 {
    if left < requests { requests.min(read).max(left) } else { requests }
}

/// Replies after the first to a query, and packets that answer none. They passed all stages on the way back.
fn surplus(evidence: &Evidence<'_>) -> u64 {
    evidence.accounts.duplicate + evidence.accounts.unsolicited
}

/// Whether packets came in that hold several datagrams.
fn come_together(ip: &IpFacts) -> bool {
    ip.in_segments > ip.in_receives
}

impl Passages {
    /// The stages with a count, as indices into [`WAY`], and the count. The first and the last always have one.
    pub(super) fn known(&self) -> Vec<(usize, u64)> {
        (0..).zip(self.counts).filter_map(|(stage, count)| Some((stage, count?))).collect()
    }

    /// Whether more packets left a stage than came to it. Then the counts include other traffic, or it was not
    /// noticed that datagrams travelled together. A few packets more (a reply to an earlier trial's query, say)
    /// do not matter.
    pub(super) fn are_disturbed(&self) -> bool {
        self.gained() > (self.lost / 100).max(10)
    }

    /// How many packets more left stages than came to them.
    fn gained(&self) -> u64 {
        self.known().windows(2).map(|pair| pair[1].1.saturating_sub(pair[0].1)).sum()
    }

    /// Sets the first and the last stage, which the player counts.
    fn set_ends(&mut self, accounts: &Accounts) {
        self.counts[0] = Some(accounts.sent);
        self.counts[WAY.len() - 1] = Some(accounts.correct + accounts.wrong + accounts.late);
    }

    /// Whether stages are missing because datagrams travelled together.
    pub(super) fn are_together(&self) -> bool {
        self.reason == TOGETHER
    }

    pub(super) fn shared(&self) -> bool {
        self.shared
    }

    /// The stages for the record.
    pub(super) fn stages(&self) -> Vec<Stage> {
        let ends = [(0, self.counts[0]), (WAY.len() - 1, self.counts[WAY.len() - 1])];
        let known = if self.are_disturbed() {
            ends.into_iter().filter_map(|(stage, count)| Some((stage, count?))).collect()
        } else {
            self.known()
        };
        let intended = Stage { name: StageName::Intended, count: self.intended, shared: false };
        let stage = |(stage, count)| Stage {
            name: WAY[stage],
            count,
            shared: self.shared && !matches!(WAY[stage], StageName::Sent | StageName::Answered),
        };
        std::iter::once(intended).chain(known.into_iter().map(stage)).collect()
    }

    /// The places between which no stage could be counted.
    pub(super) fn merged(&self) -> Vec<Merged> {
        let (known, reason) = if self.are_disturbed() {
            (vec![0, WAY.len() - 1], DISTURBED)
        } else {
            (self.known().into_iter().map(|(stage, _)| stage).collect(), self.reason)
        };
        let wide = known.windows(2).filter(|pair| pair[1] - pair[0] > 1);
        let places = wide.map(|pair| places_between(pair[0], pair[1])).filter(|places| places.len() > 1);
        places.map(|places| Merged { places, reason: reason.into() }).collect()
    }
}

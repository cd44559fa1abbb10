//! How the losses of a stretch of the way are divided among its places.

use std::ops::Range;

use kqps_observation::ledger::FoundBy;
use kqps_observation::network::DeviceFacts;
use kqps_observation::{NetworkFacts, Place, Placed};

use super::passages::Passages;
use super::way::{STRETCHES, places_between};
use super::{Evidence, SubjectSide, placed};

/// A backlog of the kernel, and the packets that it dropped.
#[derive(Clone, Debug)]
pub(super) struct Backlog {
    pub(super) dropped: u64,
    /// The stretches of the way on which it may have dropped them.
    pub(super) stretches: Range<usize>,
}

/// A counter of drops.
#[derive(Clone, Debug)]
struct Counter {
    place: Place,
    /// Placing drops reduces the count.
    count: u64,
    /// Whether other traffic moves the counter.
    shared: bool,
    /// The stretches on which it counts.
    stretches: Range<usize>,
}

/// The counters of drops.
#[derive(Clone, Debug)]
pub(super) struct Drops {
    counters: Vec<Counter>,
    /// Places whose counters no other traffic moves. They count whatever the passages show.
    exact: Vec<Place>,
}

impl Drops {
    pub(super) fn from_evidence(evidence: &Evidence<'_>, backlogs: &[Backlog]) -> Self {
        let Evidence { accounts, host, subject, side, player_socket_drops, .. } = *evidence;
        let ours = &host.network;
        let there = subject.and_then(|subject| subject.network.as_ref());
        let far: Option<&NetworkFacts> = match side {
            SubjectSide::Here => Some(ours),
            SubjectSide::There => there,
            SubjectSide::Unseen => None,
        };
        // In one namespace the player's own drops and refusals are in the same counters.
        let own = |count: u64| if side == SubjectSide::Here { count } else { 0 };
        let udp = far.map(|far| far.family(evidence.ipv6).1).copied().unwrap_or_default();
        let full = (udp.rcvbuf_errors + udp.mem_errors + udp.in_csum_errors)
            .saturating_sub(own(player_socket_drops));
        let of_sockets = subject.and_then(|subject| subject.socket_drops);
        let refused = udp.sndbuf_errors.saturating_sub(own(accounts.send_failed));
        let sum = |network: Option<&NetworkFacts>, count: fn(&DeviceFacts) -> u64| {
            network.map_or(0, |network| network.devices.iter().map(count).sum::<u64>())
        };
        let between = far.filter(|_| side == SubjectSide::There);
        let shared = ours.shared || far.is_none_or(|far| far.shared);
        let anywhere = |place, count, shared| Counter { place, count, shared, stretches: 0..STRETCHES.len() };
        let of_backlog = |backlog: &Backlog| Counter {
            stretches: backlog.stretches.clone(),
            ..anywhere(Place::Softnet, backlog.dropped, true)
        };
        let back = sum(between, leaving) + sum(between.and(Some(ours)), arriving);
        let mut counters = vec![
            anywhere(Place::NicOut, sum(Some(ours), leaving), shared),
            anywhere(Place::NicIn, sum(between, arriving), shared),
        ];
        counters.extend(backlogs.iter().map(of_backlog));
        counters.extend([
            anywhere(Place::SubjectSocketBuffer, of_sockets.unwrap_or(full), of_sockets.is_none() && shared),
            anywhere(Place::SubjectUnanswered, udp.no_ports, shared),
            anywhere(Place::SubjectSend, refused, shared),
            anywhere(Place::PathBack, back, shared),
            anywhere(Place::PlayerSocketBuffer, player_socket_drops, false),
        ]);
        let mut exact = vec![Place::PlayerSocketBuffer];
        if of_sockets.is_some() {
            exact.push(Place::SubjectSocketBuffer);
        }
        Self { counters, exact }
    }

    /// The ledger from drops alone, for when passages do not help. The drops of interfaces are left out, since
    /// they need not belong to this trial.
    pub(super) fn alone(self) -> Vec<Placed> {
        const COUNTED: [Place; 5] = [
            Place::Softnet,
            Place::SubjectSocketBuffer,
            Place::SubjectUnanswered,
            Place::SubjectSend,
            Place::PlayerSocketBuffer,
        ];
        let counters = self.counters.into_iter().filter(|counter| COUNTED.contains(&counter.place));
        counters
            .map(|counter| Placed { shared: counter.shared, ..placed(counter.place, counter.count) })
            .collect()
    }

    fn at(&self, place: Place) -> u64 {
        self.counters.iter().filter(|counter| counter.place == place).map(|counter| counter.count).sum()
    }

    /// Takes up to `most` drops of a place on these stretches, or all if the place is exact.
    fn take(&mut self, place: Place, most: u64, stretches: &Range<usize>) -> Option<Placed> {
        let exact = self.exact.contains(&place);
        let counts_here = |counter: &Counter| {
            counter.stretches.start < stretches.end && stretches.start < counter.stretches.end
        };
        let (mut taken, mut shared) = (0, false);
        for counter in self.counters.iter_mut().filter(|one| one.place == place && counts_here(one)) {
            let count = if exact { counter.count } else { most.saturating_sub(taken).min(counter.count) };
            counter.count -= count;
            taken += count;
            shared |= counter.shared && count > 0;
        }
        (taken > 0).then(|| Placed { shared, ..placed(place, taken) })
    }
}

fn leaving(device: &DeviceFacts) -> u64 {
    device.tx_dropped + device.tx_errors + device.qdisc_dropped.unwrap_or(0)
}

fn arriving(device: &DeviceFacts) -> u64 {
    device.rx_dropped + device.rx_errors
}

/// Places the losses of every stretch.
pub(super) fn place_all(passages: &Passages, mut drops: Drops) -> Vec<Placed> {
    let known = passages.known();
    let mut all = Vec::new();
    for pair in known.windows(2) {
        let [(from, before), (to, after)] = [pair[0], pair[1]];
        let mut rest = before.saturating_sub(after);
        // Before drops are used up, see which counters moved at all.
        let rest_is_at = remainder(passages, &drops, from, to);
        for place in STRETCHES[from..to].concat() {
            if let Some(placed) = drops.take(place, rest, &(from..to)) {
                rest = rest.saturating_sub(placed.count);
                all.push(placed);
            }
        }
        if let Some(place) = rest_is_at.filter(|_| rest > 0) {
            all.push(Placed { place, count: rest, by: FoundBy::Passages, shared: passages.shared() });
        }
    }
    all
}

/// The place of the losses on a stretch that no counter of drops explains; `None` if it is not known.
fn remainder(passages: &Passages, drops: &Drops, from: usize, to: usize) -> Option<Place> {
    let last = |stretch: usize| STRETCHES[stretch].last().copied();
    match (from, to) {
        _ if to - from == 1 => last(from),
        (0 | 1, 2 | 3) if to - from == 2 && passages.filtered => Some(Place::FilterIn),
        (0, 2) => Some(Place::PathOut),
        // Unread in the subject's buffer.
        (1, 3) => Some(Place::SubjectSocketBuffer),
        (5, 7) => Some(Place::PathBack),
        _ if !passages.are_together() => None,
        _ => {
            // If only one counter moved, it counted several datagrams as one packet.
            let mut moved = places_between(from, to);
            moved.retain(|place| drops.at(*place) > 0);
            if let [only] = moved[..] { Some(only) } else { None }
        }
    }
}

//! The thread that plays a client, or a connection of the capture, and the flow on which it does. A flow is a place for
//! one connection after the other, or the IDs of some clients at one UDP socket.
//!
//! The owner is computed from a number alone, since every thread asks for every query.

use kqps_dataset::{Captured, Carried};

use super::crowd::Crowd;
use crate::share::share_of;

/// The flow of a query that may go by any.
pub(crate) const ANY: u32 = u32::MAX;

/// The most tables of IDs of one socket. The address of a client selects its table.
pub(crate) const TOGETHER_MOST: usize = 1024;

/// The least spare flows of a thread with places.
const SPARE_LEAST: u32 = 64;

/// The flows of the threads that share a wire.
#[derive(Debug)]
pub(crate) struct Flows {
    by: By,
    /// Clients of one slice, or places.
    of_slice: u32,
    threads: usize,
    /// The flow of each number; empty for any.
    flows: Box<[u32]>,
    /// Flows of each thread, with its spare ones.
    of_threads: Box<[u32]>,
    /// Places of each thread, which has spare flows beside theirs; 0 unless flows are for places.
    places: Box<[u32]>,
    /// Flows of each socket.
    together: usize,
    /// Numbers that share their flow, or their socket and address, with an earlier one.
    sharing: u64,
}

/// How the queries of one flow belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Client,
    Place,
}

impl Flows {
    /// UDP sockets of clients. Clients of one address have sockets of their own, as far as `sockets_most` for all
    /// threads goes. Clients of several addresses share the sockets of their thread, and each socket has `together`
    /// tables of IDs, a power of two. The clients are those that ask by `carried`, or all.
    pub(crate) fn of_datagrams(
        crowd: &Crowd,
        carried: Option<Carried>,
        threads: usize,
        (sockets_most, together): (usize, usize),
    ) -> Self {
        let together = if crowd.has_addresses() { together.clamp(1, TOGETHER_MOST) } else { 1 };
        let mut all = Self::by(By::Client, crowd.of_slice(), threads);
        all.together = together;
        all.flows = vec![0; crowd.numbers() as usize].into();
        for thread in 0..threads {
            let share = share_of(sockets_most as u64, threads, thread);
            let most = ((share.end - share.start) as u32).max(1);
            let sockets = all.give_sockets((crowd, carried), thread, most);
            all.of_threads[thread] = sockets * together as u32;
        }
        all
    }

    /// Gives the clients of a thread their sockets, and returns how many there are.
    fn give_sockets(&mut self, (crowd, carried): (&Crowd, Option<Carried>), thread: usize, most: u32) -> u32 {
        // Clients so far of each address; of all clients if the kernel chooses the address.
        let addresses = if crowd.is_apart() || !crowd.has_addresses() { 1 } else { crowd.used() as usize };
        let mut ranks = vec![0_u32; addresses];
        let mut ranks_most = 0;
        for client in 0..crowd.numbers() {
            if self.owner(client) != thread || !crowd.asks_by(client, carried) {
                continue;
            }
            let address = crowd.address(client).unwrap_or(0);
            let rank = if crowd.is_apart() {
                0
            } else {
                // Without room for all, every address is used.
                let rank = &mut ranks[if crowd.has_addresses() { address as usize } else { 0 }];
                *rank += 1;
                *rank - 1
            };
            ranks_most = ranks_most.max(rank + 1);
            self.sharing += u64::from(rank >= most);
            let table = address as usize & (self.together - 1);
            self.flows[client as usize] = (rank % most) * self.together as u32 + table as u32;
        }
        ranks_most.clamp(1, most)
    }

    /// A place for connections for each client that asks by `carried`, or for all, as far as `most` for all threads
    /// goes.
    pub(crate) fn of_clients(crowd: &Crowd, carried: Option<Carried>, threads: usize, most: usize) -> Self {
        let numbers = (crowd.of_slice(), crowd.numbers());
        Self::one_to_each(By::Client, numbers, threads, most, |client| crowd.asks_by(client, carried))
    }

    /// A flow for each of the capture's places, in each slice, and as many spare ones beside them, or `SPARE_LEAST`
    /// in each thread, as far as `most` for all threads goes.
    pub(crate) fn of_places(places: u32, pile: u32, threads: usize, most: usize) -> Self {
        let mut flows = Self::one_to_each(By::Place, (places, places * pile), threads, usize::MAX, |_| true);
        flows.places = flows.of_threads.clone();
        for (thread, count) in flows.of_threads.iter_mut().enumerate().filter(|(_, count)| **count > 0) {
            let share = share_of(most as u64, threads, thread);
            let room = (share.end - share.start).saturating_sub(u64::from(*count));
            *count += room.min(u64::from((*count).max(SPARE_LEAST))) as u32;
        }
        flows
    }

    fn one_to_each(
        by: By,
        (of_slice, all): (u32, u32),
        threads: usize,
        most: usize,
        has_one: impl Fn(u32) -> bool,
    ) -> Self {
        let mut flows = Self::by(by, of_slice, threads);
        flows.flows = vec![0; all as usize].into();
        let shares: Vec<u64> = (0..threads)
            .map(|thread| share_of(most as u64, threads, thread))
            .map(|share| (share.end - share.start).max(1))
            .collect();
        for number in (0..all).filter(|number| has_one(*number)) {
            let thread = flows.owner(number);
            let count = &mut flows.of_threads[thread];
            flows.flows[number as usize] = (u64::from(*count) % shares[thread]) as u32;
            flows.sharing += u64::from(u64::from(*count) >= shares[thread]);
            *count += 1;
        }
        for (count, share) in flows.of_threads.iter_mut().zip(shares) {
            *count = u64::from(*count).min(share) as u32;
        }
        flows
    }

    /// Any place for each query. Each thread has its share of `places`.
    pub(crate) fn of_any(crowd: &Crowd, threads: usize, places: usize) -> Self {
        let mut flows = Self::by(By::Client, crowd.of_slice(), threads);
        for (thread, count) in flows.of_threads.iter_mut().enumerate() {
            let share = share_of(places.max(threads) as u64, threads, thread);
            *count = (share.end - share.start) as u32;
        }
        flows
    }

    fn by(by: By, of_slice: u32, threads: usize) -> Self {
        let (of_threads, places) = (vec![0; threads].into(), vec![0; threads].into());
        Self { by, of_slice, threads, flows: Box::default(), of_threads, places, together: 1, sharing: 0 }
    }

    /// The number that decides about a query: of its client, or of its place.
    #[inline]
    pub(crate) fn number(&self, captured: &Captured, slice: u32) -> u32 {
        let of_slice = match self.by {
            By::Client => captured.client,
            By::Place => captured.place,
        };
        slice * self.of_slice + of_slice
    }

    /// The thread that plays the queries of a number. Neighbours have different ones.
    #[inline]
    pub(crate) fn owner(&self, number: u32) -> usize {
        // Fibonacci hashing: the upper bits of the product, multiplied by the number of threads.
        let mixed = number.wrapping_mul(0x9e37_79b1);
        ((u64::from(mixed) * self.threads as u64) >> 32) as usize
    }

    /// The flow of a number, counted from the first one of its owner; [`ANY`] for any.
    #[inline]
    pub(crate) fn flow(&self, number: u32) -> u32 {
        self.flows.get(number as usize).copied().unwrap_or(ANY)
    }

    /// Flows of a thread.
    pub(crate) fn of_thread(&self, thread: usize) -> usize {
        self.of_threads[thread] as usize
    }

    /// Places of a thread; 0 unless flows are for places. Their flows are its first ones.
    pub(crate) fn places_of(&self, thread: usize) -> usize {
        self.places[thread] as usize
    }

    /// Whether the queries of a client are all of one thread.
    pub(crate) fn are_of_clients(&self) -> bool {
        self.by == By::Client
    }

    /// Flows of all threads.
    pub(crate) fn all(&self) -> usize {
        self.of_threads.iter().map(|count| *count as usize).sum()
    }

    /// Flows of the threads before this one.
    pub(crate) fn before(&self, thread: usize) -> usize {
        self.of_threads[..thread].iter().map(|count| *count as usize).sum()
    }

    /// The thread that has this flow among all.
    pub(crate) fn thread_of(&self, flow: usize) -> usize {
        (0..self.threads).rfind(|thread| self.before(*thread) <= flow).unwrap_or(0)
    }

    /// Flows of each socket.
    pub(crate) fn together(&self) -> usize {
        self.together
    }

    /// Clients or places that share their flow, or their socket and address, with an earlier one.
    pub(crate) fn sharing(&self) -> u64 {
        self.sharing
    }

    /// The first client of each flow of clients that ask by `carried`, thread by thread.
    pub(crate) fn first_clients(&self, crowd: &Crowd, carried: Option<Carried>) -> Vec<u32> {
        let starts: Vec<usize> = (0..self.threads).map(|thread| self.before(thread)).collect();
        let mut first = vec![None; self.all()];
        let numbers = (0..).zip(&self.flows).filter(|(number, _)| crowd.asks_by(*number, carried));
        for (number, flow) in numbers {
            first[starts[self.owner(number)] + *flow as usize].get_or_insert(number);
        }
        first.into_iter().map(Option::unwrap_or_default).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::ReplayPlan;

    /// This many clients, each of a network of its own, that ask by UDP.
    fn crowd(clients: u32, sources: Option<&str>) -> Crowd {
        let networks: Vec<u32> = (0..clients).collect();
        let asks = vec![1_u8; clients as usize].into();
        let sources = sources.map(|sources| sources.parse().unwrap());
        Crowd::from_networks(&networks, asks, &ReplayPlan::default(), sources.as_ref())
    }

    /// The owner, the socket and the address of each client.
    fn seats(flows: &Flows, crowd: &Crowd) -> Vec<(usize, u32, Option<u32>)> {
        let seat = |client| {
            let socket = flows.flow(client) / flows.together() as u32;
            (flows.owner(client), socket, crowd.address(client))
        };
        (0..crowd.all()).map(seat).collect()
    }

    #[test]
    fn clients_with_addresses_of_their_own_share_one_socket_of_each_thread() {
        let crowd = crowd(5000, Some("127.1.0.0/16"));
        for threads in [1, 3] {
            let flows = Flows::of_datagrams(&crowd, None, threads, (16_384, 4));
            assert_eq!((flows.all(), flows.sharing()), (4 * threads, 0));
            let seats = seats(&flows, &crowd);
            assert_eq!(seats.iter().collect::<BTreeSet<_>>().len(), 5000);
            assert!(seats.iter().all(|(_, socket, _)| *socket == 0));
            for thread in 0..threads {
                let of_thread = seats.iter().filter(|(owner, ..)| *owner == thread).count();
                assert!(of_thread.abs_diff(5000 / threads) < 250, "{of_thread} of thread {thread}");
            }
            // The address selects the table of IDs.
            for client in 0..5000 {
                assert_eq!(flows.flow(client) % 4, crowd.address(client).unwrap() % 4);
            }
        }
    }

    #[test]
    fn clients_of_one_address_have_sockets_of_their_own_as_far_as_they_go() {
        for (sources, addresses) in [(None, 1), (Some("127.1.0.1"), 1), (Some("127.1.0.0/29"), 6)] {
            let crowd = crowd(300, sources);
            let flows = Flows::of_datagrams(&crowd, Some(Carried::Udp), 2, (1000, 1));
            assert_eq!(flows.sharing(), 0, "{sources:?}");
            assert_eq!(seats(&flows, &crowd).iter().collect::<BTreeSet<_>>().len(), 300);
            assert!((300 / addresses..=300 / addresses + 20).contains(&flows.all()), "{}", flows.all());
        }
        let crowd = crowd(300, None);
        let flows = Flows::of_datagrams(&crowd, None, 2, (100, 1));
        assert_eq!((flows.all(), flows.sharing()), (100, 200));
        let flows = Flows::of_datagrams(&crowd, Some(Carried::Tcp), 2, (100, 1));
        assert_eq!((flows.all(), flows.sharing()), (2, 0), "no client asks by it");
    }

    #[test]
    fn places_and_clients_have_flows_of_their_own() {
        let flows = Flows::of_places(40, 3, 4, 120);
        let all: BTreeSet<(usize, u32)> =
            (0..120).map(|number| (flows.owner(number), flows.flow(number))).collect();
        assert_eq!((all.len(), flows.sharing()), (120, 0));
        let places: usize = (0..4).map(|thread| flows.places_of(thread)).sum();
        assert_eq!((places, flows.before(3) + flows.of_thread(3)), (120, flows.all()));
        assert!(flows.all() < 140, "{} with few spare ones", flows.all());
        let flows = Flows::of_places(40, 3, 4, 1000);
        assert_eq!(flows.all(), 120 + 4 * SPARE_LEAST as usize);
        assert_eq!(Flows::of_places(1000, 1, 1, 10_000).all(), 2000, "as many spare ones as places");
        let crowd = crowd(50, None);
        let flows = Flows::of_clients(&crowd, None, 2, 20);
        assert_eq!((flows.all(), flows.sharing()), (20, 30));
        let first = flows.first_clients(&crowd, None);
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 20);
        for (at, client) in first.iter().enumerate() {
            let owner = flows.owner(*client);
            assert_eq!(flows.before(owner) + flows.flow(*client) as usize, at);
        }
        let one = Flows::of_clients(&self::crowd(1, None), Some(Carried::Udp), 2, 20);
        assert_eq!(one.all(), 1, "a thread without clients has no place");
        let any = Flows::of_any(&crowd, 2, 7);
        assert_eq!((any.all(), any.flow(0)), (7, ANY));
    }
}

//! The clients of a replay, and the source addresses that they are mapped to. Clients without a query in their slice of
//! the window get none. Those of one network get neighbouring addresses. If the sources have room, each network has a
//! block of its own, whose size is a power of two and a divisor of its first address. The order of networks is drawn
//! from a seed.

use std::cmp::Reverse;

use kqps_dataset::{Carried, Dataset};

use super::TRANSPORTS;
use crate::plan::ReplayPlan;
use crate::sources::Sources;

/// The clients of all slices.
#[derive(Debug)]
pub(crate) struct Crowd {
    /// Clients of the capture. Each slice has numbers for as many.
    of_slice: u32,
    /// Clients of all slices that ask.
    all: u32,
    /// The transports by which the client with each number asks: a bit for each, by its number.
    asks: Box<[u8]>,
    /// The number of each one's address among the sources; empty if the kernel chooses the address.
    addresses: Box<[u32]>,
    /// Addresses in use.
    used: u32,
}

impl Crowd {
    /// The clients of a capture, as often as slices are played, mapped to the sources. `asks` says by which transports
    /// each asks, and `lanes` which transports are played, both by their numbers.
    pub(crate) fn new(
        dataset: &Dataset,
        plan: &ReplayPlan,
        sources: Option<&Sources>,
        asks: Box<[u8]>,
        lanes: [bool; TRANSPORTS.len()],
    ) -> Self {
        let clients = dataset.capture().map_or(0, |capture| capture.clients);
        let networks: Vec<u32> = (0..clients).map(|client| dataset.network_of(client).network).collect();
        let played = lanes.into_iter().enumerate().map(|(number, is_played)| u8::from(is_played) << number);
        let played: u8 = played.sum();
        let asks = asks.into_iter().map(|carried| carried & played).collect();
        Self::from_networks(&networks, asks, plan, sources)
    }

    /// The clients of these networks. `asks` is of each client of each slice.
    pub(super) fn from_networks(
        networks: &[u32],
        asks: Box<[u8]>,
        plan: &ReplayPlan,
        sources: Option<&Sources>,
    ) -> Self {
        let of_slice = networks.len() as u32;
        let all = asks.iter().filter(|carried| **carried != 0).count() as u32;
        let Some(sources) = sources else {
            return Self { of_slice, all, asks, addresses: Box::default(), used: 1 };
        };
        let room = sources.count().min(u128::from(u32::MAX)) as u64;
        let addresses = addresses((networks, &asks), plan, sources, room);
        let used = u64::from(all).min(room) as u32;
        Self { of_slice, all, asks, addresses, used: used.max(1) }
    }

    /// The number of a client of a slice among those of all slices, whether they ask or not.
    #[inline]
    pub(crate) fn number(&self, slice: u32, client: u32) -> u32 {
        slice * self.of_slice + client
    }

    /// Numbers of one slice.
    pub(crate) fn of_slice(&self) -> u32 {
        self.of_slice
    }

    /// Numbers of all slices.
    pub(crate) fn numbers(&self) -> u32 {
        self.asks.len() as u32
    }

    /// Whether a client asks by a transport; by any for `None`.
    pub(crate) fn asks_by(&self, client: u32, carried: Option<Carried>) -> bool {
        let wanted = carried.map_or(u8::MAX, |carried| 1 << carried.number());
        self.asks[client as usize] & wanted != 0
    }

    /// Clients of all slices that ask.
    pub(crate) fn all(&self) -> u32 {
        self.all
    }

    /// Addresses that they use; 1 if the kernel chooses it.
    pub(crate) fn used(&self) -> u32 {
        self.used
    }

    /// The numbers of these addresses among the sources, in order; none if the kernel chooses the address.
    pub(crate) fn used_addresses(&self) -> Vec<u32> {
        let asking = self.addresses.iter().zip(&self.asks).filter(|(_, carried)| **carried != 0);
        let mut used: Vec<u32> = asking.map(|(address, _)| *address).collect();
        used.sort_unstable();
        used.dedup();
        used
    }

    /// Whether each client has an address of its own.
    pub(crate) fn is_apart(&self) -> bool {
        self.has_addresses() && self.used == self.all
    }

    /// Whether clients are mapped to addresses.
    pub(crate) fn has_addresses(&self) -> bool {
        !self.addresses.is_empty()
    }

    /// The number of a client's address among the sources; `None` if the kernel chooses it.
    #[inline]
    pub(crate) fn address(&self, client: u32) -> Option<u32> {
        self.addresses.get(client as usize).copied()
    }
}

/// The address of each client of each slice. Those that do not ask have one that means nothing.
fn addresses(
    (networks, asks): (&[u32], &[u8]),
    plan: &ReplayPlan,
    sources: &Sources,
    room: u64,
) -> Box<[u32]> {
    let count = networks.iter().max().map_or(0, |most| *most as usize + 1);
    let asking = |slice: usize| {
        let of_slice = asks[slice * networks.len()..].iter().zip(networks).enumerate();
        let asking = of_slice.filter(|(_, (carried, _))| **carried != 0);
        asking.map(|(client, (_, network))| (client, *network as usize))
    };
    let sizes = |slice: usize| {
        let mut sizes = vec![0_u64; count];
        asking(slice).for_each(|(_, network)| sizes[network] += 1);
        sizes
    };
    let slices = 0..plan.pile as usize;
    let largest = slices.clone().flat_map(sizes).map(block).max().unwrap_or(0).max(1);
    // From the largest block to the smallest, each begins at a multiple of its size.
    let span = |slice: usize| sizes(slice).into_iter().map(block).sum::<u64>().next_multiple_of(largest);
    let base = sources.until_multiple_of(largest);
    let has_blocks = base + slices.clone().map(span).sum::<u64>() <= room;
    let mut addresses = vec![0; asks.len()];
    let mut next = vec![0; count];
    let mut at = if has_blocks { base } else { 0 };
    for slice in slices {
        let sizes = sizes(slice);
        let mut order: Vec<usize> = (0..count).collect();
        let mixed = (slice as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        fastrand::Rng::with_seed(plan.seed.wrapping_add(mixed)).shuffle(&mut order);
        if has_blocks {
            order.sort_by_key(|network| Reverse(block(sizes[*network])));
        }
        let begin = at;
        for network in order {
            next[network] = at;
            at += if has_blocks { block(sizes[network]) } else { sizes[network] };
        }
        if has_blocks {
            at = begin + (at - begin).next_multiple_of(largest);
        }
        for (client, network) in asking(slice) {
            addresses[slice * networks.len() + client] = (next[network] % room) as u32;
            next[network] += 1;
        }
    }
    addresses.into()
}

/// The block of a network with this many clients; 0 if none asks.
fn block(clients: u64) -> u64 {
    if clients == 0 { 0 } else { clients.next_power_of_two() }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    /// The networks of clients, if they have these sizes and ask in turn.
    fn networks(sizes: &[u32]) -> Vec<u32> {
        let most = sizes.iter().copied().max().unwrap_or(0);
        let clients = (0..most).flat_map(|member| {
            let has_one = move |&(_, size): &(u32, &u32)| *size > member;
            (0..).zip(sizes).filter(has_one).map(|(network, _)| network)
        });
        clients.collect()
    }

    fn crowd(sizes: &[u32], pile: u32, seed: u64, sources: &str) -> (Crowd, Sources) {
        let sources: Sources = sources.parse().unwrap();
        let plan = ReplayPlan { pile, seed, ..ReplayPlan::default() };
        let networks = networks(sizes);
        let asks = vec![1_u8; networks.len() * pile as usize].into();
        (Crowd::from_networks(&networks, asks, &plan, Some(&sources)), sources)
    }

    fn v4(sources: &Sources, number: u32) -> u32 {
        match sources.of_socket(number as usize) {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => panic!("{address}"),
        }
    }

    #[test]
    fn networks_have_blocks_of_their_own_if_there_is_room() {
        let sizes = [3, 1, 9, 200, 1];
        for pile in [1, 4] {
            let (crowd, sources) = crowd(&sizes, pile, 7, "127.1.0.0/16");
            let networks = networks(&sizes);
            assert_eq!((crowd.all(), crowd.used()), (214 * pile, 214 * pile));
            assert!(crowd.is_apart());
            let mut blocks: BTreeMap<(u32, u32), BTreeSet<u32>> = BTreeMap::new();
            let mut all = BTreeSet::new();
            for slice in 0..pile {
                for (client, network) in networks.iter().enumerate() {
                    let address = v4(&sources, crowd.address(crowd.number(slice, client as u32)).unwrap());
                    assert!(all.insert(address), "{address:x} is another client's");
                    let bits = sizes[*network as usize].next_power_of_two().trailing_zeros();
                    blocks.entry((slice, *network)).or_default().insert(address >> bits);
                }
            }
            assert!(blocks.values().all(|of_network| of_network.len() == 1), "{blocks:?}");
            let lowest = Ipv4Addr::new(127, 1, 0, 1).into();
            assert!(all.first().is_some_and(|first| *first >= lowest));
        }
    }

    #[test]
    fn networks_stay_together_without_room_for_blocks_and_the_last_share_addresses() {
        let sizes = [3, 3, 3];
        // 14 addresses: enough for 9 clients, and not for three blocks of 4 in alignment.
        let (crowd, _) = crowd(&sizes, 1, 3, "127.1.0.0/28");
        assert!(crowd.is_apart());
        let networks = networks(&sizes);
        for network in 0..3 {
            let clients = (0..).zip(&networks).filter(|(_, own)| **own == network);
            let mut addresses: Vec<u32> = clients.map(|(client, _)| crowd.address(client).unwrap()).collect();
            addresses.sort_unstable();
            assert_eq!(addresses[2] - addresses[0], 2, "{addresses:?}");
        }
        let (crowd, _) = self::crowd(&sizes, 2, 3, "127.1.0.0/28");
        assert!(!crowd.is_apart());
        assert_eq!((crowd.all(), crowd.used()), (18, 14));
        assert!((0..18).all(|client| crowd.address(client).unwrap() < 14));
    }

    #[test]
    fn the_seed_draws_the_order_and_nothing_else_does() {
        let sizes = [1; 64];
        let mapped = |seed| {
            let (crowd, _) = crowd(&sizes, 2, seed, "127.1.0.0/16");
            (0..128).map(|client| crowd.address(client).unwrap()).collect::<Vec<u32>>()
        };
        assert_eq!(mapped(1), mapped(1));
        assert_ne!(mapped(1), mapped(2));
        let (first, second) = (mapped(1)[..64].to_vec(), mapped(1)[64..].to_vec());
        let of_second: Vec<u32> = second.iter().map(|address| address - 64).collect();
        assert_ne!(first, of_second, "each slice has an order of its own");
    }

    #[test]
    fn without_sources_the_kernel_chooses() {
        let crowd =
            Crowd::from_networks(&networks(&[2, 3]), vec![1_u8; 5].into(), &ReplayPlan::default(), None);
        assert_eq!((crowd.all(), crowd.used(), crowd.address(0)), (5, 1, None));
        assert!(!crowd.is_apart() && !crowd.has_addresses());
    }

    #[test]
    fn clients_that_do_not_ask_take_no_address() {
        let sources: Sources = "127.1.0.0/28".parse().unwrap();
        let plan = ReplayPlan { pile: 2, ..ReplayPlan::default() };
        // Two networks of eight clients. In each slice four of the first network and one of the second ask.
        let networks: Vec<u32> = (0..16).map(|client| client / 8).collect();
        let asks: Box<[u8]> =
            (0..32).map(|client| u8::from(client % 16 % 2 == 0 && client % 16 < 9)).collect();
        let crowd = Crowd::from_networks(&networks, asks, &plan, Some(&sources));
        assert_eq!((crowd.all(), crowd.used(), crowd.numbers()), (10, 10, 32));
        assert!(crowd.is_apart() && crowd.asks_by(8, Some(Carried::Udp)));
        assert!(!crowd.asks_by(1, None) && !crowd.asks_by(8, Some(Carried::Tcp)));
        let used = crowd.used_addresses();
        let asking = (0..32).filter(|client| crowd.asks_by(*client, None));
        let mut addresses: Vec<u32> = asking.map(|client| crowd.address(client).unwrap()).collect();
        addresses.sort_unstable();
        assert_eq!(used, addresses, "each has one of its own");
        assert!(used.len() == 10 && used.iter().all(|address| *address < 14));
    }
}

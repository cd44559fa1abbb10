//! The clients of a replay, and the source addresses that they are mapped to. Those of one network get neighbouring
//! addresses. If the sources have room, each network has a block of its own, whose size is a power of two and a divisor
//! of its first address. The order of networks is drawn from a seed.

use std::cmp::Reverse;

use kqps_dataset::Dataset;

use crate::plan::ReplayPlan;
use crate::sources::Sources;

/// The clients of all slices.
#[derive(Debug)]
pub(crate) struct Crowd {
    /// Clients of one slice.
    clients: u32,
    /// Clients of all slices.
    all: u32,
    /// The number of each one's address among the sources; empty if the kernel chooses the address.
    addresses: Box<[u32]>,
    /// Addresses in use.
    used: u32,
}

/// The clients of a capture by their networks.
pub(crate) struct Networks {
    /// The network of each client, and its number there.
    pub(crate) clients: Vec<(u32, u32)>,
    /// The number of clients of each network.
    pub(crate) sizes: Vec<u32>,
}

impl Networks {
    fn of(dataset: &Dataset) -> Self {
        let clients = dataset.capture().map_or(0, |capture| capture.clients);
        let mut sizes = Vec::new();
        let places = (0..clients).map(|client| {
            let place = dataset.network_of(client);
            if place.network as usize >= sizes.len() {
                sizes.resize(place.network as usize + 1, 0);
            }
            let size = &mut sizes[place.network as usize];
            *size = (*size).max(place.member + 1);
            (place.network, place.member)
        });
        let clients = places.collect();
        Self { clients, sizes }
    }
}

impl Crowd {
    /// The clients of a capture, as often as slices are played, mapped to the sources.
    pub(crate) fn new(dataset: &Dataset, plan: &ReplayPlan, sources: Option<&Sources>) -> Self {
        Self::of(&Networks::of(dataset), plan, sources)
    }

    pub(super) fn of(networks: &Networks, plan: &ReplayPlan, sources: Option<&Sources>) -> Self {
        let clients = networks.clients.len() as u32;
        let all = clients * plan.pile;
        let Some(sources) = sources else { return Self { clients, all, addresses: Box::default(), used: 1 } };
        let room = sources.count().min(u128::from(u32::MAX)) as u64;
        let addresses = addresses(networks, plan, sources, room);
        let used = if is_roomy(all, room) { all } else { room as u32 };
        Self { clients, all, addresses, used: used.max(1) }
    }

    /// The number of a client of a slice among those of all slices.
    #[inline]
    pub(crate) fn number(&self, slice: u32, client: u32) -> u32 {
        slice * self.clients + client
    }

    /// Clients of one slice.
    pub(crate) fn of_slice(&self) -> u32 {
        self.clients
    }

    /// Clients of all slices.
    pub(crate) fn all(&self) -> u32 {
        self.all
    }

    /// Addresses that they use; 1 if the kernel chooses it.
    pub(crate) fn used(&self) -> u32 {
        self.used
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

fn is_roomy(all: u32, room: u64) -> bool {
    u64::from(all) <= room
}

/// The address of each client of each slice.
fn addresses(networks: &Networks, plan: &ReplayPlan, sources: &Sources, room: u64) -> Box<[u32]> {
    let block = |network: u32| u64::from(networks.sizes[network as usize]).next_power_of_two();
    let count = networks.sizes.len() as u32;
    let largest = (0..count).map(block).max().unwrap_or(1);
    // From the largest block to the smallest, each begins at a multiple of its size.
    let span = (0..count).map(block).sum::<u64>().next_multiple_of(largest);
    let base = sources.until_multiple_of(largest);
    let has_blocks = base + span * u64::from(plan.pile) <= room;
    let mut addresses = Vec::with_capacity(networks.clients.len() * plan.pile as usize);
    let (mut starts, mut at) = (vec![0; networks.sizes.len()], 0);
    for slice in 0..plan.pile {
        let mut order: Vec<u32> = (0..count).collect();
        let mixed = u64::from(slice).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        fastrand::Rng::with_seed(plan.seed.wrapping_add(mixed)).shuffle(&mut order);
        if has_blocks {
            order.sort_by_key(|network| Reverse(block(*network)));
            at = base + span * u64::from(slice);
        }
        for network in order {
            starts[network as usize] = at;
            at += if has_blocks { block(network) } else { networks.sizes[network as usize].into() };
        }
        let address =
            |&(network, member): &(u32, u32)| ((starts[network as usize] + u64::from(member)) % room) as u32;
        addresses.extend(networks.clients.iter().map(address));
    }
    addresses.into()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    /// Clients of networks of these sizes, in turn.
    fn networks(sizes: &[u32]) -> Networks {
        let most = sizes.iter().copied().max().unwrap_or(0);
        let clients = (0..most).flat_map(|member| {
            let has_one = move |&(_, size): &(u32, &u32)| *size > member;
            (0..).zip(sizes).filter(has_one).map(move |(network, _)| (network, member))
        });
        Networks { clients: clients.collect(), sizes: sizes.to_vec() }
    }

    fn crowd(sizes: &[u32], pile: u32, seed: u64, sources: &str) -> (Crowd, Sources) {
        let sources: Sources = sources.parse().unwrap();
        let plan = ReplayPlan { pile, seed, ..ReplayPlan::default() };
        (Crowd::of(&networks(sizes), &plan, Some(&sources)), sources)
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
                for (client, (network, _)) in networks.clients.iter().enumerate() {
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
            let clients = (0..).zip(&networks.clients).filter(|(_, (own, _))| *own == network);
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
        let crowd = Crowd::of(&networks(&[2, 3]), &ReplayPlan::default(), None);
        assert_eq!((crowd.all(), crowd.used(), crowd.address(0)), (5, 1, None));
        assert!(!crowd.is_apart() && !crowd.has_addresses());
    }
}

//! The zones of a rebuilt tree, each with its records and servers, and what is filled in by rule.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use kqps_message::name::is_at_or_below;
use kqps_message::rtype;

use super::record::{Rank, Set};
use super::{Name, ROOT, Sightings, parent, text, zone_of};

/// The address of the root's only server if none was seen: that of a.root-servers.net.
const ROOT_SERVER: Ipv4Addr = Ipv4Addr::new(198, 41, 0, 4);

/// The TTL of records that are filled in, seconds.
const TTL_S: u32 = 3600;

/// The type of the record of names of which none was seen: one for private use (RFC 6895, section 3.1).
const BARE_TYPE: u16 = 65_280;

/// A rebuilt tree. A zone is named by its index in `zones`.
#[derive(Clone, Debug, Default)]
pub struct RebuiltTree {
    /// The zones by name, the root first.
    pub zones: Vec<RebuiltZone>,
    /// The servers by address.
    pub servers: Vec<RebuiltServer>,
    /// Zones without a referral or a record that names them: they begin one label below the nearest zone that is known.
    pub invented_zones: u64,
    /// Zones whose servers have made-up names.
    pub made_up_names: u64,
    /// Zones whose servers' names got the addresses of the servers that answered for them.
    pub made_up_addresses: u64,
    /// Zones with a made-up SOA record.
    pub made_up_soas: u64,
    /// Zones of whose servers no address is known, as of referrals that the resolver never followed. Nothing answers for them.
    pub zones_without_server: u64,
    /// Servers whose delay was not seen. They have the median of the others.
    pub servers_without_delay: u64,
    /// Names with an alias and other records, of which the alias counts. Of the apex of a zone and of a server's name the others
    /// count.
    pub contradictions: u64,
    /// Names that exist and of which no record was seen. They have one of a private type.
    pub bare_names: u64,
}

/// A zone of a rebuilt tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebuiltZone {
    /// Its name in wire form.
    pub apex: Box<[u8]>,
    /// Its master file.
    pub text: String,
}

/// A server of a rebuilt tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebuiltServer {
    /// Its address.
    pub address: IpAddr,
    /// The median delay of its answers, nanoseconds.
    pub delay_ns: u64,
    /// Its zones.
    pub zones: Vec<usize>,
}

impl Sightings {
    /// The tree of all that was seen. What is missing is filled in by rule, and counted.
    pub fn tree(mut self) -> RebuiltTree {
        let mut tree = RebuiltTree::default();
        self.apexes.insert(ROOT.into());
        self.place_servers(&mut tree);
        self.name_servers(&mut tree);
        self.fill_soas(&mut tree);
        self.drop_contradictions(&mut tree);
        self.keep_bare_names(&mut tree);
        let texts = text::zones(&self.known, &self.apexes);
        let numbers: BTreeMap<&Name, usize> = self.apexes.iter().zip(0..).collect();
        tree.servers = self.servers(&numbers, &mut tree.servers_without_delay);
        let served: BTreeSet<usize> = tree.servers.iter().flat_map(|server| &server.zones).copied().collect();
        tree.zones_without_server = (self.apexes.len() - served.len()) as u64;
        tree.zones =
            self.apexes.iter().cloned().zip(texts).map(|(apex, text)| RebuiltZone { apex, text }).collect();
        tree
    }

    /// The addresses of a zone's servers that are known by their names.
    fn known_addresses(&self, apex: &[u8]) -> BTreeSet<IpAddr> {
        self.known.servers(apex).iter().flat_map(|name| self.known.addresses(name)).collect()
    }

    /// Gives every server that answered or referred the zone of the name.
    fn place_servers(&mut self, tree: &mut RebuiltTree) {
        for (is_answer, seen) in
            [(false, std::mem::take(&mut self.referring)), (true, std::mem::take(&mut self.answering))]
        {
            let mut seen: Vec<(Name, IpAddr)> = seen.into_iter().collect();
            // Zones that are made up for short names hold longer ones.
            seen.sort_by_key(|(name, _)| name.len());
            for (name, server) in seen {
                self.place_server(&name, server, is_answer, tree);
            }
        }
        if self.known_addresses(ROOT).is_empty() {
            self.serving.entry(ROOT.into()).or_insert_with(|| [ROOT_SERVER.into()].into());
        }
    }

    /// Gives a server the zone of a name, unless that cannot be: other servers are known of the zone, or it is the root, or a
    /// top-level domain whose servers refer and do not answer. The name is then in a zone below it, whose name is not known.
    fn place_server(&mut self, name: &[u8], server: IpAddr, is_answer: bool, tree: &mut RebuiltTree) {
        let apex = zone_of(&self.apexes, name);
        let is_known = self.serving.get(apex).is_some_and(|servers| servers.contains(&server));
        if is_known || self.known_addresses(apex).contains(&server) {
            return;
        }
        let is_high = labels(apex) <= usize::from(is_answer);
        let below = below(name, apex).filter(|_| is_high || self.has_other_servers(apex, server));
        tree.invented_zones += u64::from(below.is_some());
        let apex = Name::from(below.unwrap_or(apex));
        self.apexes.insert(apex.clone());
        self.serving.entry(apex).or_default().insert(server);
    }

    /// Whether the addresses of all servers of a zone are known, of the family of this one's, which is not among them.
    fn has_other_servers(&self, apex: &[u8], server: IpAddr) -> bool {
        let names = self.known.servers(apex);
        let is_like = |address: IpAddr| address.is_ipv4() == server.is_ipv4();
        !names.is_empty() && names.iter().all(|name| self.known.addresses(name).any(is_like))
    }

    /// Makes sure that the servers of each zone have names, and the names addresses.
    fn name_servers(&mut self, tree: &mut RebuiltTree) {
        for apex in self.apexes.clone() {
            if !self.known_addresses(&apex).is_empty() {
                continue;
            }
            let Some(serving) = self.serving.get(&apex).cloned() else { continue };
            let mut names = self.known.servers(&apex).to_vec();
            if names.is_empty() {
                tree.made_up_names += 1;
                names = (1..=serving.len()).map(|number| server_name(&apex, number)).collect();
                let data = names.clone();
                let set = Set { rank: Rank::Filled, ttl_s: TTL_S, data };
                self.known.put((apex.clone(), rtype::NS), set);
            } else {
                tree.made_up_addresses += 1;
            }
            for (name, address) in names.iter().cycle().zip(&serving) {
                self.add_address(name, *address);
            }
        }
    }

    fn add_address(&mut self, name: &Name, address: IpAddr) {
        let (rtype, data): (u16, Box<[u8]>) = match address {
            IpAddr::V4(address) => (rtype::A, address.octets().into()),
            IpAddr::V6(address) => (rtype::AAAA, address.octets().into()),
        };
        let set = || Set { rank: Rank::Filled, ttl_s: TTL_S, data: Vec::new() };
        self.known.sets.entry((name.clone(), rtype)).or_insert_with(set).data.push(data);
    }

    fn fill_soas(&mut self, tree: &mut RebuiltTree) {
        for apex in &self.apexes {
            if self.known.get(apex, rtype::SOA).is_none() {
                tree.made_up_soas += 1;
                let server = self.known.servers(apex).first().map_or(ROOT, |name| &**name);
                let mut data = [server, b"\x0ahostmaster", apex].concat();
                // Serial, refresh, retry, expire and the TTL of denials (RFC 1035, section 3.3.13).
                for number in [1_u32, 7200, 3600, 1_209_600, 900] {
                    data.extend(number.to_be_bytes());
                }
                let set = Set { rank: Rank::Filled, ttl_s: TTL_S, data: vec![data.into()] };
                self.known.put((apex.clone(), rtype::SOA), set);
            }
        }
    }

    /// Leaves each name either an alias or other records (RFC 1034, section 3.6.2).
    fn drop_contradictions(&mut self, tree: &mut RebuiltTree) {
        let aliases: Vec<Name> = self
            .known
            .sets
            .keys()
            .filter(|(_, rtype)| *rtype == rtype::CNAME)
            .map(|(owner, _)| owner.clone())
            .collect();
        let servers: BTreeSet<Name> =
            self.apexes.iter().flat_map(|apex| self.known.servers(apex)).cloned().collect();
        for owner in aliases {
            let of_owner = (owner.clone(), 0)..=(owner.clone(), u16::MAX);
            let others: Vec<(Name, u16)> = self
                .known
                .sets
                .range(of_owner)
                .map(|(key, _)| key.clone())
                .filter(|(_, rtype)| *rtype != rtype::CNAME)
                .collect();
            if others.is_empty() {
                continue;
            }
            tree.contradictions += 1;
            // An apex cannot be an alias, and a server's address is needed more than one.
            let is_apex = others.iter().any(|(_, rtype)| [rtype::SOA, rtype::NS].contains(rtype));
            if is_apex || servers.contains(&owner) {
                self.known.sets.remove(&(owner, rtype::CNAME));
            } else {
                for key in others {
                    self.known.sets.remove(&key);
                }
            }
        }
    }

    /// Gives a record to names that exist without any, so that other types are not denied with the name.
    fn keep_bare_names(&mut self, tree: &mut RebuiltTree) {
        for name in std::mem::take(&mut self.existing) {
            let of_name = (name.clone(), 0)..=(name.clone(), u16::MAX);
            if self.known.sets.range(of_name).next().is_none() {
                tree.bare_names += 1;
                let set = Set { rank: Rank::Filled, ttl_s: TTL_S, data: vec![[0].into()] };
                self.known.put((name, BARE_TYPE), set);
            }
        }
    }

    /// The servers of all zones.
    fn servers(&self, numbers: &BTreeMap<&Name, usize>, without_delay: &mut u64) -> Vec<RebuiltServer> {
        let mut zones: BTreeMap<IpAddr, BTreeSet<usize>> = BTreeMap::new();
        for (&apex, &number) in numbers {
            let serving = self.serving.get(apex).into_iter().flatten().copied();
            for address in self.known_addresses(apex).into_iter().chain(serving) {
                zones.entry(address).or_default().insert(number);
            }
        }
        let seen: BTreeMap<IpAddr, u64> = self
            .delays_ns
            .iter()
            .filter_map(|(server, delays_ns)| Some((*server, median(delays_ns)?)))
            .collect();
        let usual_ns = median(&seen.values().copied().collect::<Vec<u64>>()).unwrap_or(0);
        zones
            .into_iter()
            .map(|(address, zones)| {
                let delay_ns = seen.get(&address).copied();
                *without_delay += u64::from(delay_ns.is_none());
                RebuiltServer {
                    address,
                    delay_ns: delay_ns.unwrap_or(usual_ns),
                    zones: zones.into_iter().collect(),
                }
            })
            .collect()
    }
}

/// The name one label below a zone on the way to a name; `None` if the name is the zone's own.
fn below<'n>(name: &'n [u8], apex: &[u8]) -> Option<&'n [u8]> {
    debug_assert!(is_at_or_below(name, apex));
    let mut at = name;
    while let Some(above) = parent(at) {
        if above == apex {
            return Some(at);
        }
        at = above;
    }
    None
}

/// The number of labels of a name.
fn labels(name: &[u8]) -> usize {
    std::iter::successors(Some(name), |name| parent(name)).count() - 1
}

/// A name of a zone's server that no reply showed.
fn server_name(apex: &[u8], number: usize) -> Name {
    let label = format!("ns{number}-filled-in");
    let length = u8::try_from(label.len()).unwrap_or(u8::MAX);
    [&[length], label.as_bytes(), apex].concat().into()
}

fn median(values: &[u64]) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied()
}

//! A random forest of names over several zones: addresses, aliases, DNAME records, circles and gaps. It knows the right
//! answer to every question, and plays the servers of its zones, which also say what is not theirs to say.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use kqps_message::rtype;

use super::super::message::{Reply, add, add_soa, empty, question_end, wire};

/// The most aliases of a chain that has an answer.
const ALIASES_MOST: usize = 16;

pub(super) const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;

/// TTLs as servers send them, in seconds. The last one has the top bit, so it is 0 (RFC 2181, section 8).
const TTLS: [u32; 6] = [0, 1, 5, 60, 300, 0x8000_0007];

/// A TTL as clients may see it at most, in seconds.
fn seen_ttl_s(ttl_s: u32) -> u32 {
    if ttl_s > i32::MAX.cast_unsigned() { 0 } else { ttl_s }
}

#[derive(Clone, Debug)]
enum Node {
    /// This many addresses.
    Address {
        ttl_s: u32,
        count: u8,
    },
    Alias {
        ttl_s: u32,
        target: String,
    },
    Dname {
        ttl_s: u32,
        target: String,
    },
    /// A name without data.
    Empty,
    /// The server fails.
    Broken,
}

/// A name as the server of its zone finds it.
enum Lookup<'f> {
    Address(u32, u8),
    /// The TTL, the target, and the owner and the target of the DNAME record, if there is one.
    Alias(u32, String, Option<(&'f str, &'f str)>),
    Empty,
    Broken,
    Missing,
}

#[derive(Debug)]
pub(super) struct Forest {
    /// The zones that have servers of their own.
    pub(super) stubs: Vec<String>,
    /// Whether a forwarder answers for all other names.
    pub(super) has_forwarder: bool,
    nodes: BTreeMap<String, Node>,
}

impl Forest {
    pub(super) fn new(rng: &mut Rng) -> Self {
        let mut stubs: Vec<String> = (0..rng.usize(2..=4)).map(|number| format!("z{number}.test")).collect();
        if rng.bool() {
            stubs.push("sub.z0.test".to_owned());
        }
        let has_forwarder = rng.bool();
        let mut tops = stubs.clone();
        tops.push("far.example".to_owned());
        let top = |rng: &mut Rng| tops[rng.usize(..tops.len())].clone();
        let count = rng.usize(4..=24);
        let names: Vec<String> = (0..count).map(|number| format!("n{number}.{}", top(rng))).collect();
        let mut dnames: Vec<String> =
            (0..rng.usize(0..=3)).map(|number| format!("d{number}.{}", top(rng))).collect();
        let mut nodes = BTreeMap::new();
        let ttl_s = |rng: &mut Rng| TTLS[rng.usize(..TTLS.len())];
        for owner in &dnames {
            let target = if rng.bool() { top(rng) } else { format!("d{}.{}", rng.usize(0..4), top(rng)) };
            nodes.insert(owner.clone(), Node::Dname { ttl_s: ttl_s(rng), target });
        }
        dnames.push("gone.z1.test".to_owned());
        // Long chains are as frequent as short ones.
        let is_long = rng.bool();
        for (number, owner) in names.iter().enumerate() {
            let node = match rng.u8(0..if is_long { 60 } else { 12 }) {
                0 => Node::Empty,
                1 => Node::Broken,
                2 => continue,
                3..=5 => Node::Address { ttl_s: ttl_s(rng), count: rng.u8(1..=3) },
                6 => {
                    let below = &dnames[rng.usize(..dnames.len())];
                    Node::Alias { ttl_s: ttl_s(rng), target: format!("n{}.{below}", rng.usize(..count)) }
                }
                _ => {
                    let next = if is_long { (number + 1) % count } else { rng.usize(..count) };
                    Node::Alias { ttl_s: ttl_s(rng), target: names[next].clone() }
                }
            };
            nodes.insert(owner.clone(), node);
        }
        Self { stubs, has_forwarder, nodes }
    }

    /// Names to ask for: all that are there, some that are not, and some below DNAME records.
    pub(super) fn names(&self, rng: &mut Rng) -> Vec<String> {
        let of_node = |(owner, node): (&String, &Node)| match node {
            Node::Dname { .. } => format!("n{}.{owner}", rng.usize(0..8)),
            _ => owner.clone(),
        };
        let mut names: Vec<String> = self.nodes.iter().map(of_node).collect();
        names.push("gone.z0.test".to_owned());
        names.retain(|name| self.zone_of(name).is_some());
        names
    }

    /// The zone whose server is asked about a name: a stub, or behind them the forwarder.
    pub(super) fn zone_of(&self, name: &str) -> Option<usize> {
        let is_in = |zone: &String| name == zone || name.ends_with(&format!(".{zone}"));
        let stubs = self.stubs.iter().enumerate().filter(|(_, zone)| is_in(zone));
        let stub = stubs.max_by_key(|(_, zone)| zone.len()).map(|(number, _)| number);
        stub.or_else(|| self.has_forwarder.then_some(self.stubs.len()))
    }

    fn find(&self, name: &str) -> Lookup<'_> {
        let above = name.match_indices('.').map(|(dot, _)| (&name[..dot], &name[dot + 1..]));
        for (prefix, owner) in above {
            if let Some((owner, Node::Dname { ttl_s, target })) = self.nodes.get_key_value(owner) {
                return Lookup::Alias(*ttl_s, format!("{prefix}.{target}"), Some((owner, target)));
            }
        }
        match self.nodes.get(name) {
            None => Lookup::Missing,
            Some(Node::Broken) => Lookup::Broken,
            Some(Node::Empty | Node::Dname { .. }) => Lookup::Empty,
            Some(Node::Address { ttl_s, count }) => Lookup::Address(*ttl_s, *count),
            Some(Node::Alias { ttl_s, target }) => Lookup::Alias(*ttl_s, target.clone(), None),
        }
    }

    /// The right answer to a question.
    pub(super) fn right(&self, name: &str, rtype: u16) -> Reply {
        let (mut said, mut current) = (Reply::default(), name.to_owned());
        let mut passed = BTreeSet::from([current.clone()]);
        let failed = Reply { rcode: SERVFAIL, answers: BTreeMap::new() };
        while self.zone_of(&current).is_some() {
            match self.find(&current) {
                Lookup::Broken => return failed,
                Lookup::Missing => said.rcode = NXDOMAIN,
                Lookup::Address(ttl_s, count) if rtype == rtype::A => {
                    let record = |last| (current.clone(), rtype::A, format!("192.0.2.{last}"));
                    said.answers.extend((0..count).map(|last| (record(last), seen_ttl_s(ttl_s))));
                }
                Lookup::Address(..) | Lookup::Empty => {}
                Lookup::Alias(ttl_s, target, dname) => {
                    let mut add = |owner: &str, rtype, data: &str| {
                        said.answers.insert((owner.to_owned(), rtype, data.to_owned()), seen_ttl_s(ttl_s));
                    };
                    if let Some((owner, target)) = dname {
                        add(owner, rtype::DNAME, target);
                    }
                    add(&current, rtype::CNAME, &target);
                    if rtype != rtype::CNAME {
                        if !passed.insert(target.clone()) || passed.len() > ALIASES_MOST + 1 {
                            return failed;
                        }
                        current = target;
                        continue;
                    }
                }
            }
            break;
        }
        said
    }

    /// The reply of a zone's server to a query, which asks for this name. The server is right about its own names, in one
    /// of the ways that servers have.
    pub(super) fn say(&self, zone: usize, query: &[u8], asked: &str, rng: &mut Rng) -> Vec<u8> {
        let mut reply = Writer { message: empty(query, 0) };
        let end = question_end(query);
        let rtype = u16::from_be_bytes([query[end - 4], query[end - 3]]);
        let finds = zone == self.stubs.len();
        let mut current = asked.to_owned();
        let mut passed = BTreeSet::from([current.clone()]);
        loop {
            match self.find(&current) {
                Lookup::Broken if finds || passed.len() == 1 || rng.bool() => {
                    return empty(query, SERVFAIL);
                }
                Lookup::Broken => break,
                Lookup::Missing => {
                    reply.message[3] |= NXDOMAIN;
                    reply.deny(self.apex(zone), rng);
                    break;
                }
                Lookup::Address(ttl_s, count) if rtype == rtype::A => {
                    for last in 0..count {
                        reply.add(0, &current, rtype, ttl_s, &[192, 0, 2, last]);
                    }
                    break;
                }
                Lookup::Address(..) | Lookup::Empty => {
                    reply.deny(self.apex(zone), rng);
                    break;
                }
                Lookup::Alias(ttl_s, target, dname) => {
                    reply.alias(&current, ttl_s, &target, dname, rng);
                    current = target;
                    if rtype == rtype::CNAME || !passed.insert(current.clone()) {
                        break;
                    }
                    if self.zone_of(&current) != Some(zone) {
                        reply.lie(&current, self.apex(zone), rng);
                        break;
                    }
                    if !finds && rng.u8(0..3) == 0 {
                        break;
                    }
                }
            }
        }
        reply.message
    }

    fn apex(&self, zone: usize) -> &str {
        self.stubs.get(zone).map_or(".", String::as_str)
    }
}

/// A reply that grows.
struct Writer {
    message: Vec<u8>,
}

impl Writer {
    fn add(&mut self, section: usize, owner: &str, rtype: u16, ttl_s: u32, data: &[u8]) {
        add(&mut self.message, section, &wire(owner), rtype, ttl_s, data);
    }

    /// Adds the SOA record of a denial, or not.
    fn deny(&mut self, zone: &str, rng: &mut Rng) {
        if rng.u8(0..5) > 0 {
            add_soa(&mut self.message, &wire(zone), 60, [0, 5, 60][rng.usize(..3)]);
        }
    }

    /// Adds an alias: by a CNAME record, or by a DNAME record with a CNAME record that is right, has TTL 0, leads
    /// elsewhere, or is missing.
    fn alias(&mut self, owner: &str, ttl_s: u32, target: &str, dname: Option<(&str, &str)>, rng: &mut Rng) {
        let Some((above, to)) = dname else {
            return self.add(0, owner, rtype::CNAME, ttl_s, &wire(target));
        };
        self.add(0, above, rtype::DNAME, ttl_s, &wire(to));
        match rng.u8(0..4) {
            0 => self.add(0, owner, rtype::CNAME, ttl_s, &wire(target)),
            1 => self.add(0, owner, rtype::CNAME, 0, &wire(target)),
            2 => {
                self.add(0, owner, rtype::CNAME, ttl_s, &wire("elsewhere.z0.test"));
                self.add(0, "elsewhere.z0.test", rtype::A, 300, &[203, 0, 113, 1]);
            }
            _ => {}
        }
    }

    /// Adds something false about a name for which the server does not speak, or nothing.
    fn lie(&mut self, name: &str, zone: &str, rng: &mut Rng) {
        match rng.u8(0..6) {
            0 => self.add(0, name, rtype::A, 300, &[203, 0, 113, 2]),
            1 => self.add(0, name, rtype::CNAME, 300, &wire("n0.z1.test")),
            2 => self.add(2, name, rtype::A, 300, &[203, 0, 113, 3]),
            lie @ 3..=4 => {
                self.message[3] |= if lie == 3 { NXDOMAIN } else { 0 };
                self.deny(if rng.bool() { zone } else { "." }, rng);
            }
            _ => {}
        }
    }
}

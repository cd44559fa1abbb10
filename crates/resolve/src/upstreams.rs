//! The servers that are asked about names: forwarders for all names, and the servers of single zones.

use std::net::SocketAddr;

use kqps_cache::Bailiwick;
use kqps_front::policy::{BackEnd, Choice, Policy, Rule, Target};
use kqps_message::name::{NameText, is_at_or_below};
use kqps_message::rtype;

/// A zone with servers of its own, which know it themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stub {
    /// The name of the zone, in wire form.
    pub zone: Vec<u8>,
    /// Its servers, at least one.
    pub servers: Vec<SocketAddr>,
}

/// The servers of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstreams {
    /// The servers as back ends. The first rule that matches is that of the zone.
    pub policy: Policy,
    /// The zones, in the order of the rules.
    pub zones: Zones,
}

/// The zones that servers answer for, those with more labels first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zones(Vec<Zone>);

/// A zone that some servers answer for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Zone {
    /// Its name, in wire form and in lower case.
    name: Vec<u8>,
    /// The names that its servers speak for: those that they are asked about.
    names: Bailiwick,
    /// Whether its servers are asked to find the answer (RD) instead of having it.
    pub(crate) is_forwarded: bool,
}

impl Upstreams {
    /// The servers of a cache that asks `forwarders` about all names but those of `stubs`. Stubs of one zone are one
    /// stub with the servers of all.
    pub fn new(forwarders: &[SocketAddr], stubs: &[Stub]) -> Self {
        let mut merged: Vec<Stub> = Vec::new();
        for stub in stubs {
            let zone = stub.zone.to_ascii_lowercase();
            match merged.iter_mut().find(|other| other.zone == zone) {
                Some(other) => other.servers.extend(&stub.servers),
                None => merged.push(Stub { zone, servers: stub.servers.clone() }),
            }
        }
        // The zone with the most labels is the most specific of those that match.
        merged.sort_by_key(|stub| std::cmp::Reverse(labels(&stub.zone)));
        let mut policy = Policy {
            back_ends: Vec::new(),
            choice: Choice::LeastOutstanding,
            rules: Vec::new(),
            retry_servfail: false,
        };
        let mut zones = Vec::new();
        for Stub { zone, servers } in merged {
            let named = |server: &SocketAddr| format!("{}={server}", NameText(&zone));
            let servers = servers.iter().map(|server| (named(server), *server));
            add(&mut policy, false, vec![zone.clone()], servers);
            zones.push((zone, false));
        }
        if !forwarders.is_empty() {
            let servers = forwarders.iter().map(|server| (Target::Udp(*server).to_string(), *server));
            add(&mut policy, true, Vec::new(), servers);
            zones.push((vec![0], true));
        }
        let all: Vec<Vec<u8>> = zones.iter().map(|(name, _)| name.clone()).collect();
        let zones = zones.into_iter().map(|(name, is_forwarded)| {
            let names = Bailiwick::from_zone(&name).without(all.iter().map(Vec::as_slice));
            Zone { name, names, is_forwarded }
        });
        Self { policy, zones: Zones(zones.collect()) }
    }
}

/// Adds servers, and the rule that names with these suffixes go to them, with RD if they find answers.
fn add(
    policy: &mut Policy,
    is_forwarded: bool,
    suffixes: Vec<Vec<u8>>,
    servers: impl Iterator<Item = (String, SocketAddr)>,
) {
    let first = policy.back_ends.len();
    for (name, address) in servers {
        if !policy.back_ends[first..].iter().any(|other| other.name == name) {
            policy.back_ends.push(BackEnd { name, target: Target::Udp(address), weight: 1 });
        }
    }
    let to: Vec<usize> = (first..policy.back_ends.len()).collect();
    // A second server may do better where the first fails. A client costs two queries then, and no more.
    policy.retry_servfail |= to.len() > 1;
    let recursion_desired = Some(is_forwarded);
    policy.rules.push(Rule { recursion_desired, suffixes, types: Vec::new(), to, choice: None });
}

/// The number of labels of a name in wire form, without the root.
fn labels(name: &[u8]) -> usize {
    std::iter::successors(Some(0), |&at| Some(at + 1 + usize::from(*name.get(at)?)))
        .take_while(|&at| name.get(at).is_some_and(|&bytes| bytes > 0))
        .count()
}

impl Zones {
    /// The number of the zone whose servers are asked about a name in wire form and in lower case; `None` if none are.
    /// It is the number of the rule in the policy. A DS record stands above the zone whose name it has, so it is asked
    /// of the servers of the zone above (RFC 4035, section 4.2).
    pub(crate) fn find(&self, name: &[u8], rtype: u16) -> Option<usize> {
        let is_above = |zone: &Zone| rtype != rtype::DS || zone.name != name || name == [0];
        self.0.iter().position(|zone| is_at_or_below(name, &zone.name) && is_above(zone))
    }

    /// The zone with this number.
    pub(crate) fn get(&self, number: usize) -> &Zone {
        &self.0[number]
    }

    /// The names that the servers of the zone with this number speak for.
    pub(crate) fn names(&self, number: usize) -> &Bailiwick {
        &self.0[number].names
    }

    /// Whether there are forwarders alone, which find every answer as far as it goes.
    pub(crate) fn are_forwarders(&self) -> bool {
        matches!(&self.0[..], [Zone { is_forwarded: true, .. }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_most_specific_zone_is_asked_and_the_forwarders_otherwise() {
        let stub = |zone: &[u8], server| Stub { zone: zone.to_vec(), servers: vec![address(server)] };
        let stubs = [
            stub(b"\x04test\0", "127.0.0.1:1"),
            stub(b"\x01A\x04test\0", "127.0.0.1:2"),
            stub(b"\x04TEST\0", "127.0.0.1:3"),
        ];
        let Upstreams { policy, zones } = Upstreams::new(&[address("[::1]:53")], &stubs);
        let to: Vec<&[usize]> = policy.rules.iter().map(|rule| &rule.to[..]).collect();
        assert_eq!(to, [&[0][..], &[1, 2], &[3]]);
        let names: Vec<&str> = policy.back_ends.iter().map(|back_end| back_end.name.as_str()).collect();
        assert_eq!(names[3], "udp://[::1]:53");
        assert!(names[0].ends_with("=127.0.0.1:2") && names[2].ends_with("=127.0.0.1:3"), "{names:?}");
        assert!(policy.retry_servfail, "a zone has two servers");
        let zone = |name: &[u8], rtype: u16| {
            let zone = zones.get(zones.find(name, rtype)?);
            Some((zone.name.clone(), zone.is_forwarded))
        };
        assert_eq!(zone(b"\x01b\x01a\x04test\0", 1), Some((b"\x01a\x04test\0".to_vec(), false)));
        assert_eq!(zone(b"\x02xa\x04test\0", 1), Some((b"\x04test\0".to_vec(), false)));
        assert_eq!(zone(b"\x05atest\0", 1), Some((b"\0".to_vec(), true)));
        assert!(
            !zones.are_forwarders() && Upstreams::new(&[address("[::1]:53")], &[]).zones.are_forwarders()
        );
        // The DS record of a zone is in the zone above.
        assert_eq!(zone(b"\x01a\x04test\0", rtype::DS), Some((b"\x04test\0".to_vec(), false)));
        assert_eq!(zone(b"\x04test\0", rtype::DS), Some((b"\0".to_vec(), true)));
        assert_eq!(zone(b"\x01b\x01a\x04test\0", rtype::DS), Some((b"\x01a\x04test\0".to_vec(), false)));
        let only_stubs = Upstreams::new(&[], &stubs).zones;
        assert_eq!((only_stubs.find(b"\x05atest\0", 1), only_stubs.find(b"\x04test\0", 1)), (None, Some(1)));
        assert_eq!(only_stubs.find(b"\x04test\0", rtype::DS), None);
        let desired: Vec<Option<bool>> = policy.rules.iter().map(|rule| rule.recursion_desired).collect();
        assert_eq!(desired, [Some(false), Some(false), Some(true)]);
    }

    #[test]
    fn labels_are_counted_without_the_root() {
        assert_eq!([&b"\0"[..], b"\x04test\0", b"\x01a\x04test\0"].map(labels), [0, 1, 2]);
    }
}

//! Finds a name in a zone (RFC 1034, section 4.3.2, step 3), by arithmetic on its labels.

use kqps_zone::Name;

use crate::names::{after, lettered, number};
use crate::place::Node;
use crate::site::Site;
use crate::tree::{Tree, Zone};

/// The match of a zone for a name. Numbers count labels of the name before the node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    /// The name exists.
    Here(Node),
    /// The name is below this cut, which begins the zone after it.
    Below(Node),
    /// The name does not exist, but this wildcard of the closest encloser does. The encloser comes after so many labels.
    Wildcard(Node, usize),
    /// The name does not exist. Its closest encloser comes after so many labels.
    Nowhere(usize),
}

/// A label of a name, without its length.
#[inline]
pub(crate) fn label(name: &Name, index: usize) -> &[u8] {
    let wire = name.suffix(index);
    &wire[1..=usize::from(wire[0])]
}

fn is(label: &[u8], word: &[u8]) -> bool {
    label.eq_ignore_ascii_case(word)
}

/// The node of a name with one label more than an encloser that exists.
fn or_nowhere(node: Option<Node>, above: usize, encloser: usize) -> Found {
    match node {
        Some(node) if above == 0 => Found::Here(node),
        // A name below one that has no names below it.
        Some(_) => Found::Nowhere(above),
        None => Found::Nowhere(encloser),
    }
}

impl Tree {
    /// Finds a name, which must be the zone's apex or below it. `spare` is a buffer.
    #[inline]
    pub(crate) fn locate(&self, zone: &Zone, name: &Name, spare: &mut Vec<u8>) -> Found {
        let Some(below) = (name.labels() - zone.labels()).checked_sub(1) else {
            return Found::Here(Node::Apex);
        };
        // The label directly below the apex; so many labels come before it.
        let first = label(name, below);
        let cut = |node: Node| if below == 0 { Found::Here(node) } else { Found::Below(node) };
        match zone {
            Zone::Root => match self.tld(first) {
                Some(tld) => cut(Node::Tld(tld)),
                None if is(first, b"root-servers") => {
                    below_servers(name, below, Node::RootServers, Node::RootServer, self.recipe.root.servers)
                }
                None => Found::Nowhere(below + 1),
            },
            Zone::Tld(tld) => match self.child(*tld, first, spare) {
                Some(Zone::Company(company)) => cut(Node::Company(company)),
                Some(Zone::Site(site)) => cut(Node::Site(site.number)),
                _ if is(first, b"nic") => {
                    let servers = self.tlds[*tld as usize].servers;
                    below_servers(name, below, Node::Nic, Node::NicServer, servers)
                }
                _ => Found::Nowhere(below + 1),
            },
            Zone::Company(company) => or_nowhere(self.company_node(*company, first), below, below + 1),
            Zone::Site(site) => self.in_site(site, name, below),
        }
    }

    fn company_node(&self, company: u32, first: &[u8]) -> Option<Node> {
        let servers = self.companies[company as usize].servers;
        if let Some(own) = after(b"ns", first) {
            return server_node(own, servers);
        }
        if is(first, b"www") {
            return Some(Node::Www);
        }
        let (head, rest) = first.split_first()?;
        let dash = rest.iter().position(|byte| *byte == b'-')?;
        let (site, step) = (number(&rest[..dash])?, number(&rest[dash + 1..])?);
        if !head.eq_ignore_ascii_case(&b'e') || site >= self.recipe.zone.count {
            return None;
        }
        let step = u8::try_from(step).ok()?;
        let facts = self.site(site);
        let is_there = (1..=facts.aliases).contains(&step)
            && !facts.alias_to_apex
            && self.sites.edge_company(site, step) == company;
        is_there.then_some(Node::Edge(site, step))
    }

    fn in_site(&self, site: &Site, name: &Name, below: usize) -> Found {
        let first = label(name, below);
        if site.srv && is(first, b"_tcp") {
            return match below.checked_sub(1) {
                None => Found::Here(Node::Tcp),
                Some(deeper) => {
                    let node = is(label(name, deeper), b"_sip").then_some(Node::Sip);
                    or_nowhere(node, deeper, below)
                }
            };
        }
        let found = or_nowhere(self.site_node(site, first), below, below + 1);
        match found {
            // Only the apex has a wildcard below it.
            Found::Nowhere(encloser) if site.wildcard && encloser == below + 1 => {
                Found::Wildcard(Node::Wildcard, encloser)
            }
            found => found,
        }
    }

    fn site_node(&self, site: &Site, first: &[u8]) -> Option<Node> {
        if is(first, b"www") {
            return Some(Node::Www);
        }
        if let Some(host) = after(b"host-", first) {
            return (host < site.hosts.into()).then_some(Node::Host(u8::try_from(host).ok()?));
        }
        if let Some(own) = after(b"ns", first).filter(|_| site.in_bailiwick) {
            return server_node(own, self.companies[site.company as usize].servers);
        }
        match first {
            _ if site.mail && is(first, b"mail") => Some(Node::Mail),
            _ if site.mail && is(first, b"_dmarc") => Some(Node::Dmarc),
            b"*" if site.wildcard => Some(Node::Wildcard),
            _ => None,
        }
    }
}

/// Finds a name at or below the parent of servers' names.
fn below_servers(name: &Name, above: usize, parent: Node, server: impl Fn(u8) -> Node, servers: u8) -> Found {
    match above.checked_sub(1) {
        None => Found::Here(parent),
        Some(below) => or_nowhere(lettered(label(name, below), servers).map(server), below, above),
    }
}

fn server_node(own: u64, servers: u8) -> Option<Node> {
    let own = u8::try_from(own.checked_sub(1)?).ok()?;
    (own < servers).then_some(Node::Server(own))
}

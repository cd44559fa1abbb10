//! The records of every name, as functions of zone, name and type.

use std::net::{Ipv4Addr, Ipv6Addr};

use kqps_message::rtype;
use kqps_recipe::{Stream, append_decimal};

use crate::place::Node;
use crate::rrset::{Rrset, Types};
use crate::server::{HOST_BITS, HOSTS, HOSTS_6, Server};
use crate::site::Site;
use crate::tree::{Tree, Zone};

/// The refresh, retry and expiry times of every SOA record, seconds.
const SOA_TIMES_S: [u32; 3] = [7200, 3600, 1_209_600];

impl Tree {
    /// The types at a name, without RRSIG and NSEC.
    pub(crate) fn types(&self, zone: &Zone, node: Node) -> Types {
        let mut types = Types::default();
        let is_signed = self.algorithm(zone) != 0;
        match node {
            Node::Apex => {
                let site = if let Zone::Site(site) = zone { Some(site) } else { None };
                let has = |fact: fn(&Site) -> bool| site.is_some_and(fact);
                types.push_if(site.is_some(), rtype::A);
                types.push(rtype::NS);
                types.push(rtype::SOA);
                types.push_if(has(|site| site.mail), rtype::MX);
                types.push_if(has(|site| site.mail), rtype::TXT);
                types.push_if(has(|site| site.ipv6), rtype::AAAA);
                types.push_if(is_signed, rtype::DNSKEY);
                types.push_if(is_signed && zone.has_nsec3(), rtype::NSEC3PARAM);
                types.push_if(has(|site| site.https), rtype::HTTPS);
            }
            Node::Tld(_) | Node::Company(_) | Node::Site(_) => {
                types.push(rtype::NS);
                types.push_if(self.algorithm(&self.below(node)) != 0, rtype::DS);
            }
            Node::RootServers | Node::Nic | Node::Tcp => {}
            Node::RootServer(own) => self.address_types(Server::Root(own), &mut types),
            Node::NicServer(own) => {
                if let Zone::Tld(tld) = zone {
                    self.address_types(Server::Tld(*tld, own), &mut types);
                }
            }
            Node::Server(own) => self.address_types(Server::Company(zone.company(), own), &mut types),
            Node::Edge(number, step) => {
                let site = self.site(number);
                if step < site.aliases {
                    types.push(rtype::CNAME);
                } else {
                    host_types(&site, &mut types);
                }
            }
            Node::Www => match zone {
                Zone::Site(site) if site.aliases > 0 => types.push(rtype::CNAME),
                Zone::Site(site) => {
                    host_types(site, &mut types);
                    types.push_if(site.https, rtype::HTTPS);
                }
                _ => types.push(rtype::A),
            },
            Node::Mail | Node::Host(_) | Node::Wildcard => {
                if let Zone::Site(site) = zone {
                    host_types(site, &mut types);
                }
            }
            Node::Dmarc => types.push(rtype::TXT),
            Node::Sip => types.push(rtype::SRV),
        }
        types
    }

    /// The zone that begins at a cut.
    pub(crate) fn below(&self, cut: Node) -> Zone {
        match cut {
            Node::Tld(tld) => Zone::Tld(tld),
            Node::Company(company) => Zone::Company(company),
            Node::Site(number) => Zone::Site(self.site(number)),
            _ => Zone::Root,
        }
    }

    fn address_types(&self, server: Server, types: &mut Types) {
        types.push(rtype::A);
        types.push_if(self.has_ipv6(server), rtype::AAAA);
    }

    /// The number of servers of a zone.
    pub(crate) fn servers(&self, zone: &Zone) -> u8 {
        match zone {
            Zone::Root => self.recipe.root.servers,
            Zone::Tld(tld) => self.tlds[*tld as usize].servers,
            Zone::Company(_) | Zone::Site(_) => self.companies[zone.company() as usize].servers,
        }
    }

    /// Whether the referral to a zone has its servers' addresses.
    pub(crate) fn has_glue(&self, zone: &Zone) -> bool {
        match zone {
            Zone::Root | Zone::Tld(_) | Zone::Company(_) => true,
            Zone::Site(site) => {
                let company = &self.companies[site.company as usize];
                site.in_bailiwick || (company.tld == site.tld && company.glue)
            }
        }
    }

    /// The TTL of a zone's records.
    fn ttl_s(&self, zone: &Zone) -> u32 {
        match zone {
            Zone::Root => self.recipe.root.ttl_s,
            Zone::Tld(_) | Zone::Company(_) => self.recipe.tld.ttl_s,
            Zone::Site(site) => site.ttl_s,
        }
    }

    /// The TTL of a zone's negative answers, and of its SOA record.
    pub(crate) fn negative_ttl_s(&self, zone: &Zone) -> u32 {
        let least = match zone {
            Zone::Root => self.recipe.root.negative_ttl_s,
            Zone::Tld(_) | Zone::Company(_) => self.recipe.tld.negative_ttl_s,
            Zone::Site(site) => site.negative_ttl_s,
        };
        least.min(self.ttl_s(zone))
    }

    /// Turns a set into the records of a type at a name, which must have the type.
    pub(crate) fn fill(&self, zone: &Zone, node: Node, rtype: u16, set: &mut Rrset) {
        let ttl_s = match (node, rtype) {
            (_, rtype::SOA) => self.negative_ttl_s(zone),
            (Node::Edge(number, _), _) => self.site(number).edge_ttl_s,
            // DS records are among them. They are the parent's, and live as long as the delegation.
            _ => self.ttl_s(zone),
        };
        set.begin(rtype, ttl_s);
        self.append_name(zone, node, &mut set.owner);
        match rtype {
            rtype::NS => {
                let own = if node.is_cut() { self.below(node) } else { *zone };
                for server in 0..self.servers(&own) {
                    let (_, home, name) = own.server_name(server);
                    set.add(|out| self.append_name(&home, name, out));
                }
            }
            rtype::SOA => self.soa(zone, set),
            rtype::CNAME => {
                let (home, target) = self.target(zone, node);
                set.add(|out| self.append_name(&home, target, out));
            }
            rtype::DNSKEY => {
                let key = self.keys.key(zone.id(), self.algorithm(zone));
                set.add(|out| key.write(out));
            }
            rtype::DS => {
                let child = self.below(node);
                let key = self.keys.key(child.id(), self.algorithm(&child));
                // The owner of the DS record is that of the key.
                let owner = std::mem::take(&mut set.owner);
                set.add(|out| key.write_ds(&owner, out));
                set.owner = owner;
            }
            // SHA-1, no flags, no further iterations, no salt (RFC 9276, section 3.1).
            rtype::NSEC3PARAM => set.add(|out| out.extend_from_slice(&[1, 0, 0, 0, 0])),
            rtype::A | rtype::AAAA => self.address(zone, node, rtype, set),
            _ => self.site_data(zone, rtype, set),
        }
    }

    fn soa(&self, zone: &Zone, set: &mut Rrset) {
        let least = self.negative_ttl_s(zone);
        let (_, home, name) = zone.server_name(0);
        set.add(|out| {
            self.append_name(&home, name, out);
            out.extend_from_slice(b"\x0ahostmaster");
            self.append_apex(zone, out);
            for number in [1].into_iter().chain(SOA_TIMES_S).chain([least]) {
                out.extend_from_slice(&u32::to_be_bytes(number));
            }
        });
    }

    /// The zone and the node to which a CNAME leads.
    pub(crate) fn target(&self, zone: &Zone, node: Node) -> (Zone, Node) {
        let (number, step) = match (zone, node) {
            (Zone::Site(site), Node::Www) if site.alias_to_apex => return (*zone, Node::Apex),
            (Zone::Site(site), _) => (site.number, 1),
            (_, Node::Edge(number, step)) => (number, step + 1),
            _ => (0, 1),
        };
        (Zone::Company(self.sites.edge_company(number, step)), Node::Edge(number, step))
    }

    fn address(&self, zone: &Zone, node: Node, rtype: u16, set: &mut Rrset) {
        let server = match (zone, node) {
            (_, Node::RootServer(own)) => Some(Server::Root(own)),
            (Zone::Tld(tld), Node::NicServer(own)) => Some(Server::Tld(*tld, own)),
            (_, Node::Server(own)) => Some(Server::Company(zone.company(), own)),
            _ => None,
        };
        if let Some(server) = server {
            return if rtype == rtype::A {
                set.add(|out| out.extend_from_slice(&self.addresses.ipv4(server).octets()));
            } else if let Some(address) = self.addresses.ipv6(server) {
                set.add(|out| out.extend_from_slice(&address.octets()));
            };
        }
        let (salt, which) = match (zone, node) {
            (_, Node::Edge(number, _)) => (self.site(number).salt, 1),
            (Zone::Site(site), Node::Apex | Node::Www) => (site.salt, 0),
            (Zone::Site(site), Node::Mail) => (site.salt, 2),
            (Zone::Site(site), Node::Wildcard) => (site.salt, 3),
            (Zone::Site(site), Node::Host(host)) => (site.salt, 16 + u64::from(host)),
            _ => (u64::from(zone.company()), 4),
        };
        let host = Stream::with_number(salt, which).next();
        if rtype == rtype::A {
            set.add(|out| out.extend_from_slice(&host_address(host).octets()));
        } else {
            let address = Ipv6Addr::from(HOSTS_6 | u128::from(host));
            set.add(|out| out.extend_from_slice(&address.octets()));
        }
    }

    /// The data of types that only zones of customers have.
    fn site_data(&self, zone: &Zone, rtype: u16, set: &mut Rrset) {
        match rtype {
            rtype::MX => set.add(|out| {
                out.extend_from_slice(&10_u16.to_be_bytes());
                self.append_name(zone, Node::Mail, out);
            }),
            rtype::SRV => set.add(|out| {
                for field in [0_u16, 5, 5060] {
                    out.extend_from_slice(&field.to_be_bytes());
                }
                self.append_apex(zone, out);
            }),
            rtype::TXT if set.owner.starts_with(b"\x06_dmarc") => {
                set.add(|out| text(b"v=DMARC1; p=reject", out));
            }
            rtype::TXT => {
                let Zone::Site(site) = zone else { return };
                let address = host_address(Stream::with_number(site.salt, 2).next());
                set.add(|out| {
                    let start = out.len();
                    text(b"v=spf1 ip4:", out);
                    for (place, octet) in address.octets().into_iter().enumerate() {
                        if place > 0 {
                            out.push(b'.');
                        }
                        append_decimal(octet.into(), out);
                    }
                    out.extend_from_slice(b" -all");
                    out[start] = u8::try_from(out.len() - start - 1).expect("it is a short text");
                });
            }
            // Priority 1, with the owner as its target (RFC 9460, section 2.1).
            rtype::HTTPS => set.add(|out| out.extend_from_slice(b"\0\x01\0\0\x01\0\x03\x02h2")),
            _ => {}
        }
    }

    /// Calls `visit` with every name of a zone but the zones below it: those that hold records, and empty ones.
    pub(crate) fn nodes(&self, zone: &Zone, visit: &mut dyn FnMut(Node)) {
        visit(Node::Apex);
        match zone {
            Zone::Root => {
                visit(Node::RootServers);
                (0..self.recipe.root.servers).for_each(|own| visit(Node::RootServer(own)));
            }
            Zone::Tld(tld) => {
                visit(Node::Nic);
                (0..self.tlds[*tld as usize].servers).for_each(|own| visit(Node::NicServer(own)));
            }
            Zone::Company(_) => {
                visit(Node::Www);
                (0..self.servers(zone)).for_each(|own| visit(Node::Server(own)));
            }
            Zone::Site(site) => {
                visit(Node::Www);
                (0..site.hosts).for_each(|host| visit(Node::Host(host)));
                if site.in_bailiwick {
                    (0..self.servers(zone)).for_each(|own| visit(Node::Server(own)));
                }
                for (is_there, node) in [
                    (site.mail, Node::Mail),
                    (site.mail, Node::Dmarc),
                    (site.wildcard, Node::Wildcard),
                    (site.srv, Node::Tcp),
                    (site.srv, Node::Sip),
                ] {
                    if is_there {
                        visit(node);
                    }
                }
            }
        }
    }
}

fn host_types(site: &Site, types: &mut Types) {
    types.push(rtype::A);
    types.push_if(site.ipv6, rtype::AAAA);
}

fn host_address(host: u64) -> Ipv4Addr {
    let host = u32::try_from(host >> (64 - HOST_BITS)).expect("it has 24 bits");
    Ipv4Addr::from(HOSTS | host)
}

fn text(text: &[u8], out: &mut Vec<u8>) {
    out.push(u8::try_from(text.len()).expect("it is a short text"));
    out.extend_from_slice(text);
}

//! The tree as text: master files of its zones, root hints, and trust anchors.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kqps_message::name::{self, NameText};
use kqps_message::presentation::data_text;
use kqps_message::rtype::{self, RtypeName};

use crate::internet::Internet;
use crate::order::Order;
use crate::place::{Node, ZoneId};
use crate::rrset::Rrset;
use crate::tree::{Tree, Zone};

/// The TTL of hints, seconds, as the file of the real root has it. It has no effect.
pub const HINTS_TTL_S: u32 = 3_600_000;

impl Internet {
    /// A file of root hints.
    pub fn root_hints(&self) -> String {
        let mut text = String::new();
        let mut set = Rrset::default();
        let (tree, root) = (&self.tree, Zone::Root);
        let mut add = |node: Node, rtype: u16| {
            tree.fill(&root, node, rtype, &mut set);
            set.ttl_s = HINTS_TTL_S;
            write_set(&set, &mut text);
        };
        add(Node::Apex, rtype::NS);
        for own in 0..tree.servers(&root) {
            let node = Node::RootServer(own);
            tree.types(&root, node).as_slice().iter().for_each(|&rtype| add(node, rtype));
        }
        text
    }

    /// The DNSKEY record of the root's key, as a line of a master file; empty if the root is not signed.
    pub fn trust_anchor(&self) -> String {
        let algorithm = self.tree.algorithm(&Zone::Root);
        if algorithm == 0 {
            return String::new();
        }
        let mut data = Vec::new();
        self.tree.keys.key(ZoneId::Root, algorithm).write(&mut data);
        let (ttl_s, data) = (self.tree.recipe.root.ttl_s, zone_data_text(rtype::DNSKEY, &data));
        format!(". {ttl_s} IN DNSKEY {data}\n")
    }

    /// The master file of a zone, signed if the zone is, so that tools of others can check the tree. The file of a top-level domain
    /// or a company is searched for among all zones, so it takes a second for a million zones.
    pub fn zone_text(&self, zone: ZoneId) -> String {
        let zone = self.tree.zone(zone);
        let mut writer = ZoneText { tree: &self.tree, zone, text: String::new(), set: Rrset::default() };
        let mut nodes = Vec::new();
        self.tree.nodes(&zone, &mut |node| nodes.push(node));
        nodes.extend(self.cuts(&zone));
        // The SOA record comes first.
        writer.rrset(Node::Apex, rtype::SOA);
        for node in nodes {
            for &rtype in self.tree.types(&zone, node).as_slice().iter().filter(|&&rtype| rtype != rtype::SOA)
            {
                writer.rrset(node, rtype);
            }
            if node.is_cut() {
                writer.glue(node);
            }
        }
        if self.tree.algorithm(&zone) != 0 {
            let mut own = Order::default();
            let order = match zone {
                Zone::Root => &self.orders.root,
                Zone::Tld(tld) => &self.orders.tlds[tld as usize],
                _ => {
                    own.turn_to(&self.tree, &zone, &mut std::iter::empty());
                    &own
                }
            };
            (0..order.len()).for_each(|place| writer.proof(order, place));
        }
        writer.text
    }

    /// Delegations in a zone, and in the zone of a company the names to which aliases lead.
    fn cuts(&self, zone: &Zone) -> Vec<Node> {
        let tree = &self.tree;
        match zone {
            Zone::Root => (0..tree.recipe.tld.count).map(Node::Tld).collect(),
            Zone::Tld(tld) => {
                let companies = (0..).zip(&tree.companies).filter(|(_, company)| company.tld == *tld);
                let sites = (0..tree.recipe.zone.count).filter(|&number| tree.site(number).tld == *tld);
                companies.map(|(number, _)| Node::Company(number)).chain(sites.map(Node::Site)).collect()
            }
            Zone::Company(company) => {
                let mut edges = Vec::new();
                for site in (0..tree.recipe.zone.count).map(|number| tree.site(number)) {
                    let aliases = if site.alias_to_apex { 0 } else { site.aliases };
                    let here =
                        (1..=aliases).filter(|&step| tree.sites.edge_company(site.number, step) == *company);
                    edges.extend(here.map(|step| Node::Edge(site.number, step)));
                }
                edges
            }
            Zone::Site(_) => Vec::new(),
        }
    }
}

struct ZoneText<'t> {
    tree: &'t Tree,
    zone: Zone,
    text: String,
    set: Rrset,
}

impl ZoneText<'_> {
    fn rrset(&mut self, node: Node, rtype: u16) {
        self.tree.fill(&self.zone, node, rtype, &mut self.set);
        let is_delegation = node.is_cut() && rtype == rtype::NS;
        self.write(!is_delegation);
    }

    /// Writes the addresses of a delegation's servers that have names in its zone.
    fn glue(&mut self, cut: Node) {
        let below = self.tree.below(cut);
        for own in 0..self.tree.servers(&below) {
            let (_, home, node) = below.server_name(own);
            if home.id() == below.id() {
                for &rtype in self.tree.types(&home, node).as_slice() {
                    self.tree.fill(&home, node, rtype, &mut self.set);
                    self.write(false);
                }
            }
        }
    }

    fn proof(&mut self, order: &Order, place: usize) {
        order.fill(self.tree, &self.zone, place, &mut self.set);
        self.write(true);
    }

    fn write(&mut self, is_own: bool) {
        write_set(&self.set, &mut self.text);
        if is_own && self.tree.algorithm(&self.zone) != 0 {
            let mut signature = Rrset::default();
            self.tree.sign(&self.zone, &self.set, &mut signature, &mut Vec::new());
            write_set(&signature, &mut self.text);
        }
    }
}

fn write_set(set: &Rrset, text: &mut String) {
    for data in set.iter() {
        write_record(&set.owner, (set.rtype, set.ttl_s), data, text);
    }
}

/// Appends a record as a line of a master file.
pub(crate) fn write_record(owner: &[u8], (rtype, ttl_s): (u16, u32), data: &[u8], text: &mut String) {
    let data = zone_data_text(rtype, data);
    let _ = writeln!(text, "{} {ttl_s} IN {} {data}", NameText(owner), RtypeName(rtype));
}

/// Data as a master file has them, with the types of a zone's apex and cuts.
fn zone_data_text(rtype: u16, data: &[u8]) -> String {
    let known = match rtype {
        rtype::SOA => soa(data),
        rtype::DS => data.split_at_checked(4).map(|(head, digest)| {
            let tag = u16::from_be_bytes([head[0], head[1]]);
            let hex = digest.iter().fold(String::new(), |text, byte| text + &format!("{byte:02X}"));
            format!("{tag} {} {} {hex}", head[2], head[3])
        }),
        rtype::DNSKEY => data.split_at_checked(4).map(|(head, key)| {
            let flags = u16::from_be_bytes([head[0], head[1]]);
            format!("{flags} {} {} {}", head[2], head[3], STANDARD.encode(key))
        }),
        _ => None,
    };
    known.unwrap_or_else(|| data_text(rtype, data))
}

fn soa(data: &[u8]) -> Option<String> {
    let server = name::end(data, 0)?;
    let contact = name::end(data, server)?;
    let numbers = data.get(contact..)?.as_chunks().0.iter().map(|number| u32::from_be_bytes(*number));
    let numbers = numbers.fold(String::new(), |text, number| format!("{text} {number}"));
    Some(format!("{} {}{numbers}", NameText(data), NameText(&data[server..])))
}

//! Questions of clients: each is a function of its number.

use kqps_message::rtype;
use kqps_recipe::{Stream, append_letters};

use crate::internet::Internet;
use crate::place::{Node, ZoneId};
use crate::tree::{LABELS, Zone};

/// Letters of names that do not exist. No label of the tree is so long and has letters alone.
const LETTERS: usize = 20;

/// A question: a name in wire form, and a type.
pub type ClientQuestion = (Vec<u8>, u16);

impl Internet {
    /// The question with this number. Names are drawn by popularity, so a file of questions is that of the numbers from 0 on.
    pub fn question(&self, number: u64) -> ClientQuestion {
        let queries = &self.tree.recipe.queries;
        let mut stream = Stream::with_number(queries.seed, number);
        let index = self.types.draw(&mut stream) as usize;
        let qtype = queries.types.get_index(index).map_or(rtype::A, |(qtype, _)| qtype.0);
        let site = self.tree.site(self.popular.draw(&mut stream));
        let zone = Zone::Site(site);
        let mut name = Vec::new();
        let unit = stream.unit();
        if unit < queries.no_tld {
            letters(&mut stream, &mut name);
            name.push(0);
        } else if unit < queries.no_tld + queries.no_zone {
            // The numbers of zones that do not exist begin after those that do.
            let count = self.tree.recipe.zone.count;
            let mut label = Vec::new();
            self.tree.labels.append(self.tree.recipe.seed ^ LABELS, count + stream.below(count), &mut label);
            name.extend(u8::try_from(label.len()));
            name.extend(label);
            self.tree.append_apex(&Zone::Tld(site.tld), &mut name);
        } else if unit < queries.no_tld + queries.no_zone + queries.no_name {
            letters(&mut stream, &mut name);
            self.tree.append_apex(&zone, &mut name);
        } else {
            self.tree.append_name(&zone, self.node(&zone, qtype, &mut stream), &mut name);
        }
        (name, qtype)
    }

    /// The number of zones.
    pub fn zones(&self) -> u64 {
        self.tree.recipe.zone.count
    }

    /// The name of a zone in wire form. Zones of customers are numbered by popularity.
    pub fn zone_name(&self, zone: ZoneId) -> Vec<u8> {
        self.tree.apex(zone)
    }

    /// A name of a zone that is asked for records of a type.
    fn node(&self, zone: &Zone, qtype: u16, stream: &mut Stream) -> Node {
        match qtype {
            rtype::A | rtype::AAAA | rtype::HTTPS | rtype::CNAME => {}
            rtype::SRV => return Node::Sip,
            _ => return Node::Apex,
        }
        match self.names.draw(stream) {
            0 => Node::Www,
            1 => Node::Apex,
            _ => {
                let mut others = Vec::new();
                self.tree.nodes(zone, &mut |node| {
                    if matches!(node, Node::Host(_) | Node::Mail | Node::Server(_)) {
                        others.push(node);
                    }
                });
                let count = others.len() as u64;
                others.get(stream.below(count) as usize).copied().unwrap_or(Node::Www)
            }
        }
    }
}

pub(crate) fn letters(stream: &mut Stream, name: &mut Vec<u8>) {
    name.extend(u8::try_from(LETTERS));
    append_letters(stream, LETTERS, name);
}

//! The Internet in a box: which server answers what.

use std::cell::RefCell;
use std::net::IpAddr;

use kqps_message::edns::OPT_BYTES;
use kqps_message::header::HEADER_BYTES;
use kqps_message::{rcode, rtype};
use kqps_recipe::Draws;
use kqps_zone::{Asked, Name, Names};

use crate::answer::Buffers;
use crate::answered::{Answered, Kind, Level};
use crate::behaviour::{Conduct, Conducts, Turn};
use crate::locate::label;
use crate::message::{Question, Written, objection};
use crate::order::Orders;
use crate::place::Node;
use crate::recipe::{Fault, InternetRecipe, RecipeError};
use crate::rrset::Rrset;
use crate::server::Server;
use crate::tree::{Tree, Zone};
use crate::writer::Writer;

/// An Internet: the root, top-level domains, companies and zones. It can be shared among threads.
#[derive(Debug)]
pub struct Internet {
    pub(crate) tree: Tree,
    pub(crate) orders: Orders,
    pub(crate) conducts: Conducts,
    /// Zones by their popularity.
    pub(crate) popular: Draws,
    /// Types of questions by their weights.
    pub(crate) types: Draws,
}

/// The buffers of a thread.
struct Scratch {
    name: Name,
    names: Names,
    buffers: Buffers,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> =
        RefCell::new(Scratch { name: Name::root(), names: Names::new(), buffers: Buffers::default() });
}

impl Internet {
    /// An Internet of a recipe. Takes a second for a million zones, and some tens of MiB.
    pub fn new(recipe: &InternetRecipe) -> Result<Self, RecipeError> {
        let tree = Tree::new(recipe)?;
        let orders = Orders::new(&tree);
        let popularity =
            |error: kqps_recipe::GenerateError| RecipeError::fault("queries.popularity", error.to_string());
        let popular = recipe.queries.popularity.draws(recipe.zone.count).map_err(popularity)?;
        let types: Vec<f64> = recipe.queries.types.values().copied().collect();
        let (conducts, types) = (Conducts::new(recipe), Draws::weighted(&types));
        Ok(Self { tree, orders, conducts, popular, types })
    }

    /// Prefixes that hold the addresses of all servers, with their bits: IPv4, and IPv6 if the recipe has it.
    pub fn prefixes(&self) -> Vec<(IpAddr, u8)> {
        self.tree.addresses.prefixes()
    }

    /// The server with an address.
    pub fn server(&self, address: IpAddr) -> Option<Server> {
        let server = self.tree.server(self.tree.addresses.number_at(address)?)?;
        (address.is_ipv4() || self.tree.has_ipv6(server)).then_some(server)
    }

    /// The addresses of a server: IPv4, and IPv6 if it has one. The server must exist.
    pub fn addresses(&self, server: Server) -> Vec<IpAddr> {
        let ipv6 = self.tree.addresses.ipv6(server).filter(|_| self.tree.has_ipv6(server));
        let ipv4 = IpAddr::V4(self.tree.addresses.ipv4(server));
        std::iter::once(ipv4).chain(ipv6.map(IpAddr::V6)).collect()
    }

    /// The number of places for servers. Not every place has one.
    pub fn places(&self) -> u32 {
        self.tree.addresses.end()
    }

    /// The place of the server at an address, below [`Self::places`].
    #[inline]
    pub fn place_at(&self, address: IpAddr) -> Option<u32> {
        self.tree.addresses.number_at(address).filter(|place| *place < self.places())
    }

    /// All servers.
    pub fn servers(&self) -> impl Iterator<Item = Server> + '_ {
        (0..)
            .map_while(move |number| (number < self.tree.addresses.end()).then(|| self.tree.server(number)))
            .flatten()
    }

    /// Writes the reply of the server at an address into `reply`, which is cleared first and stays empty if there is none.
    /// Over UDP it has at most as many bytes as the query's EDNS allows, or 512 without. Faults that a recipe makes at a share
    /// of the queries are drawn by the bytes of the query, so the same query always fares the same.
    #[inline]
    pub fn answer(&self, server: IpAddr, query: &[u8], is_tcp: bool, reply: &mut Vec<u8>) -> Answered {
        self.respond(server, query, is_tcp, Turn::Hash(hash(query)), reply)
    }

    /// Answers as [`Self::answer`] does. `turn` is the number of queries of the same transport that came to the server before, so
    /// faults are made in exact numbers.
    #[inline]
    pub fn answer_in_turn(
        &self,
        server: IpAddr,
        query: &[u8],
        is_tcp: bool,
        turn: u64,
        reply: &mut Vec<u8>,
    ) -> Answered {
        self.respond(server, query, is_tcp, Turn::Number(turn), reply)
    }

    /// Whether a server has the behaviour with this number in the recipe, from 0.
    pub fn has_behaviour(&self, index: usize, server: Server) -> bool {
        self.conducts.has(index as u64, server, self.tree.addresses.number(server))
    }

    /// How many of the first `turns` queries of a transport a server that has the behaviour shows it at.
    pub fn shown(&self, index: usize, server: Server, turns: u64) -> u64 {
        self.conducts.shown(index as u64, self.tree.addresses.number(server), turns)
    }

    /// Whether the server at an address refuses all connections, so that it is known before one is accepted.
    pub fn refuses_tcp(&self, address: IpAddr) -> bool {
        let Some(server) = self.server(address) else { return true };
        (0..).zip(&self.tree.recipe.behaviour).any(|(index, behaviour)| {
            behaviour.fault == Fault::TcpRefused
                && behaviour.queries >= 1.0
                && self.has_behaviour(index, server)
        })
    }

    /// Signs the records that most resolvers need: those of the root and of top-level domains. `part` of `parts` is done, so
    /// several threads can share the work. Without it these signatures are made when they are first asked for.
    pub fn prepare(&self, part: usize, parts: usize) {
        let (mut set, mut signature, mut spare) = (Rrset::default(), Rrset::default(), Vec::new());
        let tree = &self.tree;
        if tree.algorithm(&Zone::Root) == 0 {
            return;
        }
        let mut sign = |zone: &Zone, node: Node, only: &[u16]| {
            for &rtype in tree.types(zone, node).as_slice().iter().filter(|rtype| only.contains(rtype)) {
                tree.fill(zone, node, rtype, &mut set);
                tree.sign(zone, &set, &mut signature, &mut spare);
            }
        };
        let apex = [rtype::NS, rtype::SOA, rtype::DNSKEY];
        for number in (0..tree.recipe.tld.count).filter(|number| *number as usize % parts.max(1) == part) {
            sign(&Zone::Root, Node::Tld(number), &[rtype::DS]);
            if tree.algorithm(&Zone::Tld(number)) != 0 {
                sign(&Zone::Tld(number), Node::Apex, &apex);
            }
        }
        if part == 0 {
            sign(&Zone::Root, Node::Apex, &apex);
        }
        for place in (0..self.orders.root.len()).filter(|place| place % parts.max(1) == part) {
            self.orders.root.fill(tree, &Zone::Root, place, &mut set);
            tree.sign(&Zone::Root, &set, &mut signature, &mut spare);
        }
    }

    fn respond(
        &self,
        address: IpAddr,
        query: &[u8],
        is_tcp: bool,
        turn: Turn,
        reply: &mut Vec<u8>,
    ) -> Answered {
        reply.clear();
        let mut answered = Answered { level: Level::Nothing, kind: Kind::Silent, delay_ns: 0, fault: None };
        let Some(server) = self.server(address) else { return answered };
        answered.level = match server {
            Server::Root(_) => Level::Root,
            Server::Tld(..) => Level::Tld,
            Server::Company(..) => Level::Hosting,
        };
        let number = self.tree.addresses.number(server);
        SCRATCH.with_borrow_mut(|scratch| {
            let Some(asked) = Asked::read(query, &mut scratch.name) else { return answered };
            let conduct = self.conducts.conduct(server, number, is_tcp, turn);
            answered.delay_ns = conduct.delay_ns;
            answered.fault = conduct.delay;
            if let Some(fault @ (Fault::Loss | Fault::Silence | Fault::TcpRefused)) = conduct.fault {
                answered.fault = Some(fault);
                return answered;
            }
            let question = Question { query, asked, server, is_tcp };
            let (kind, fault) = self.reply(&question, &conduct, scratch, reply);
            answered.kind = kind;
            answered.fault = fault.or(answered.fault);
            answered
        })
    }

    /// Writes a reply. Returns its kind, and the fault that shows in it.
    fn reply(
        &self,
        question: &Question<'_>,
        conduct: &Conduct,
        scratch: &mut Scratch,
        reply: &mut Vec<u8>,
    ) -> (Kind, Option<Fault>) {
        let Question { query, asked, .. } = question;
        let limit = question.limit(conduct);
        reply.resize(limit, 0);
        reply[..asked.end].copy_from_slice(&query[..asked.end]);
        let opt_bytes = if asked.edns.is_some() { OPT_BYTES } else { 0 };
        scratch.names.forget(0);
        if asked.has_question {
            scratch.names.note(&scratch.name, HEADER_BYTES, scratch.name.labels());
        }
        let writer = Writer::new(reply, &mut scratch.names, asked.end, limit - opt_bytes);
        let mut written = Written::new(asked.end);
        let mut fault = None;
        match objection(question, conduct) {
            Some((rcode, kind, made)) => {
                (written.rcode, written.kind) = (rcode, kind);
                fault = made;
            }
            None if conduct.fault == Some(Fault::Lame) => {
                written.lame(&self.tree, writer, &mut scratch.buffers);
                fault = conduct.fault;
            }
            None if conduct.fault == Some(Fault::Truncation) => {
                written.kind = Kind::Truncated;
                fault = conduct.fault;
            }
            None => {
                let zone = self.zone_for(question.server, &scratch.name, &mut scratch.buffers.spare);
                if let Some(zone) = zone {
                    let buffers = (&mut scratch.name, &mut scratch.buffers);
                    written.answer((&self.tree, &self.orders), zone, question, writer, buffers);
                } else {
                    (written.rcode, written.kind) = (rcode::REFUSED, Kind::Refused);
                }
            }
        }
        if written.kind == Kind::Truncated && conduct.fault == Some(Fault::PathMtu) {
            fault = conduct.fault;
        }
        if let Some(at) = written.answer_at.filter(|_| conduct.fault == Some(Fault::WrongAnswer)) {
            // The highest bit of an address: not one of the tree's own.
            reply[at] ^= 0x80;
            fault = conduct.fault;
        }
        written.finish(question, fault == Some(Fault::NoEdns), reply);
        (written.kind, fault)
    }

    /// The zone of a server that a name is in. No server answers for names in other zones.
    #[inline]
    fn zone_for(&self, server: Server, name: &Name, spare: &mut Vec<u8>) -> Option<Zone> {
        let top = || self.tree.tld(label(name, name.labels().checked_sub(1)?));
        match server {
            Server::Root(_) => Some(Zone::Root),
            Server::Tld(tld, _) => (top()? == tld).then_some(Zone::Tld(tld)),
            Server::Company(company, _) => {
                let below = name.labels().checked_sub(2)?;
                let zone = self.tree.child(top()?, label(name, below), spare)?;
                (zone.company() == company).then_some(zone)
            }
        }
    }
}

/// A hash of a query's bytes that is the same on every machine.
fn hash(query: &[u8]) -> u64 {
    query.chunks(8).fold(query.len() as u64, |hash, bytes| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

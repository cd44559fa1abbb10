//! The Internet in a box: which server answers what.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::Arc;

use kqps_message::edns::OPT_BYTES;
use kqps_message::header::HEADER_BYTES;
use kqps_message::{rcode, rtype};
use kqps_recipe::Draws;
use kqps_zone::{Asked, Name, Names};

use crate::answer::Buffers;
use crate::answered::{Answered, Kind, Level, TcpConduct};
use crate::behaviour::{Conduct, Conducts};
use crate::locate::label;
use crate::message::{Question, TCP_BYTES, Written, objection};
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
    /// Names of a zone by their weights: `www`, the zone's own name, and other hosts.
    pub(crate) names: Draws,
}

/// The buffers of a thread.
struct Scratch {
    name: Name,
    names: Names,
    buffers: Buffers,
    /// The reply that is being written.
    message: Box<[u8]>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        name: Name::root(),
        names: Names::new(),
        buffers: Buffers::default(),
        message: vec![0; TCP_BYTES].into(),
    });
}

impl Internet {
    /// An Internet of a recipe. Takes a second for a million zones, and some tens of MiB.
    pub fn new(recipe: &InternetRecipe) -> Result<Self, RecipeError> {
        let recipe = Arc::new(recipe.clone());
        let tree = Tree::new(&recipe)?;
        let orders = Orders::new(&tree);
        let popularity =
            |error: kqps_recipe::GenerateError| RecipeError::fault("queries.popularity", error.to_string());
        let popular = recipe.queries.popularity.draws(recipe.zone.count).map_err(popularity)?;
        let types: Vec<f64> = recipe.queries.types.values().copied().collect();
        let (conducts, types) = (Conducts::new(&recipe), Draws::weighted(&types));
        let names = Draws::weighted(&recipe.queries.names);
        Ok(Self { tree, orders, conducts, popular, types, names })
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

    /// Whether there is such a server.
    pub fn has_server(&self, server: Server) -> bool {
        match server {
            Server::Root(own) => own < self.tree.recipe.root.servers,
            Server::Tld(tld, own) => self.tree.tlds.get(tld as usize).is_some_and(|tld| own < tld.servers),
            Server::Company(company, own) => {
                self.tree.companies.get(company as usize).is_some_and(|company| own < company.servers)
            }
        }
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

    /// Whether any server takes some time to answer.
    pub fn has_delays(&self) -> bool {
        self.conducts.have_delays()
    }

    /// Whether an answer, or its delay, depends on the number of queries that came to its server before.
    pub fn answers_by_turn(&self) -> bool {
        self.conducts.depend_on_turns()
    }

    /// Writes the reply of the server at an address into `reply`, which is cleared first and stays empty if there is none.
    /// Over UDP it has at most as many bytes as the query's EDNS allows, or 512 without. `turn` is the number of queries of the
    /// same transport that came to the server before: the turns at which a fault is made are exact.
    #[inline]
    pub fn answer(
        &self,
        server: IpAddr,
        query: &[u8],
        is_tcp: bool,
        turn: u64,
        reply: &mut Vec<u8>,
    ) -> Answered {
        reply.clear();
        let mut answered = Answered { level: Level::Nothing, kind: Kind::Silent, delay_ns: 0, fault: None };
        let Some(server) = self.server(server) else { return answered };
        let number = self.tree.addresses.number(server);
        SCRATCH.with_borrow_mut(|scratch| {
            let Some(asked) = Asked::read(query, &mut scratch.name) else { return answered };
            let zone = if asked.has_question {
                self.zone_for(server, &scratch.name, &mut scratch.buffers.spare)
            } else {
                None
            };
            answered.level = match server {
                _ if zone.is_none() => Level::Nothing,
                Server::Root(_) => Level::Root,
                Server::Tld(..) => Level::Tld,
                Server::Company(..) => Level::Hosting,
            };
            let conduct = self.conducts.conduct(server, number, is_tcp, turn);
            answered.delay_ns = conduct.delay_ns;
            answered.fault = conduct.delay;
            if let Some(fault @ (Fault::Loss | Fault::Silence | Fault::TcpRefused)) = conduct.fault {
                answered.fault = Some(fault);
                return answered;
            }
            let question = Question { query, asked, is_tcp };
            let (kind, fault) = self.reply(&question, zone, &conduct, scratch, reply);
            answered.kind = kind;
            answered.fault = fault.or(answered.fault);
            answered
        })
    }

    /// How the server at an address treats connections by TCP, known before one is accepted.
    pub fn tcp_conduct(&self, address: IpAddr) -> TcpConduct {
        match self.server(address) {
            Some(server) => self.conducts.of_connections(server, self.tree.addresses.number(server)),
            None => TcpConduct::Refuse(None),
        }
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

    /// Writes a reply from a zone of the server, if the server has the zone of the name. Returns the reply's kind, and the fault
    /// that shows in it.
    fn reply(
        &self,
        question: &Question<'_>,
        zone: Option<Zone>,
        conduct: &Conduct,
        scratch: &mut Scratch,
        reply: &mut Vec<u8>,
    ) -> (Kind, Option<Fault>) {
        let Question { query, asked, .. } = question;
        let Scratch { name, names, buffers, message } = scratch;
        let limit = question.limit(conduct);
        message[..asked.end].copy_from_slice(&query[..asked.end]);
        let opt_bytes = if asked.edns.is_some() { OPT_BYTES } else { 0 };
        names.forget(0);
        if asked.has_question {
            names.note(name, HEADER_BYTES, name.labels());
        }
        let writer = Writer::new(message, names, asked.end, limit - opt_bytes);
        let mut written = Written::new(asked.end);
        let mut fault = None;
        match objection(question, conduct) {
            Some((rcode, kind, made)) => {
                (written.rcode, written.kind) = (rcode, kind);
                fault = made;
            }
            None if conduct.fault == Some(Fault::Lame) => {
                written.lame(&self.tree, writer, buffers);
                fault = conduct.fault;
            }
            None if conduct.fault == Some(Fault::Truncation) => {
                written.kind = Kind::Truncated;
                fault = conduct.fault;
            }
            None if has_many_servers(conduct, zone, name) => {
                written.many_servers(&self.tree, writer, (name, conduct.names), &mut buffers.set);
                fault = conduct.fault;
            }
            None => {
                if let Some(zone) = zone {
                    written.answer((&self.tree, &self.orders), zone, question, writer, (name, buffers));
                } else {
                    (written.rcode, written.kind) = (rcode::REFUSED, Kind::Refused);
                }
            }
        }
        let is_cut_short = conduct.fault == Some(Fault::PathMtu) && limit < question.usual_limit();
        if written.kind == Kind::Truncated && is_cut_short {
            fault = conduct.fault;
        }
        if let Some(at) = written.answer_at.filter(|_| conduct.fault == Some(Fault::WrongAnswer)) {
            // No address of the tree has this highest bit and the same others.
            message[at] ^= 0x80;
            fault = conduct.fault;
        }
        let bytes = written.finish(question, fault == Some(Fault::NoEdns), message);
        reply.extend_from_slice(&message[..bytes]);
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

/// Whether the fault of a server shows at a name: it is below a zone of the server's.
fn has_many_servers(conduct: &Conduct, zone: Option<Zone>, name: &Name) -> bool {
    let is_below = zone.is_some_and(|zone| name.labels() > zone.labels());
    conduct.fault == Some(Fault::ManyServers) && is_below
}

//! A resolver by the book for tests: iterative, without a cache, one question at a time. It knows the root hints alone.

use std::net::{IpAddr, Ipv4Addr};

use kqps_internet::{Answered, Internet, InternetRecipe, Server, ZoneId};
use kqps_message::edns::Edns;
use kqps_message::name::{encode, is_at_or_below};
use kqps_message::{Header, canonical, name, query, question, rcode, record, rtype};

/// An Internet of the built-in recipe's small size, with settings.
pub(crate) fn small(settings: &[&str]) -> Internet {
    let settings: Vec<String> = settings.iter().map(|text| (*text).to_owned()).collect();
    let recipe = InternetRecipe::named("internet", Some("small"), &settings);
    let recipe = recipe.unwrap_or_else(|error| panic!("{error}"));
    Internet::new(&recipe).unwrap_or_else(|error| panic!("{error}"))
}

/// All servers, by their addresses.
pub(crate) fn servers(internet: &Internet) -> Vec<Server> {
    let mut prefixes = internet.prefixes().into_iter();
    let prefix =
        prefixes.find_map(|(prefix, _)| if let IpAddr::V4(prefix) = prefix { Some(prefix) } else { None });
    let first = u32::from(prefix.expect("a prefix of IPv4"));
    let address = |place| IpAddr::V4(Ipv4Addr::from(first + place));
    (0..internet.places()).filter_map(|place| internet.server(address(place))).collect()
}

/// Whether a zone is signed: a resolver finds its key.
pub(crate) fn is_signed(internet: &Internet, zone: ZoneId) -> bool {
    let expected = internet.expected(&internet.zone_name(zone), rtype::DNSKEY);
    expected.is_some_and(|expected| !expected.answers.is_empty())
}

/// A name in wire form.
pub(crate) fn wire(text: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    encode(text.as_bytes(), &mut wire).unwrap();
    wire
}

/// A record of a reply, with names in lower case and without compression.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rec {
    pub(crate) owner: Vec<u8>,
    pub(crate) rtype: u16,
    pub(crate) ttl_s: u32,
    pub(crate) data: Vec<u8>,
}

/// A reply, read.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) answered: Answered,
    pub(crate) rcode: u16,
    pub(crate) is_authoritative: bool,
    pub(crate) is_truncated: bool,
    pub(crate) bytes: usize,
    pub(crate) message: Vec<u8>,
    pub(crate) has_opt: bool,
    /// Answer, authority and additional, without OPT.
    pub(crate) sections: [Vec<Rec>; 3],
}

/// Writes a query.
pub(crate) fn query(name: &[u8], qtype: u16, edns: Option<Edns>) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    message.extend_from_slice(name);
    message.extend_from_slice(&qtype.to_be_bytes());
    message.extend_from_slice(&query::CLASS_IN.to_be_bytes());
    if let Some(edns) = edns {
        kqps_message::edns::append(&mut message, 0, &edns);
    }
    message
}

/// Reads a reply, which must be whole and repeat the question.
pub(crate) fn read(query: &[u8], reply: &[u8], answered: Answered) -> Reply {
    assert!(canonical::can_be_read(reply), "{}", reply.escape_ascii());
    assert_eq!(reply[..2], query[..2]);
    let header = Header::from_bytes(reply).unwrap();
    assert!(header.is_reply());
    let end = question::end(query).unwrap();
    assert!(question::same(&query[12..end], reply));
    let mut at = question::end(reply).unwrap();
    let mut sections = [Vec::new(), Vec::new(), Vec::new()];
    let mut has_opt = false;
    let counts = [header.answers(), header.authorities(), header.additionals()];
    for (count, section) in counts.into_iter().zip(&mut sections) {
        for _ in 0..count {
            let mut bytes = Vec::new();
            let found = canonical::append_record(reply, at, &mut bytes).unwrap();
            at = found.end;
            let owner = name::end(&bytes, 0).unwrap();
            if found.rtype == rtype::OPT {
                has_opt = true;
                continue;
            }
            let (owner, data) = (bytes[..owner].to_vec(), bytes[owner + 4..].to_vec());
            section.push(Rec { owner, rtype: found.rtype, ttl_s: found.ttl_s, data });
        }
    }
    assert_eq!(Some(at), record::end(reply));
    assert_eq!(at, reply.len());
    let rcode = kqps_message::edns::rcode(header, reply);
    let is_authoritative = reply[2] & kqps_message::header::AA != 0;
    let is_truncated = header.is_truncated();
    Reply {
        answered,
        rcode,
        is_authoritative,
        is_truncated,
        bytes: reply.len(),
        message: reply.to_vec(),
        has_opt,
        sections,
    }
}

/// Asks a server; `None` if it does not reply.
pub(crate) fn ask(
    internet: &Internet,
    server: IpAddr,
    (name, qtype): (&[u8], u16),
    edns: Option<Edns>,
    is_tcp: bool,
) -> Option<Reply> {
    let query = query(name, qtype, edns);
    let mut reply = Vec::new();
    let answered = internet.answer(server, &query, is_tcp, 0, &mut reply);
    (!reply.is_empty()).then(|| read(&query, &reply, answered))
}

/// The first address in the hints.
pub(crate) fn first_root(internet: &Internet) -> IpAddr {
    let hints = internet.root_hints();
    let line = hints.lines().find(|line| line.contains(" IN A ")).expect("an address");
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// The resolver.
pub(crate) struct Book<'i> {
    pub(crate) internet: &'i Internet,
    pub(crate) dnssec_ok: bool,
    /// Questions that it asked.
    pub(crate) upstream: u64,
    /// Every reply, with the zone whose server gave it.
    pub(crate) seen: Vec<(Vec<u8>, Vec<u8>, u16, Reply)>,
    /// The bytes of every reply, with its server.
    pub(crate) heard: Vec<(IpAddr, Vec<u8>)>,
}

impl<'i> Book<'i> {
    pub(crate) fn new(internet: &'i Internet) -> Self {
        Self { internet, dnssec_ok: false, upstream: 0, seen: Vec::new(), heard: Vec::new() }
    }

    /// The rcode and the records of the answer.
    pub(crate) fn resolve(&mut self, name: &[u8], qtype: u16) -> (u16, Vec<Rec>) {
        let mut answers = Vec::new();
        let mut name = name.to_ascii_lowercase();
        'restart: for _ in 0..20 {
            let (mut server, mut zone) = (first_root(self.internet), b"\0".to_vec());
            loop {
                let reply = self.ask(server, &zone, &name, qtype);
                if !reply.is_authoritative {
                    (server, zone) = self.refer(&reply, &zone, &name);
                    continue;
                }
                let own = |rec: &&Rec| is_at_or_below(&rec.owner, &zone) && rec.rtype != rtype::RRSIG;
                let mut left: Vec<Rec> = reply.sections[0].iter().filter(own).cloned().collect();
                loop {
                    let (here, others): (Vec<Rec>, Vec<Rec>) =
                        left.into_iter().partition(|rec| rec.owner == name);
                    left = others;
                    let alias = here.iter().find(|rec| rec.rtype == rtype::CNAME && qtype != rtype::CNAME);
                    let Some(alias) = alias else {
                        answers.extend(here);
                        assert!(left.is_empty(), "{left:?} do not belong to the answer");
                        return (reply.rcode, answers);
                    };
                    answers.push(alias.clone());
                    name.clone_from(&alias.data);
                    let is_answered = left.iter().any(|rec| rec.owner == name)
                        || reply.rcode == rcode::NXDOMAIN
                        || !reply.sections[1].is_empty();
                    if !is_answered {
                        continue 'restart;
                    }
                }
            }
        }
        panic!("a chain does not end: {}", name.escape_ascii());
    }

    fn ask(&mut self, server: IpAddr, zone: &[u8], name: &[u8], qtype: u16) -> Reply {
        let edns = Edns { dnssec_ok: self.dnssec_ok, ..Edns::default() };
        self.upstream += 1;
        let mut reply = ask(self.internet, server, (name, qtype), Some(edns), false).expect("a reply");
        if reply.is_truncated {
            assert!(self.dnssec_ok, "no reply without signatures is that long: {}", name.escape_ascii());
            reply = ask(self.internet, server, (name, qtype), Some(edns), true).expect("a reply by TCP");
        }
        self.seen.push((zone.to_vec(), name.to_vec(), qtype, reply.clone()));
        self.heard.push((server, reply.message.clone()));
        reply
    }

    /// The server and the zone of a referral.
    fn refer(&mut self, reply: &Reply, zone: &[u8], name: &[u8]) -> (IpAddr, Vec<u8>) {
        let servers: Vec<&Rec> = reply.sections[1].iter().filter(|rec| rec.rtype == rtype::NS).collect();
        let below = &servers.first().unwrap_or_else(|| panic!("{reply:?}")).owner;
        assert!(is_at_or_below(name, below) && is_at_or_below(below, zone) && below != zone);
        assert_eq!(reply.rcode, rcode::NOERROR);
        let first = &servers[0].data;
        let glue = reply.sections[2].iter().find(|rec| rec.rtype == rtype::A && rec.owner == *first);
        let address = match glue {
            Some(glue) => glue.data.clone(),
            None => self.resolve(first, rtype::A).1.last().expect("an address").data.clone(),
        };
        let octets: [u8; 4] = address.try_into().expect("four octets");
        (octets.into(), below.clone())
    }
}

//! The choices that RFCs leave open, so that a reply may differ from those of all peers and still be correct.
//! Each row gives the parts, the queries, the extent, and the RFC. A row applies only if no peer has the
//! same, and the proof prints how often each applied.

use domain::base::Rtype;
use domain::base::iana::Rcode;

use super::fixtures::zone_of;
use super::part::ReplyPart;
use super::query::{Query, Transport};
use super::reply::{Normal, Record, Reply};

/// A free choice.
struct Row {
    name: &'static str,
    parts: &'static [ReplyPart],
    is_free: fn(&Case<'_>) -> bool,
}

/// A query and its replies.
struct Case<'r> {
    query: &'r Query,
    ours: &'r Normal,
    /// The replies of the peers that sent one.
    peers: Vec<&'r Normal>,
    /// Whether a peer did not reply.
    is_ignored: bool,
}

/// TC in the second word of the header.
const TC: u16 = 0x0200;

/// The option edns-tcp-keepalive (RFC 7828).
const KEEPALIVE: u16 = 11;

/// A chain with this many links counts as endless.
const ENDLESS_LINKS: usize = 8;

const TABLE: [Row; 11] = [
    Row {
        name: "which of a name's RRsets answer ANY (RFC 8482, section 4.1), and which signatures RRSIG",
        parts: &[ReplyPart::Answer],
        is_free: |case| {
            let (types, records) = ([Rtype::ANY, Rtype::RRSIG], &case.ours.answer.records);
            let is_peers = |record| case.peers.iter().any(|peer| peer.answer.records.contains(record));
            let is_signature = |record: &Record| record.rtype == Rtype::RRSIG.to_int();
            types.contains(&case.query.question.rtype())
                && records.iter().any(is_peers)
                && records.iter().all(|record| is_peers(record) || is_signature(record))
        },
    },
    Row {
        name: "additional records that no one has to send (RFC 1034, section 4.3.2, step 6)",
        parts: &[ReplyPart::Additional],
        is_free: |case| {
            let answers = &case.ours.answer.records;
            let is_useful = |record: &Record| case.is_sent(record) || is_about_target(record, answers);
            !answers.is_empty() && case.ours.additional.records.iter().all(is_useful)
        },
    },
    Row {
        name: "addresses of servers outside the zone that is delegated (RFC 9471, section 3: only those within must be)",
        parts: &[ReplyPart::Additional],
        is_free: |case| {
            let (authority, additional) = (&case.ours.authority.records, &case.ours.additional.records);
            let Some(cut) = authority.iter().find(|record| record.rtype == Rtype::NS.to_int()) else {
                return false;
            };
            let sent = case.peers.iter().flat_map(|peer| &peer.additional.records);
            let mut needed = sent.filter(|record| record.owner.ends_with(&cut.owner));
            additional.iter().all(|record| case.is_sent(record))
                && needed.all(|record| additional.contains(record))
        },
    },
    Row {
        name: "what is left in the sections of a reply with TC (RFC 2181, section 9)",
        parts: &[ReplyPart::Answer, ReplyPart::Authority, ReplyPart::Additional],
        is_free: |case| case.ours.bits & TC != 0 && case.peers.iter().any(|peer| peer.bits & TC != 0),
    },
    Row {
        name: "whether an IXFR is refused, malformed without a SOA, or gets the SOA (RFC 1995, sections 2 and 3)",
        parts: &[ReplyPart::Rcode, ReplyPart::Aa, ReplyPart::Answer],
        is_free: |case| {
            let types: Vec<u16> = case.ours.answer.records.iter().map(|record| record.rtype).collect();
            let is_soa = types == [Rtype::SOA.to_int()] && case.is_rcode(Rcode::NOERROR);
            let is_malformed = types.is_empty() && case.is_rcode(Rcode::FORMERR);
            case.query.question.rtype() == Rtype::IXFR && (is_soa || is_malformed)
        },
    },
    Row {
        name: "whether what is malformed gets FORMERR or nothing (RFC 1035, section 4.1.1, has no word for it)",
        parts: &[ReplyPart::Rcode, ReplyPart::Question, ReplyPart::Opt],
        is_free: |case| case.is_ignored && case.is_rcode(Rcode::FORMERR),
    },
    Row {
        name: "whether a chain is followed into another zone of the server (RFC 1034, section 4.3.2, step 3a)",
        parts: &[
            ReplyPart::Rcode,
            ReplyPart::Tc,
            ReplyPart::Answer,
            ReplyPart::Authority,
            ReplyPart::Additional,
        ],
        is_free: |case| {
            let Some(last) = case.ours.answer.chain.last() else { return false };
            let (begin, end) =
                (zone_of(&case.query.question.qname.to_ascii_lowercase()), zone_of(&last.data));
            let authority = &case.ours.authority.records;
            begin != end
                && case.is_same_chain()
                && authority.iter().all(|record| zone_of(&record.owner) == end)
        },
    },
    Row {
        name: "how many links of a long or endless chain are sent (RFC 1034, section 5.2.2: it is to be noticed)",
        parts: &[ReplyPart::Tc, ReplyPart::Answer, ReplyPart::Authority],
        is_free: |case| {
            let chain = &case.ours.answer.chain;
            (chain.len() >= ENDLESS_LINKS || is_circle(chain)) && case.is_same_chain()
        },
    },
    Row {
        name: "TC where the addresses of servers within the delegated zone do not fit (RFC 9471, section 3.1)",
        parts: &[ReplyPart::Tc, ReplyPart::Additional],
        is_free: |case| {
            let (authority, additional) = (&case.ours.authority.records, &case.ours.additional.records);
            let cut = authority.iter().find(|record| record.rtype == Rtype::NS.to_int());
            case.ours.bits & TC != 0
                && case.ours.answer.records.is_empty()
                && cut.is_some_and(|cut| additional.iter().all(|record| record.owner.ends_with(&cut.owner)))
        },
    },
    Row {
        name: "the idle time of a connection, which a reply may have if the query asks for it (RFC 7828, section 3.3.2)",
        parts: &[ReplyPart::Options],
        is_free: |case| {
            let options = case.ours.opt.iter().flat_map(|opt| &opt.options);
            let is_other = |(code, _): &(u16, Vec<u8>)| ReplyPart::of_option(*code) == ReplyPart::Options;
            let mut others = options.filter(|option| is_other(option));
            case.query.transport == Transport::Tcp
                && case.query.words.contains("+keepalive")
                && others.all(|(code, data)| *code == KEEPALIVE && data.len() == 2)
        },
    },
    Row {
        name: "whether NOTIMP or FORMERR comes first (RFC 1035, section 4.1.1, has both and no order)",
        parts: &[ReplyPart::Rcode],
        is_free: |case| case.query.opcode() != 0 && case.is_rcode(Rcode::NOTIMP),
    },
];

/// The row that leaves our part of a reply open, if there is one.
pub(super) fn row(part: ReplyPart, query: &Query, ours: &Reply, peers: &[Reply]) -> Option<&'static str> {
    let replied: Vec<&Normal> = peers.iter().filter_map(Reply::message).collect();
    let is_ignored = replied.len() < peers.len();
    let case = Case { query, ours: ours.message()?, peers: replied, is_ignored };
    TABLE.iter().find(|row| row.parts.contains(&part) && (row.is_free)(&case)).map(|row| row.name)
}

impl Case<'_> {
    fn is_rcode(&self, rcode: Rcode) -> bool {
        self.ours.rcode == u16::from(rcode.to_int())
    }

    /// Whether a peer has the record in its additional section.
    fn is_sent(&self, record: &Record) -> bool {
        self.peers.iter().any(|peer| peer.additional.records.contains(record))
    }

    /// Whether all chains are equal up to the length of the shorter.
    fn is_same_chain(&self) -> bool {
        let ours = &self.ours.answer.chain;
        self.peers
            .iter()
            .map(|peer| &peer.answer.chain)
            .all(|peers| ours.starts_with(peers) || peers.starts_with(ours))
    }
}

/// Whether a chain leads back to one of its names.
fn is_circle(chain: &[Record]) -> bool {
    let leads_back = |last: &Record| chain.iter().any(|link| link.owner.eq_ignore_ascii_case(&last.data));
    chain.last().is_some_and(leads_back)
}

/// Whether a record is an address (or the like) of a name in the data of answers, or of their owner.
fn is_about_target(record: &Record, answers: &[Record]) -> bool {
    let types = [Rtype::A, Rtype::AAAA, Rtype::SVCB, Rtype::HTTPS, Rtype::RRSIG].map(Rtype::to_int);
    let names = |answer: &Record| {
        answer.owner == record.owner
            || answer.data.windows(record.owner.len()).any(|part| part == record.owner)
    };
    types.contains(&record.rtype) && answers.iter().any(names)
}

//! The message around an answer: its limit, its header and its OPT record, and what is answered without a look at the tree.

use kqps_message::edns::{OPT_BYTES, UDP_PAYLOAD_BYTES, opt_record};
use kqps_message::query::CLASS_IN;
use kqps_message::{Header, rcode, rtype};
use kqps_recipe::Stream;
use kqps_zone::{Asked, Full, Heading, Name, Section};

use crate::answer::{Buffers, Outcome, Reply};
use crate::answered::Kind;
use crate::behaviour::Conduct;
use crate::order::Orders;
use crate::place::{Node, ZoneId};
use crate::recipe::Fault;
use crate::rrset::Rrset;
use crate::tree::{Tree, Zone};
use crate::writer::Writer;

/// The longest reply over TCP. No answer of the tree is longer.
pub(crate) const TCP_BYTES: usize = 1 << 14;

/// The TTL of servers that a name has by [`Fault::ManyServers`], seconds.
const MANY_TTL_S: u32 = 300;

/// Zones that are tried for one without a wildcard.
const VICTIMS_MOST: usize = 100;

/// A question that came to a server.
pub(crate) struct Question<'q> {
    pub(crate) query: &'q [u8],
    pub(crate) asked: Asked,
    pub(crate) is_tcp: bool,
}

impl Question<'_> {
    /// The longest reply of a server without faults, in bytes.
    pub(crate) fn usual_limit(&self) -> usize {
        if self.is_tcp { TCP_BYTES } else { self.asked.udp_bytes(UDP_PAYLOAD_BYTES).into() }
    }

    /// The longest reply, in bytes.
    pub(crate) fn limit(&self, conduct: &Conduct) -> usize {
        let bytes = self.usual_limit();
        match conduct.fault {
            // The question and an OPT record always fit.
            Some(Fault::PathMtu) => bytes.min(conduct.bytes.into()).max(self.asked.end + OPT_BYTES),
            _ => bytes,
        }
    }
}

/// The rcode for a query that is answered without a look at the tree, the kind of that reply, and the fault if it is one.
pub(crate) fn objection(question: &Question<'_>, conduct: &Conduct) -> Option<(u16, Kind, Option<Fault>)> {
    let asked = &question.asked;
    if Header::from_bytes(question.query).is_some_and(|header| header.opcode() != 0) {
        return Some((rcode::NOTIMP, Kind::NotImp, None));
    }
    match conduct.fault {
        Some(Fault::Refused) => return Some((rcode::REFUSED, Kind::Refused, conduct.fault)),
        Some(Fault::Servfail) => return Some((rcode::SERVFAIL, Kind::ServFail, conduct.fault)),
        Some(Fault::NoEdns) if asked.edns.is_some() => {
            return Some((rcode::FORMERR, Kind::FormErr, conduct.fault));
        }
        _ => {}
    }
    if asked.rcode != rcode::NOERROR || !asked.has_question {
        return Some((rcode::FORMERR, Kind::FormErr, None));
    }
    if asked.edns.is_some_and(|edns| edns.version != 0) {
        return Some((rcode::BADVERS, Kind::FormErr, None));
    }
    // Nothing is transferred, and there are no other classes.
    let is_meta = (249..rtype::ANY).contains(&asked.qtype);
    (asked.qclass != CLASS_IN || is_meta).then_some((rcode::REFUSED, Kind::Refused, None))
}

/// The outcome of writing a reply.
pub(crate) struct Written {
    pub(crate) kind: Kind,
    pub(crate) rcode: u16,
    is_authoritative: bool,
    end: usize,
    counts: [u16; 3],
    pub(crate) answer_at: Option<usize>,
}

impl Written {
    pub(crate) fn new(end: usize) -> Self {
        Self {
            kind: Kind::Refused,
            rcode: rcode::NOERROR,
            is_authoritative: false,
            end,
            counts: [0; 3],
            answer_at: None,
        }
    }

    fn take(&mut self, writer: &Writer<'_>) {
        (self.end, self.counts, self.answer_at) = (writer.at, writer.counts, writer.answer_at);
    }

    /// Refers to the root, as servers did that know nothing of a zone.
    pub(crate) fn lame(&mut self, tree: &Tree, mut writer: Writer<'_>, buffers: &mut Buffers) {
        self.kind = Kind::Referral;
        tree.fill(&Zone::Root, Node::Apex, rtype::NS, &mut buffers.set);
        if writer.rrset(Section::Authority, &buffers.set, None).is_ok() {
            self.take(&writer);
        }
    }

    /// Refers a name to a zone of its own, whose servers have names that do not exist, below a zone of others. No two names have
    /// the same servers, so no resolver knows them. A reply has as many of `count` servers as fit.
    pub(crate) fn many_servers(
        &mut self,
        tree: &Tree,
        mut writer: Writer<'_>,
        (name, count): (&Name, u8),
        set: &mut Rrset,
    ) {
        let mut stream = Stream::new(tree.recipe.seed ^ name.hash(0));
        let of_name = stream.next();
        let mut sites = std::iter::repeat_with(|| stream.below(tree.recipe.zone.count)).take(VICTIMS_MOST);
        // Below a wildcard every name exists.
        let victim = sites.find(|site| !tree.site(*site).wildcard).unwrap_or(0);
        let victim = tree.apex(ZoneId::Site(victim));
        // A datagram has as many as fit.
        let counts =
            std::iter::successors(Some(count), |count| Some(count - 1)).take_while(|count| *count > 0);
        for count in counts {
            set.begin(rtype::NS, MANY_TTL_S);
            set.owner.extend_from_slice(name.wire());
            for number in 0..count {
                set.add(|data| {
                    let label = format!("{of_name:016x}-{number}");
                    data.push(u8::try_from(label.len()).expect("a short label"));
                    data.extend_from_slice(label.as_bytes());
                    data.extend_from_slice(&victim);
                });
            }
            if writer.rrset(Section::Authority, set, None).is_ok() {
                self.kind = Kind::Referral;
                self.take(&writer);
                return;
            }
        }
        self.kind = Kind::Truncated;
    }

    pub(crate) fn answer(
        &mut self,
        (tree, orders): (&Tree, &Orders),
        zone: Zone,
        question: &Question<'_>,
        writer: Writer<'_>,
        (name, buffers): (&mut Name, &mut Buffers),
    ) {
        let dnssec_ok = question.asked.edns.is_some_and(|edns| edns.dnssec_ok);
        let mut reply = Reply {
            tree,
            orders,
            is_secure: dnssec_ok && tree.algorithm(&zone) != 0,
            zone,
            writer,
            name,
            buffers,
            rcode: rcode::NOERROR,
            is_authoritative: true,
        };
        let outcome = reply.run(question.asked.qtype);
        (self.rcode, self.is_authoritative) = (reply.rcode, reply.is_authoritative);
        match outcome {
            Ok(outcome) => {
                self.kind = match outcome {
                    Outcome::Answer => Kind::Answer,
                    Outcome::Referral => Kind::Referral,
                    Outcome::NxDomain => Kind::NxDomain,
                    Outcome::NoData => Kind::NoData,
                };
                self.take(&reply.writer);
            }
            Err(Full) => self.kind = Kind::Truncated,
        }
    }

    /// Writes the header and the OPT record. Returns the length of the message.
    pub(crate) fn finish(&self, question: &Question<'_>, is_without_opt: bool, message: &mut [u8]) -> usize {
        let (mut end, mut counts) = (self.end, self.counts);
        if let Some(edns) = question.asked.edns.filter(|_| !is_without_opt) {
            let opt = opt_record(UDP_PAYLOAD_BYTES, self.rcode, edns.dnssec_ok);
            message[end..end + OPT_BYTES].copy_from_slice(&opt);
            end += OPT_BYTES;
            counts[Section::Additional as usize] += 1;
        }
        let heading = Heading {
            rcode: self.rcode,
            is_authoritative: self.is_authoritative,
            is_truncated: self.kind == Kind::Truncated,
        };
        heading.write(message, question.asked.has_question, counts);
        end
    }
}

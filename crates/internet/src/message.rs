//! The message around an answer: its limit, its header and its OPT record, and what is answered without a look at the tree.

use kqps_message::edns::{OPT_BYTES, UDP_PAYLOAD_BYTES, opt_record};
use kqps_message::header::{AA, HEADER_BYTES, OPCODE, QR, RD, TC};
use kqps_message::query::CLASS_IN;
use kqps_message::{Header, rcode, rtype};
use kqps_zone::{Asked, Name};

use crate::answer::{Buffers, Outcome, Reply};
use crate::answered::Kind;
use crate::behaviour::Conduct;
use crate::order::Orders;
use crate::place::Node;
use crate::recipe::Fault;
use crate::server::Server;
use crate::tree::{Tree, Zone};
use crate::writer::{Full, Section, Writer};

/// The longest reply over TCP. No answer of the tree is longer.
const TCP_BYTES: usize = 1 << 14;
const UDP_BYTES_MIN: u16 = 512;

/// A question that came to a server.
pub(crate) struct Question<'q> {
    pub(crate) query: &'q [u8],
    pub(crate) asked: Asked,
    pub(crate) server: Server,
    pub(crate) is_tcp: bool,
}

impl Question<'_> {
    /// The longest reply, in bytes.
    pub(crate) fn limit(&self, conduct: &Conduct) -> usize {
        if self.is_tcp {
            return TCP_BYTES;
        }
        let bytes =
            self.asked.edns.map_or(UDP_BYTES_MIN, |edns| edns.udp_payload_bytes.min(UDP_PAYLOAD_BYTES));
        let bytes = usize::from(bytes.max(UDP_BYTES_MIN));
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
        return Some((rcode::BADVERS, Kind::NotImp, None));
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

    /// Writes the header and the OPT record.
    pub(crate) fn finish(&self, question: &Question<'_>, is_without_opt: bool, reply: &mut Vec<u8>) {
        reply.truncate(self.end);
        let opt = question.asked.edns.filter(|_| !is_without_opt);
        if let Some(edns) = opt {
            reply.extend_from_slice(&opt_record(UDP_PAYLOAD_BYTES, self.rcode, edns.dnssec_ok));
        }
        let authoritative = if self.is_authoritative { AA } else { 0 };
        let truncated = if self.kind == Kind::Truncated { TC } else { 0 };
        reply[2] = QR | reply[2] & (OPCODE | RD) | authoritative | truncated;
        let [_, rcode] = self.rcode.to_be_bytes();
        reply[3] = rcode & 0x0f;
        reply[4..6].copy_from_slice(&u16::from(question.asked.has_question).to_be_bytes());
        let [answers, authorities, additionals] = self.counts;
        let counts = [answers, authorities, additionals + u16::from(opt.is_some())];
        for (count, place) in counts.iter().zip(reply[6..HEADER_BYTES].chunks_exact_mut(2)) {
            place.copy_from_slice(&count.to_be_bytes());
        }
    }
}

//! Compares our reply with those of the peers, part by part: if they agree, ours must be the same, and if
//! they differ, ours must be that of one of them.

use super::free;
use super::part::ReplyPart;
use super::query::Query;
use super::reply::Reply;

/// The result for one part of one query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// All replies are the same.
    Same,
    /// The peers differ, and our reply is that of one of them.
    OneOf,
    /// Our reply is that of no peer, and an RFC leaves this open: the row of the table.
    Free(&'static str),
    /// Our reply is that of no peer.
    Wrong,
}

pub(super) struct Replies {
    /// `None` while only the peers are compared.
    pub(super) ours: Option<Reply>,
    pub(super) peers: Vec<Reply>,
}

impl Replies {
    /// The result for a part.
    pub(super) fn finding(&self, part: ReplyPart, query: &Query) -> Finding {
        let agree = self.peers_agree(part);
        let Some(ours) = &self.ours else { return if agree { Finding::Same } else { Finding::OneOf } };
        if self.peers.iter().any(|peer| self.is_like(part, ours, peer)) {
            return if agree { Finding::Same } else { Finding::OneOf };
        }
        free::row(part, query, ours, &self.peers).map_or(Finding::Wrong, Finding::Free)
    }

    /// Whether all peers agree.
    pub(super) fn peers_agree(&self, part: ReplyPart) -> bool {
        self.peers.iter().all(|peer| part.is_equal(peer, &self.peers[0]))
    }

    pub(super) fn all(&self) -> Vec<&Reply> {
        self.peers.iter().chain(&self.ours).collect()
    }

    /// Whether one peer has the same reply as ours in every part.
    pub(super) fn is_like_one(&self) -> bool {
        self.ours.as_ref().is_some_and(|ours| self.peers.contains(ours))
    }

    /// Whether our part is that of a peer. A peer that sent no reply shows nothing of its other parts.
    fn is_like(&self, part: ReplyPart, ours: &Reply, peer: &Reply) -> bool {
        let none_replied = || self.peers.iter().all(|peer| peer.message().is_none());
        let is_comparable = part == ReplyPart::Reply || peer.message().is_some() || none_replied();
        is_comparable && part.is_equal(ours, peer)
    }
}

#[cfg(test)]
mod tests {
    use domain::base::Rtype;

    use super::super::query::{Question, Transport};
    use super::super::reply::{Normal, Record};
    use super::*;

    fn query(qtype: Rtype) -> Query {
        let question = Question { qname: vec![0], qtype: qtype.to_int(), qclass: 1 };
        Query { index: 0, transport: Transport::Udp, bytes: Vec::new(), words: String::new(), question }
    }

    /// A reply with this rcode, and records of these types in answer and additional section.
    fn reply(rcode: u16, answer: &[u16], additional: &[u16]) -> Reply {
        let record = |rtype: &u16| Record { owner: vec![0], rtype: *rtype, class: 1, data: vec![], ttl: 1 };
        let mut normal = Normal { rcode, ..Normal::default() };
        normal.answer.records = answer.iter().map(record).collect();
        normal.additional.records = additional.iter().map(record).collect();
        Reply::Message(Box::new(normal))
    }

    fn finding(part: ReplyPart, qtype: Rtype, ours: Reply, peers: [Reply; 2]) -> Finding {
        Replies { ours: Some(ours), peers: peers.into() }.finding(part, &query(qtype))
    }

    #[test]
    fn where_peers_differ_one_of_them_is_enough() {
        let rcode = |ours, peers: [u16; 2]| {
            let peers = peers.map(|rcode| reply(rcode, &[], &[]));
            finding(ReplyPart::Rcode, Rtype::A, reply(ours, &[], &[]), peers)
        };
        assert_eq!(rcode(3, [3, 3]), Finding::Same);
        assert_eq!(rcode(3, [0, 3]), Finding::OneOf);
        assert_eq!(rcode(2, [0, 3]), Finding::Wrong);
        assert_eq!(rcode(0, [3, 3]), Finding::Wrong);
    }

    #[test]
    fn silence_is_compared_with_silence_alone() {
        let peers = || [Reply::Silence, reply(1, &[], &[])];
        assert_eq!(finding(ReplyPart::Reply, Rtype::A, Reply::Silence, peers()), Finding::OneOf);
        assert_eq!(finding(ReplyPart::Reply, Rtype::A, reply(5, &[], &[]), peers()), Finding::OneOf);
        assert_eq!(finding(ReplyPart::Rcode, Rtype::A, reply(5, &[], &[]), peers()), Finding::Wrong);
        let silent = [Reply::Silence, Reply::Silence];
        assert_eq!(finding(ReplyPart::Reply, Rtype::A, reply(0, &[], &[]), silent), Finding::Wrong);
    }

    #[test]
    fn only_what_an_rfc_leaves_open_is_free() {
        let any = |answer: &[u16], qtype| {
            finding(
                ReplyPart::Answer,
                qtype,
                reply(0, answer, &[]),
                [reply(0, &[1, 2, 3], &[]), reply(0, &[4], &[])],
            )
        };
        assert!(matches!(any(&[2, 3], Rtype::ANY), Finding::Free(_)));
        assert_eq!(any(&[2, 3], Rtype::A), Finding::Wrong);
        assert_eq!(any(&[], Rtype::ANY), Finding::Wrong);
        assert_eq!(any(&[5], Rtype::ANY), Finding::Wrong);
        let additional = |answer: &[u16], ours: &[u16]| {
            let peers = || reply(0, answer, &[1, 28]);
            finding(ReplyPart::Additional, Rtype::MX, reply(0, answer, ours), [peers(), peers()])
        };
        assert!(matches!(additional(&[15], &[1]), Finding::Free(_)));
        assert_eq!(additional(&[], &[1]), Finding::Wrong, "glue of a referral must be there");
        assert_eq!(additional(&[15], &[16]), Finding::Wrong);
    }
}

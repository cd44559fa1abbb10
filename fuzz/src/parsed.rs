//! Replies as another reader finds them: the `domain` crate.

use domain::base::{Message, Rtype};
use domain::rdata::AllRecordData;

/// Panics if a record of a reply cannot be parsed: its owner, and its data if they are an address or have names, which a
/// cache reads. Other data leave the cache as they came (RFC 3597).
pub(crate) fn can_be_parsed(reply: &[u8]) {
    let message = Message::from_octets(reply).expect("a header");
    let (_, answers, authorities, additionals) = message.sections().expect("four sections");
    for record in answers.chain(authorities).chain(additionals) {
        let record = record.unwrap_or_else(|error| panic!("{error} in {reply:x?}"));
        let is_read = matches!(
            record.rtype(),
            Rtype::A
                | Rtype::AAAA
                | Rtype::NS
                | Rtype::MD
                | Rtype::MF
                | Rtype::CNAME
                | Rtype::SOA
                | Rtype::MB
                | Rtype::MG
                | Rtype::MR
                | Rtype::PTR
                | Rtype::MINFO
                | Rtype::MX
                | Rtype::SRV
                | Rtype::NAPTR
                | Rtype::DNAME
        );
        if is_read && let Err(error) = record.to_any_record::<AllRecordData<_, _>>() {
            panic!("{error} in a record of type {} in {reply:x?}", record.rtype());
        }
    }
}

//! RRSIG records (RFC 4034, section 3).

use kqps_message::query::CLASS_IN;
use kqps_message::rtype;

use crate::rrset::Rrset;
use crate::tree::{Tree, Zone};

const DAY_S: u32 = 86_400;

impl Tree {
    /// Turns `signature` into the signature of a set by the key of a signed zone. `spare` is a buffer.
    pub(crate) fn sign(&self, zone: &Zone, set: &Rrset, signature: &mut Rrset, spare: &mut Vec<u8>) {
        let key = self.keys.key(zone.id(), self.algorithm(zone));
        let dates = &self.recipe.signing;
        // The recipe has at most 10,000 days.
        let inception = dates.date_s.saturating_sub(DAY_S * u32::from(dates.days_before));
        let expiry = dates.date_s.saturating_add(DAY_S * u32::from(dates.days_after));
        spare.clear();
        spare.extend_from_slice(&set.rtype.to_be_bytes());
        spare.extend_from_slice(&[key.algorithm, labels(&set.owner)]);
        for number in [set.ttl_s, expiry, inception] {
            spare.extend_from_slice(&number.to_be_bytes());
        }
        spare.extend_from_slice(&key.tag().to_be_bytes());
        self.append_apex(zone, spare);
        signature.begin(rtype::RRSIG, set.ttl_s);
        signature.owner.extend_from_slice(&set.owner);
        signature.add(|out| {
            out.extend_from_slice(spare);
            append_records(set, spare);
            self.keys.sign(&key, spare, out);
        });
    }
}

/// Appends the records of a set in canonical form and order (RFC 4034, section 6). Its names are in lower case.
fn append_records(set: &Rrset, out: &mut Vec<u8>) {
    let mut last: Option<&[u8]> = None;
    // A set has few records, so each next one is searched for, and no memory is needed for an order.
    while let Some(data) = set.iter().filter(|data| last.is_none_or(|last| *data > last)).min() {
        out.extend_from_slice(&set.owner);
        out.extend_from_slice(&set.rtype.to_be_bytes());
        out.extend_from_slice(&CLASS_IN.to_be_bytes());
        out.extend_from_slice(&set.ttl_s.to_be_bytes());
        let [.., high, low] = data.len().to_be_bytes();
        out.extend_from_slice(&[high, low]);
        out.extend_from_slice(data);
        last = Some(data);
    }
}

/// The number of labels of a name, without an asterisk (RFC 4034, section 3.1.3).
fn labels(name: &[u8]) -> u8 {
    let count = kqps_zone::labels(name) - usize::from(name.starts_with(b"\x01*"));
    u8::try_from(count).expect("a name has 127 labels at most")
}

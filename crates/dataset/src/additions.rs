//! Additions to every query of a file as it is encoded: labels before its name, EDNS options, and a TSIG record. A
//! player fills in the bytes of labels and record as it sends the query. All lengths are known here, so that nothing is
//! moved then.

use kqps_message::header::HEADER_BYTES;
use kqps_message::name::NAME_BYTES_MAX;
use kqps_message::question::QUESTION_TAIL_BYTES;
use kqps_message::tsig::KeyName;
use kqps_message::{NameFault, edns};

/// The byte of labels that a player fills in.
const FILLER: u8 = b'x';

/// Parts that every query gets beside those of its line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Additions {
    /// The UDP payload size of OPT records that the options add, in bytes; `None` for the usual one.
    pub udp_payload_bytes: Option<u16>,
    /// A row of EDNS options ([`edns::append_option`]). Every query then gets an OPT record.
    pub edns_options: Vec<u8>,
    /// The lengths of labels that stand before the name of every query, each from 1 to 63. Only queries in text may
    /// have them.
    pub labels: Vec<u8>,
    /// The key that signs every query.
    pub tsig: Option<KeyName>,
}

/// Why a query cannot get what it should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    Name,
    Message,
}

impl From<NoRoom> for NameFault {
    /// A query of a line has room for all but a longer name.
    fn from(_: NoRoom) -> Self {
        Self::NameTooLong
    }
}

impl Additions {
    /// Adds all to a query, whose question section has so many bytes then and thereafter.
    pub(crate) fn add(&self, message: &mut Vec<u8>, question_bytes: &mut u16) -> Result<(), NoRoom> {
        self.add_labels(message, question_bytes)?;
        if !self.edns_options.is_empty() && !edns::add_options(message, &self.edns_options) {
            return Err(NoRoom::Message);
        }
        match &self.tsig {
            Some(key) if !key.append(message) => Err(NoRoom::Message),
            _ => Ok(()),
        }
    }

    fn add_labels(&self, message: &mut Vec<u8>, question_bytes: &mut u16) -> Result<(), NoRoom> {
        let bytes: usize = self.labels.iter().map(|length| 1 + usize::from(*length)).sum();
        let name_bytes = usize::from(*question_bytes).saturating_sub(QUESTION_TAIL_BYTES);
        if name_bytes + bytes > NAME_BYTES_MAX {
            return Err(NoRoom::Name);
        }
        let label = |length: &u8| [&[*length][..], &vec![FILLER; usize::from(*length)]].concat();
        let labels: Vec<u8> = self.labels.iter().flat_map(label).collect();
        message.splice(HEADER_BYTES..HEADER_BYTES, labels);
        *question_bytes += u16::try_from(bytes).expect("a name has 255 bytes at most");
        Ok(())
    }

    /// Appends the additions that change the encoded form.
    pub(crate) fn shape(&self, shape: &mut Vec<u8>) {
        let Self { udp_payload_bytes, edns_options, labels, tsig } = self;
        shape.extend_from_slice(&udp_payload_bytes.unwrap_or_default().to_le_bytes());
        let key = tsig.as_ref().map(|key| [&[key.algorithm().number() + 1], key.wire()].concat());
        for part in [edns_options, labels, &key.unwrap_or_default()] {
            shape.extend_from_slice(&(part.len() as u64).to_le_bytes());
            shape.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use kqps_message::tsig::Algorithm;
    use kqps_message::{Edns, query, record, rtype};

    use super::*;

    fn added(additions: &Additions, name: &[u8]) -> Result<(Vec<u8>, u16), NoRoom> {
        let mut message = Vec::new();
        let bytes = query::write(&mut message, name, rtype::A, Some(&Edns::default())).expect("a good name");
        let mut question_bytes = bytes as u16;
        additions.add(&mut message, &mut question_bytes)?;
        Ok((message, question_bytes))
    }

    #[test]
    fn labels_options_and_a_record_are_added_in_their_places() {
        let key = KeyName::new(Algorithm::Sha1, b"k").expect("a good name");
        let additions = Additions {
            edns_options: b"\x00\x03\x00\x00".to_vec(),
            labels: vec![2, 3],
            tsig: Some(key),
            ..Additions::default()
        };
        let (message, question_bytes) = added(&additions, b"a.test").expect("there is room");
        let question = b"\x02xx\x03xxx\x01a\x04test\0\x00\x01\x00\x01";
        assert_eq!(&message[12..12 + question.len()], question);
        assert_eq!(usize::from(question_bytes), question.len());
        assert_eq!((message[11], record::end(&message)), (2, Some(message.len())));
        let opt = b"\0\x00\x29\x04\xd0\0\0\0\0\x00\x04\x00\x03\x00\x00";
        assert_eq!(&message[12 + question.len()..][..opt.len()], opt);
        let (plain, _) = added(&Additions::default(), b"a.test").expect("there is room");
        assert_eq!(plain.len(), 12 + 12 + 11);
    }

    #[test]
    fn a_name_that_would_be_too_long_has_no_room() {
        let long = format!("{0}.{0}.{0}.{1}", "x".repeat(63), "y".repeat(50));
        let with = |length| Additions { labels: vec![length], ..Additions::default() };
        assert!(added(&with(10), long.as_bytes()).is_ok());
        assert_eq!(added(&with(11), long.as_bytes()), Err(NoRoom::Name));
    }

    #[test]
    fn each_addition_has_a_shape_of_its_own() {
        let shape = |additions: Additions| {
            let mut shape = Vec::new();
            additions.shape(&mut shape);
            shape
        };
        let key = |algorithm, name: &[u8]| Some(KeyName::new(algorithm, name).expect("a good name"));
        let usual = Additions::default;
        let shapes = [
            shape(usual()),
            shape(Additions { udp_payload_bytes: Some(4096), ..usual() }),
            shape(Additions { edns_options: vec![0, 3, 0, 0], ..usual() }),
            shape(Additions { labels: vec![0, 3, 0, 0], ..usual() }),
            shape(Additions { tsig: key(Algorithm::Md5, b"k"), ..usual() }),
            shape(Additions { tsig: key(Algorithm::Sha1, b"k"), ..usual() }),
            shape(Additions { tsig: key(Algorithm::Sha1, b"l"), ..usual() }),
        ];
        for (at, one) in shapes.iter().enumerate() {
            assert!(shapes[..at].iter().all(|other| other != one), "{at}");
        }
    }
}

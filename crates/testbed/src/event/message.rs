//! The messages of events, and what replies to them say: SOA queries, NOTIFY (RFC 1996), AXFR (RFC 5936) and IXFR
//! (RFC 1995).

use kqps_message::query::CLASS_IN;
use kqps_message::rcode::{NOERROR, RcodeName};
use kqps_message::{Header, NameError, header, name, query, question, record, rtype};

/// The opcode NOTIFY in byte 2 of a header (RFC 1996, section 3.2).
const NOTIFY: u8 = 4 << 3;

/// The place of the header's count of authority records.
const AUTHORITIES_AT: usize = 8;

/// A query for a zone's SOA. It asks for recursion, as the player's queries do: a resolver refuses others.
pub(super) fn soa_query(zone: &str) -> Result<Vec<u8>, NameError> {
    written(zone, rtype::SOA)
}

/// The NOTIFY of a zone.
pub(super) fn notify(zone: &str) -> Result<Vec<u8>, NameError> {
    let mut message = written(zone, rtype::SOA)?;
    message[2] = NOTIFY | header::AA;
    Ok(message)
}

/// A request for a zone, or for its changes since a serial, which an SOA in the authority section has.
pub(super) fn transfer(zone: &str, since: Option<u32>) -> Result<Vec<u8>, NameError> {
    let mut message = written(zone, if since.is_some() { rtype::IXFR } else { rtype::AXFR })?;
    message[2] = 0;
    let Some(serial) = since else { return Ok(message) };
    message[AUTHORITIES_AT + 1] = 1;
    name::encode(zone.as_bytes(), &mut message)?;
    for word in [rtype::SOA, CLASS_IN] {
        message.extend_from_slice(&word.to_be_bytes());
    }
    // TTL 0; 22 bytes: both names are the root, and four other numbers follow the serial.
    message.extend_from_slice(&[0, 0, 0, 0, 0, 22, 0, 0]);
    message.extend_from_slice(&serial.to_be_bytes());
    message.extend_from_slice(&[0; 16]);
    Ok(message)
}

fn written(zone: &str, qtype: u16) -> Result<Vec<u8>, NameError> {
    let mut message = Vec::new();
    query::write(&mut message, zone.as_bytes(), qtype, None)?;
    header::set_id(&mut message, fastrand::u16(..));
    Ok(message)
}

/// The serial of the first SOA record among the answers.
pub(super) fn answered_serial(reply: &[u8]) -> Option<u32> {
    let reply_header = Header::from_bytes(reply).filter(|header| header.is_reply())?;
    let mut at = question::end(reply)?;
    for _ in 0..reply_header.answers() {
        let record = record::read(reply, at)?;
        if record.rtype == rtype::SOA {
            return serial(reply, &record);
        }
        at = record.end;
    }
    None
}

/// The serial of an SOA record, which follows two names (RFC 1035, section 3.3.13).
pub(super) fn serial(message: &[u8], soa: &record::Record<'_>) -> Option<u32> {
    let data_at = soa.end - soa.data.len();
    let at = name::end(message, name::end(message, data_at)?)?;
    message.get(at..soa.end)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Whether a reply says NOERROR; its rcode in words otherwise.
pub(super) fn accepted(reply: &[u8]) -> Result<(), String> {
    match Header::from_bytes(reply).filter(|header| header.is_reply()) {
        Some(header) if header.rcode() == NOERROR => Ok(()),
        Some(header) => Err(RcodeName(header.rcode()).to_string()),
        None => Err("bytes that are no reply".into()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A record of `example.` with these data.
    pub(crate) fn answer(rtype: u16, data: &[u8]) -> Vec<u8> {
        let mut record = b"\x07example\0".to_vec();
        record.extend(rtype.to_be_bytes());
        record.extend([0, 1, 0, 0, 0, 60]);
        record.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
        record.extend(data);
        record
    }

    /// The SOA of `example.` with this serial; its second name is compressed.
    pub(crate) fn soa(serial: u32) -> Vec<u8> {
        let mut data = b"\x02ns\0\x04host\xc0\x0c".to_vec();
        data.extend(serial.to_be_bytes());
        data.extend([0; 16]);
        answer(rtype::SOA, &data)
    }

    /// A reply with these answers, and the question for `example.`
    pub(crate) fn reply(answers: &[Vec<u8>]) -> Vec<u8> {
        let count = u8::try_from(answers.len()).unwrap();
        let mut message = vec![0, 7, 0x84, 0, 0, 1, 0, count, 0, 0, 0, 0];
        message.extend(b"\x07example\0\x00\x06\x00\x01");
        message.extend(answers.concat());
        message
    }

    #[test]
    fn the_serial_follows_both_names() {
        assert_eq!(answered_serial(&reply(&[soa(2_026_113_001)])), Some(2_026_113_001));
        assert_eq!(answered_serial(&reply(&[answer(rtype::A, &[1; 4]), soa(7)])), Some(7));
        assert_eq!(answered_serial(&reply(&[])), None);
        let mut query = reply(&[soa(7)]);
        query[2] = 0;
        assert_eq!(answered_serial(&query), None, "it is no reply");
        let whole = reply(&[soa(7)]);
        for bytes in 0..whole.len() {
            assert_eq!(answered_serial(&whole[..bytes]), None);
        }
    }

    #[test]
    fn messages_have_the_bytes_of_their_rfcs() {
        let notify = notify("example.").unwrap();
        assert_eq!(notify[2..], *b"\x24\0\0\x01\0\0\0\0\0\0\x07example\0\0\x06\0\x01");
        let axfr = transfer("example.", None).unwrap();
        assert_eq!(axfr[2..], *b"\0\0\0\x01\0\0\0\0\0\0\x07example\0\0\xfc\0\x01");
        let ixfr = transfer("example.", Some(7)).unwrap();
        let record_at = question::end(&ixfr).unwrap();
        let soa = record::read(&ixfr, record_at).unwrap();
        assert_eq!((soa.rtype, soa.end, ixfr[9]), (rtype::SOA, ixfr.len(), 1));
        assert_eq!(serial(&ixfr, &soa), Some(7));
        assert_eq!(ixfr[record_at - 4..record_at], [0, 251, 0, 1]);
    }

    #[test]
    fn a_refusal_is_named() {
        let mut refused = reply(&[]);
        refused[3] = 5;
        assert_eq!(accepted(&refused), Err("REFUSED".into()));
        assert_eq!(accepted(&reply(&[])), Ok(()));
        assert!(accepted(&[0; 5]).is_err());
    }
}

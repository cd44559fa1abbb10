//! The names of a message that is being written, so that later ones can point to them (RFC 1035, section 4.1.4).

use kqps_message::{name, rtype};

/// The first position to which no pointer can lead.
const POINTERS_END: usize = 1 << 14;
const POINTER: u16 = 0xc000;

/// The names that a message has so far, with every name that they end in.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Each in wire form, with its position in the message.
    known: Vec<(Vec<u8>, u16)>,
}

impl Names {
    /// Appends a name in wire form to the message, with a pointer for the longest end of it that the message has.
    pub(super) fn write(&mut self, name: &[u8], message: &mut Vec<u8>) {
        let mut rest = name;
        while let Some((&length, after)) = rest.split_first().filter(|(length, _)| **length > 0) {
            if let Some((_, at)) = self.known.iter().find(|(known, _)| known.eq_ignore_ascii_case(rest)) {
                message.extend_from_slice(&(POINTER | at).to_be_bytes());
                return;
            }
            if let Ok(at) = u16::try_from(message.len())
                && message.len() < POINTERS_END
            {
                self.known.push((rest.to_vec(), at));
            }
            let (label, next) = after.split_at(usize::from(length).min(after.len()));
            message.push(length);
            message.extend_from_slice(label);
            rest = next;
        }
        message.push(0);
    }

    /// Appends the data of a record of this type. As in dnsperf, names in the data of types that every reader knows are
    /// compressed. Those of other types may not be (RFC 3597, section 4).
    pub(super) fn write_data(&mut self, rtype: u16, data: &[u8], message: &mut Vec<u8>) {
        let (before, names) = match rtype {
            rtype::NS | rtype::CNAME | rtype::PTR => (0, 1),
            rtype::MX => (2, 1),
            rtype::SOA => (0, 2),
            _ => (0, 0),
        };
        let (before, mut rest) = data.split_at_checked(before).unwrap_or((data, &[]));
        message.extend_from_slice(before);
        for _ in 0..names {
            let Some(end) = name::literal_end(rest, 0) else { break };
            let (name, after) = rest.split_at(end);
            self.write(name, message);
            rest = after;
        }
        message.extend_from_slice(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_points_to_the_longest_end_that_is_there() {
        let (mut names, mut message) = (Names::default(), vec![0; 12]);
        for name in [&b"\x01a\x04test\0"[..], b"\x01b\x01a\x04TEST\0", b"\x04test\0", b"\0", b"\x01c\0"] {
            names.write(name, &mut message);
        }
        assert_eq!(message[12..], *b"\x01a\x04test\0\x01b\xc0\x0c\xc0\x0e\0\x01c\0");
        message.resize(POINTERS_END, 0);
        names.write(b"\x01d\0", &mut message);
        names.write(b"\x01d\0", &mut message);
        assert_eq!(message[POINTERS_END..], *b"\x01d\0\x01d\0", "no pointer leads so far");
    }

    #[test]
    fn names_in_data_are_compressed_where_every_reader_knows_them() {
        let written = |rtype, data: &[u8]| {
            let (mut names, mut message) = (Names::default(), vec![0; 12]);
            names.write(b"\x01a\x04test\0", &mut message);
            names.write_data(rtype, data, &mut message);
            message.split_off(12 + 8)
        };
        assert_eq!(written(rtype::CNAME, b"\x01b\x04test\0"), b"\x01b\xc0\x0e");
        assert_eq!(written(rtype::MX, b"\x00\x0a\x01a\x04test\0"), b"\x00\x0a\xc0\x0c");
        assert_eq!(written(rtype::SOA, b"\x01a\x04test\0\x01b\x04test\0rest"), b"\xc0\x0c\x01b\xc0\x0erest");
        for rtype in [rtype::SRV, rtype::DNAME, rtype::TXT] {
            assert_eq!(written(rtype, b"\x04test\0"), b"\x04test\0");
        }
    }
}

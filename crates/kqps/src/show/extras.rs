//! Extras of a query beside its question: EDNS with its options, and a signature.

use kqps_message::{Header, edns, question, record, rtype};

use super::facts::ExtrasShown;

/// The option code of a client subnet (RFC 7871, section 6).
const CLIENT_SUBNET: u16 = 8;

/// The option code of a cookie (RFC 7873, section 4).
const COOKIE: u16 = 10;

impl ExtrasShown {
    /// The extras of a message, each 0 or 1, as far as its records can be read.
    pub(super) fn from_message(message: &[u8]) -> Self {
        let mut extras = Self::default();
        // A record that cannot be read ends the reading.
        let _ = extras.read(message);
        extras
    }

    /// Adds the extras of another message.
    pub(super) fn add(&mut self, other: Self) {
        self.edns += other.edns;
        self.dnssec_ok += other.dnssec_ok;
        self.client_subnet += other.client_subnet;
        self.cookie += other.cookie;
        self.signed += other.signed;
    }

    fn read(&mut self, message: &[u8]) -> Option<()> {
        let header = Header::from_bytes(message)?;
        let mut at = question::end(message)?;
        let before = u32::from(header.answers()) + u32::from(header.authorities());
        for number in 0..before + u32::from(header.additionals()) {
            let record = record::read(message, at)?;
            at = record.end;
            match record.rtype {
                _ if number < before => {}
                rtype::OPT => {
                    self.edns = 1;
                    self.dnssec_ok |= u64::from(record.ttl_s & edns::DO != 0);
                    self.options(record.data)?;
                }
                rtype::TSIG => self.signed = 1,
                _ => {}
            }
        }
        Some(())
    }

    /// Reads options: code, length, data (RFC 6891, section 6.1.2).
    fn options(&mut self, mut data: &[u8]) -> Option<()> {
        while let Some((&[c0, c1, l0, l1], rest)) = data.split_first_chunk::<4>() {
            match u16::from_be_bytes([c0, c1]) {
                CLIENT_SUBNET => self.client_subnet = 1,
                COOKIE => self.cookie = 1,
                _ => {}
            }
            data = rest.get(usize::from(u16::from_be_bytes([l0, l1]))..)?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use kqps_message::{ClientSubnet, Edns};

    use super::*;

    #[test]
    fn options_and_signatures_are_found() {
        let mut message = Vec::new();
        let subnet = ClientSubnet::parse("192.0.2.0/24");
        let edns = Edns { dnssec_ok: true, client_subnet: subnet, ..Edns::default() };
        kqps_message::query::write(&mut message, b"a.test", rtype::A, Some(&edns)).unwrap();
        let found = ExtrasShown::from_message(&message);
        let wanted = ExtrasShown { edns: 1, dnssec_ok: 1, client_subnet: 1, ..ExtrasShown::default() };
        assert_eq!(found, wanted);
        // A TSIG record of the root without data, counted by the header.
        message[11] = 2;
        message.extend([0, 0, 250, 0, 255, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ExtrasShown::from_message(&message), ExtrasShown { signed: 1, ..wanted });
        message.pop();
        assert_eq!(ExtrasShown::from_message(&message), wanted, "it is cut short");
        assert_eq!(ExtrasShown::from_message(&[0; 5]), ExtrasShown::default());
    }
}

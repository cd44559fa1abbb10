//! The data of records. Each type has one description, which writes both text for a zone file and wire form for
//! the digest of an answer.

use std::net::{Ipv4Addr, Ipv6Addr};

use kqps_message::rtype;

use super::label::append_decimal;
use super::layout::Kind;
use super::name::Name;
use super::plan::{Plan, Target, Zone};

/// The TTL of every record, in seconds, and the TTL of negative answers.
pub(super) const TTL_S: u32 = 3600;
/// Addresses are taken in turn from 198.18.0.0/15, which is reserved for benchmarks (RFC 2544).
const ADDRESSES: u64 = 1 << 17;
const FIRST_ADDRESS: u32 = u32::from_be_bytes([198, 18, 0, 0]);
/// IPv6 addresses are taken likewise from `2001:2::/48` (RFC 5180).
const FIRST_ADDRESS_6: u128 = 0x2001_0002 << 96;
/// The distance between the addresses of neighbouring zones.
const ZONE_STRIDE: u64 = 7919;
/// The zone's own name servers.
pub(super) const SERVERS: [(&[u8], u32); 2] = [(b"ns-a", 1), (b"ns-b", 2)];

#[derive(Default)]
pub(super) struct Data {
    /// As in a zone file with the zone's origin.
    pub(super) text: Vec<u8>,
    /// In wire form, with letters of names in lower case.
    pub(super) wire: Vec<u8>,
    name: Name,
}

impl Data {
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.wire.clear();
    }

    fn text(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
    }

    fn u16(&mut self, number: u16) {
        append_decimal(number.into(), &mut self.text);
        self.text.push(b' ');
        self.wire.extend_from_slice(&number.to_be_bytes());
    }

    fn u32(&mut self, number: u32) {
        self.text.push(b' ');
        append_decimal(number.into(), &mut self.text);
        self.wire.extend_from_slice(&number.to_be_bytes());
    }

    /// Appends a name below a zone.
    fn name(&mut self, zone: &Zone, write: impl FnOnce(&mut Name)) {
        self.name.clear();
        write(&mut self.name);
        self.text.extend_from_slice(self.name.relative());
        self.wire.extend_from_slice(&self.name.wire);
        self.wire.extend_from_slice(&zone.origin.wire);
    }

    fn v4(&mut self, address: Ipv4Addr) {
        let [a, b, c, d] = address.octets();
        for (separator, octet) in [(&b""[..], a), (b".", b), (b".", c), (b".", d)] {
            self.text(separator);
            append_decimal(octet.into(), &mut self.text);
        }
        self.wire.extend_from_slice(&address.octets());
    }

    fn v6(&mut self, address: Ipv6Addr) {
        self.text(address.to_string().as_bytes());
        self.wire.extend_from_slice(&address.octets());
    }

    /// Appends the address of one of the zone's own name servers. All zones have the same servers.
    pub(super) fn server_address(&mut self, number: u32) {
        self.v4(Ipv4Addr::from(FIRST_ADDRESS + number));
    }

    /// Appends the address of an entry.
    pub(super) fn address(&mut self, zone: &Zone, number: u64) {
        self.v4(address(zone, number));
    }

    /// Appends the IPv6 address of an entry.
    pub(super) fn address_6(&mut self, zone: &Zone, number: u64) {
        let host = u128::from(zone.number & 0xffff_ffff) << 32 | u128::from(number & 0xffff_ffff);
        self.v6(Ipv6Addr::from(FIRST_ADDRESS_6 | host));
    }

    /// Appends the zone's SOA.
    pub(super) fn soa(&mut self, zone: &Zone) {
        self.name(zone, |name| name.label(SERVERS[0].0));
        self.text.push(b' ');
        self.name(zone, |name| name.label(b"hostmaster"));
        for number in [1, 7200, 3600, 1_209_600, TTL_S] {
            self.u32(number);
        }
    }

    /// Appends the name of one of the zone's own name servers.
    pub(super) fn server(&mut self, zone: &Zone, label: &[u8]) {
        self.name(zone, |name| name.label(label));
    }

    /// Appends the data of an entry's record of this type.
    pub(super) fn of_entry(&mut self, plan: &Plan<'_>, zone: &Zone, kind: Kind, number: u64) {
        match kind {
            Kind::Alias => self.target(plan, zone, plan.target(number)),
            Kind::Wildcard | Kind::Delegation => self.address(zone, number),
            Kind::Data(rtype) => self.of_type(plan, zone, rtype, number),
        }
    }

    fn target(&mut self, plan: &Plan<'_>, zone: &Zone, target: Target) {
        self.name(zone, |name| plan.append_target(zone, target, name));
    }

    fn of_type(&mut self, plan: &Plan<'_>, zone: &Zone, rtype: u16, number: u64) {
        match rtype {
            rtype::AAAA => self.address_6(zone, number),
            rtype::MX => {
                self.u16(10);
                self.target(plan, zone, plan.address(number));
            }
            rtype::SRV => {
                for field in [0, 5, 5060] {
                    self.u16(field);
                }
                self.target(plan, zone, plan.address(number));
            }
            rtype::PTR => self.target(plan, zone, plan.address(number)),
            rtype::TXT => {
                let start = self.text.len() + 1;
                self.text(b"\"v=spf1 ip4:");
                self.v4(address(zone, number));
                self.wire.truncate(self.wire.len() - 4);
                self.text(b" -all");
                let bytes = u8::try_from(self.text.len() - start);
                self.wire.push(bytes.expect("a policy of one address has 32 bytes at most"));
                self.wire.extend_from_slice(&self.text[start..]);
                self.text.push(b'"');
            }
            rtype::CAA => {
                self.text(b"0 issue \"ca.example\"");
                self.wire.extend_from_slice(b"\0\x05issueca.example");
            }
            rtype::HTTPS => {
                self.u16(1);
                self.text(b". alpn=h2");
                self.wire.extend_from_slice(b"\0\0\x01\0\x03\x02h2");
            }
            _ => self.address(zone, number),
        }
    }

    /// Appends a DS record. No key matches it, but no server checks that.
    pub(super) fn ds(&mut self, zone: &Zone, number: u64) {
        let mut stream = zone.stream_of(number);
        let [high, low, ..] = stream.next().to_be_bytes();
        self.u16(u16::from_be_bytes([high, low]));
        // ECDSA P-256, SHA-256.
        self.text(b"13 2 ");
        self.wire.extend_from_slice(&[13, 2]);
        for _ in 0..4 {
            let word = stream.next();
            self.text(format!("{word:016X}").as_bytes());
            self.wire.extend_from_slice(&word.to_be_bytes());
        }
    }
}

fn address(zone: &Zone, number: u64) -> Ipv4Addr {
    let place = (number + (zone.number % ADDRESSES) * ZONE_STRIDE) % ADDRESSES;
    Ipv4Addr::from(FIRST_ADDRESS + u32::try_from(place).expect("places have 17 bits"))
}

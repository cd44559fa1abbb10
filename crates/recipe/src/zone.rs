//! Writes a zone's master file (RFC 1035, section 5), an entry at a time.

use std::io::{self, Write};

use super::data::{Data, SERVERS, TTL_S};
use super::layout::Kind;
use super::name::Name;
use super::plan::{Plan, Zone};

pub(super) fn write(plan: &Plan<'_>, zone: &Zone, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = Writer { plan, zone, owner: Name::default(), data: Data::default(), lines: Vec::new() };
    writer.apex();
    for (kind, range) in &plan.layout.parts {
        for number in range.clone() {
            writer.entry(*kind, number);
            if writer.lines.len() > FLUSHED_BYTES {
                out.write_all(&writer.lines)?;
                writer.lines.clear();
            }
        }
    }
    out.write_all(&writer.lines)
}

/// Writes the file of a zone that no server loads: it has no SOA record, and ends in a line that is not a
/// record.
pub(super) fn write_broken(zone: &Zone, out: &mut dyn Write) -> io::Result<()> {
    let origin = String::from_utf8_lossy(zone.origin.absolute());
    writeln!(out, "; This file is broken by intent: the zone is configured, and does not load.")?;
    writeln!(out, "$ORIGIN {origin}\n@ {TTL_S} IN SOA this is no record")
}

const FLUSHED_BYTES: usize = 1 << 16;

struct Writer<'a> {
    plan: &'a Plan<'a>,
    zone: &'a Zone,
    owner: Name,
    data: Data,
    lines: Vec<u8>,
}

impl Writer<'_> {
    /// Writes the head of the file and the records of the apex. Every generated label has digits, so no other
    /// name equals one of these.
    fn apex(&mut self) {
        self.lines.extend_from_slice(b"$ORIGIN ");
        self.lines.extend_from_slice(self.zone.origin.absolute());
        self.lines.extend_from_slice(format!("\n$TTL {TTL_S}\n").as_bytes());
        self.record(b"SOA", |data, _, zone| data.soa(zone));
        for (label, _) in SERVERS {
            self.record(b"NS", |data, _, zone| data.server(zone, label));
        }
        for (label, number) in SERVERS {
            self.owner.clear();
            self.owner.label(label);
            self.record(b"A", |data, _, _| data.server_address(number));
        }
    }

    fn entry(&mut self, kind: Kind, number: u64) {
        self.owner.clear();
        self.plan.append_owner(self.zone, kind, number, &mut self.owner);
        match kind {
            Kind::Delegation => self.delegation(number),
            Kind::Alias => self.record(b"CNAME", |data, plan, zone| data.of_entry(plan, zone, kind, number)),
            Kind::Wildcard => self.record(b"A", |data, plan, zone| data.of_entry(plan, zone, kind, number)),
            Kind::Data(rtype) => {
                let mnemonic = mnemonic(rtype);
                self.record(mnemonic, |data, plan, zone| data.of_entry(plan, zone, kind, number));
            }
        }
    }

    fn delegation(&mut self, number: u64) {
        let has_glue = self.plan.has_glue(self.zone, number);
        let cut = self.owner.clone();
        for (label, _) in SERVERS {
            let mut server = Name::default();
            server.label(label);
            if has_glue {
                server.append(&cut);
            } else {
                server.counted(b"host", number % 1000);
                server.append(self.plan.elsewhere());
            }
            let text = if has_glue { server.relative() } else { server.absolute() };
            self.record(b"NS", |data, _, _| data.text.extend_from_slice(text));
        }
        if self.plan.layout.secure.contains(&number) {
            self.record(b"DS", |data, _, zone| data.ds(zone, number));
        }
        for (label, offset) in SERVERS.into_iter().filter(|_| has_glue) {
            self.owner.clear();
            self.owner.label(label);
            self.owner.append(&cut);
            self.record(b"A", |data, _, zone| data.address(zone, number + u64::from(offset)));
            self.record(b"AAAA", |data, _, zone| data.address_6(zone, number << 2 | u64::from(offset)));
        }
    }

    fn record(&mut self, mnemonic: &[u8], write: impl FnOnce(&mut Data, &Plan<'_>, &Zone)) {
        self.lines.extend_from_slice(self.owner.relative());
        self.lines.extend_from_slice(b" IN ");
        self.lines.extend_from_slice(mnemonic);
        self.lines.push(b' ');
        self.data.clear();
        write(&mut self.data, self.plan, self.zone);
        self.lines.extend_from_slice(&self.data.text);
        self.lines.push(b'\n');
    }
}

/// The mnemonic of a type that entries can have.
fn mnemonic(rtype: u16) -> &'static [u8] {
    let known = kqps_message::rtype::TYPES.iter().find(|(_, number)| *number == rtype);
    known.map_or("A", |(name, _)| name).as_bytes()
}

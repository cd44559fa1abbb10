//! A whole zone as a sequence of messages (RFC 5936): its SOA record, everything else, and the SOA record again.

use std::sync::Arc;

use kqps_message::header::{AA, HEADER_BYTES, OPCODE, QR, RD};
use kqps_message::rtype;

use crate::respond::compress::Names;
use crate::respond::writer::{Full, Writer};
use crate::zone::Zone;
use crate::zone::node::{self, Rrset};
use crate::zone::part::ZonePart;

/// A running transfer. It sends the zone as it was when the transfer began, whatever is loaded meanwhile.
#[derive(Debug)]
pub struct Transfer {
    zone: Arc<Zone>,
    /// Header and question of every message, without the counts.
    head: Box<[u8]>,
    /// The OPT record of every message.
    opt: Option<Box<[u8]>>,
    names: Box<Names>,
    cursor: Cursor,
}

/// The record to write next.
#[derive(Clone, Copy, Debug)]
enum Cursor {
    First,
    /// The record at this byte of this RRset (signatures after records) of the node at this position of this part.
    Node {
        part: usize,
        at: usize,
        rrset: usize,
        byte: usize,
    },
    /// The record at this byte of the NSEC3 RRset at this position.
    Link {
        at: usize,
        byte: usize,
    },
    Last,
    Done,
}

impl Transfer {
    /// A transfer of `zone` in reply to a query. `question` is its header and question.
    pub(crate) fn new(zone: Arc<Zone>, question: &[u8], opt: Option<Box<[u8]>>) -> Self {
        let mut head: Box<[u8]> = question.into();
        head[2] = QR | AA | head[2] & (OPCODE | RD);
        head[3] = 0;
        head[4..HEADER_BYTES].copy_from_slice(&[0, 1, 0, 0, 0, 0, 0, u8::from(opt.is_some())]);
        Self { zone, head, opt, names: Box::new(Names::in_case()), cursor: Cursor::First }
    }

    /// Writes the next message to the front of `buffer`, which should have 65,535 bytes, and returns its length.
    /// `None` after the last message, or if a record does not fit into `buffer`.
    pub fn next(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let opt_bytes = self.opt.as_ref().map_or(0, |opt| opt.len());
        let limit = buffer.len().min(u16::MAX.into()).checked_sub(opt_bytes)?;
        if limit < self.head.len() || matches!(self.cursor, Cursor::Done) {
            return None;
        }
        buffer[..self.head.len()].copy_from_slice(&self.head);
        self.names.forget(0);
        let mut writer = Writer::new(buffer, &mut self.names, self.head.len(), limit);
        while !matches!(self.cursor, Cursor::Done) {
            match put(&self.zone, self.cursor, &mut writer) {
                Ok(cursor) => self.cursor = cursor,
                Err(Full) => break,
            }
        }
        let (mut end, [answers, ..]) = writer.end();
        if answers == 0 {
            self.cursor = Cursor::Done;
            return None;
        }
        buffer[6..8].copy_from_slice(&answers.to_be_bytes());
        if let Some(opt) = &self.opt {
            buffer[end..end + opt.len()].copy_from_slice(opt);
            end += opt.len();
        }
        Some(end)
    }
}

/// Writes the records at a cursor, and returns the next cursor.
fn put(zone: &Zone, cursor: Cursor, writer: &mut Writer<'_>) -> Result<Cursor, Full> {
    match cursor {
        Cursor::First => {
            soa(zone, writer)?;
            Ok(Cursor::Node { part: 0, at: 0, rrset: 0, byte: 0 })
        }
        Cursor::Node { part, at, rrset, byte } => {
            let Some(memory) = zone.parts.get(part) else { return Ok(Cursor::Link { at: 0, byte: 0 }) };
            put_node(zone, memory, (part, at, rrset, byte), writer)
        }
        Cursor::Link { at, byte } => {
            let Some(chain) = zone.nsec3() else { return Ok(Cursor::Last) };
            let Some((link, next)) = chain.links(at).next() else { return Ok(Cursor::Last) };
            let Some(record) = record_at(&link.rrset, byte) else {
                return Ok(Cursor::Link { at: next, byte: 0 });
            };
            let mut wire = [0; 255];
            let length = link.label.len() + zone.apex.len();
            wire[..link.label.len()].copy_from_slice(link.label);
            wire[link.label.len()..length].copy_from_slice(&zone.apex);
            writer.record(&wire[..length], link.rrset.rtype, record)?;
            Ok(Cursor::Link { at, byte: byte + record.len() })
        }
        Cursor::Last => soa(zone, writer).map(|()| Cursor::Done),
        Cursor::Done => Ok(Cursor::Done),
    }
}

fn put_node(
    zone: &Zone,
    memory: &ZonePart,
    (part, at, rrset, byte): (usize, usize, usize, usize),
    writer: &mut Writer<'_>,
) -> Result<Cursor, Full> {
    let Some((_, node)) = memory.nodes(at).next() else {
        return Ok(Cursor::Node { part: part + 1, at: 0, rrset: 0, byte: 0 });
    };
    let Some(found) = node.rrsets().nth(rrset) else {
        return Ok(Cursor::Node { part, at: at + node.size(), rrset: 0, byte: 0 });
    };
    let Some(record) = record_at(&found, byte) else {
        return Ok(Cursor::Node { part, at, rrset: rrset + 1, byte: 0 });
    };
    let is_soa = found.rtype == rtype::SOA && byte < found.records.len() && node.is_at(zone.top());
    if !is_soa {
        let is_record = byte < found.records.len();
        writer.record(node.name(), if is_record { found.rtype } else { 0 }, record)?;
    }
    Ok(Cursor::Node { part, at, rrset, byte: byte + record.len() })
}

/// The record at a byte of an RRset's records followed by its signatures.
fn record_at<'z>(rrset: &Rrset<'z>, byte: usize) -> Option<&'z [u8]> {
    let bytes = match byte.checked_sub(rrset.records.len()) {
        None => &rrset.records[byte..],
        Some(byte) => rrset.signatures.get(byte..)?,
    };
    node::records(bytes).next()
}

fn soa(zone: &Zone, writer: &mut Writer<'_>) -> Result<(), Full> {
    let Some(soa) = zone.top().rrset(rtype::SOA) else { return Ok(()) };
    writer.record(&zone.apex, rtype::SOA, soa.records)
}

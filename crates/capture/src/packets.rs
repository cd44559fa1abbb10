//! The messages in the packets of a container.

use std::io::BufRead as _;
use std::mem;
use std::ops::Range;

use crate::container::{Container, Record};
use crate::counts::{Counts, Why};
use crate::duplicates::Duplicates;
use crate::error::CaptureError;
use crate::flow::{Flow, Taken};
use crate::fragments::{self, Fragments};
use crate::ip::{self, Ip, Part};
use crate::message::{Event, Head};
use crate::settings::Settings;
use crate::window::Window;

pub(crate) struct Packets {
    window: Window,
    container: Container,
    layers: Layers,
    /// The bytes of the last record. Its message was lent to the caller, so that they are consumed by the next call.
    lent_bytes: usize,
}

impl Packets {
    pub(crate) fn new(window: Window, container: Container, settings: &Settings) -> Self {
        Self { window, container, layers: Layers::new(settings), lent_bytes: 0 }
    }

    pub(crate) fn next(&mut self, counts: &mut Counts) -> Result<Option<Event<'_>>, CaptureError> {
        loop {
            if let Some(brought) = self.layers.flow.brought(counts) {
                return Ok(Some(self.layers.flow.event(&brought)));
            }
            self.window.consume(mem::take(&mut self.lent_bytes));
            let Some(record) = self.container.next(&mut self.window)? else { return Ok(None) };
            self.lent_bytes = record.bytes;
            counts.packets += 1;
            let frame = &self.window.here()[record.packet.clone()];
            match self.layers.take(&record, frame) {
                Ok(Found::InPacket(head, place)) => {
                    counts.found(head.kind);
                    return Ok(Some(head.with(&self.window.here()[record.packet][place])));
                }
                Ok(Found::InFragments(head, place)) => {
                    counts.found(head.kind);
                    return Ok(Some(head.with(&self.layers.fragments.whole()[place])));
                }
                Ok(Found::Messages(completed)) => counts.further += completed as u64 - 1,
                Err(why) => counts.skip(why),
            }
        }
    }
}

/// The layers between a link's frame and a message.
struct Layers {
    duplicates: Duplicates,
    fragments: Fragments,
    flow: Flow,
}

/// What a packet brought.
enum Found {
    /// A message, at a place of the frame.
    InPacket(Head, Range<usize>),
    /// A message, at a place of a datagram that came in fragments.
    InFragments(Head, Range<usize>),
    /// Messages of a connection.
    Messages(usize),
}

impl Layers {
    fn new(settings: &Settings) -> Self {
        Self { duplicates: Duplicates::new(), fragments: Fragments::new(), flow: Flow::new(settings) }
    }

    fn take(&mut self, record: &Record, frame: &[u8]) -> Result<Found, Why> {
        let start = record.link.pass(frame, record.is_cut)?;
        let packet = &frame[start..];
        let ip = Ip::read(packet, record.is_cut)?;
        if let Some(part) = ip.part {
            return self.fragment(record.at_ns, packet, &ip, part);
        }
        let payload = &packet[ip.payload.clone()];
        let way = self.flow.way(ip.protocol, (ip.from, ip.to), payload, ip.is_cut)?;
        if ip.is_cut {
            return Err(Why::Cut);
        }
        if self.duplicates.has(ip.identity(packet), record.at_ns) {
            return Err(Why::Duplicate);
        }
        Ok(match self.flow.take(record.at_ns, &way, payload)? {
            Taken::Message(head, place) => Found::InPacket(head, moved(place, start + ip.payload.start)),
            Taken::Messages(completed) => Found::Messages(completed),
        })
    }

    fn fragment(&mut self, at_ns: u64, packet: &[u8], ip: &Ip, part: Part) -> Result<Found, Why> {
        if !fragments::may_be_dns(ip.protocol) {
            return Err(Why::OtherProtocol);
        }
        if ip.is_cut {
            return Err(Why::Cut);
        }
        if self.duplicates.has(ip.identity(packet), at_ns) {
            return Err(Why::Duplicate);
        }
        let protocol = self.fragments.take(ip, part, &packet[ip.payload.clone()], at_ns)?;
        let whole = self.fragments.whole();
        let (protocol, start, part) = ip::pass_extensions(whole, 0, protocol, false)?;
        if part.is_some() {
            return Err(Why::BadHeader);
        }
        let payload = &whole[start..];
        let way = self.flow.way(protocol, (ip.from, ip.to), payload, false)?;
        Ok(match self.flow.take(at_ns, &way, payload)? {
            Taken::Message(head, place) => Found::InFragments(head, moved(place, start)),
            Taken::Messages(completed) => Found::Messages(completed),
        })
    }
}

fn moved(place: Range<usize>, by: usize) -> Range<usize> {
    place.start + by..place.end + by
}

//! The messages in the packets of a container.

use std::io::BufRead as _;
use std::mem;
use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::container::{Container, Record};
use crate::counts::{Counts, Why};
use crate::duplicates::{Duplicates, Rule, Sight};
use crate::error::CaptureError;
use crate::flow::{Flow, PayloadMessages};
use crate::fragments::{self, Fragments};
use crate::ip::{self, Ip, Part};
use crate::link::Link;
use crate::message::{Event, Head};
use crate::settings::Settings;
use crate::timeline::Timeline;
use crate::window::Window;

pub(crate) struct Packets {
    window: Window,
    container: Container,
    timeline: Timeline<Held>,
    layers: Layers,
    /// The bytes of the last record. Its message was lent to the caller, so that they are consumed by the next call.
    lent_bytes: usize,
    /// The packet that was held and taken last. Its message was lent, too.
    held: Held,
    /// How the container ended, until what was held is taken.
    end: Option<Result<(), CaptureError>>,
}

/// A packet that was copied, since later ones decide its time.
struct Held {
    form: Form,
    frame: Vec<u8>,
}

/// How a frame was captured.
#[derive(Clone, Copy)]
struct Form {
    link: Link,
    interface: u32,
    is_cut: bool,
}

impl Form {
    fn from_record(record: &Record) -> Self {
        Self { link: record.link, interface: record.interface, is_cut: record.is_cut }
    }
}

impl Packets {
    pub(crate) fn new(mut window: Window, container: Container, settings: &Settings) -> Self {
        let rule = survey(&mut window, container.clone(), settings);
        let form = Form { link: Link::Unknown, interface: 0, is_cut: false };
        let held = Held { form, frame: Vec::new() };
        let (timeline, layers) = (Timeline::new(), Layers::new(settings, rule));
        Self { window, container, timeline, layers, lent_bytes: 0, held, end: None }
    }

    pub(crate) fn next(&mut self, counts: &mut Counts) -> Result<Option<Event<'_>>, CaptureError> {
        loop {
            if let Some(brought) = self.layers.flow.brought(counts) {
                return Ok(Some(self.layers.flow.event(&brought)));
            }
            self.window.consume(mem::take(&mut self.lent_bytes));
            // The place of the packet in the window; `None` if it was held.
            let mut in_window = None;
            let found = if let Some((at_ns, held)) = self.timeline.next() {
                self.held = held;
                self.layers.take(at_ns, self.held.form, &self.held.frame)
            } else if let Some(end) = self.end.take() {
                // Messages that waited for missing bytes come out, without a packet of their own.
                let Some(completed) = self.layers.flow.finish() else { return end.map(|()| None) };
                counts.further += completed as u64;
                self.end = Some(end);
                continue;
            } else {
                let record = match self.container.next(&mut self.window) {
                    Ok(Some(record)) => record,
                    ended => {
                        self.timeline.finish(counts);
                        self.end = Some(ended.map(|_| ()));
                        continue;
                    }
                };
                self.lent_bytes = record.bytes;
                counts.packets += 1;
                if record.is_oversized {
                    counts.skip(record.link.why_oversized());
                    continue;
                }
                let frame = &self.window.here()[record.packet.clone()];
                let form = Form::from_record(&record);
                let Some(at_ns) = self.timeline.time_of(record.at_ns) else {
                    let held = Held { form, frame: frame.to_vec() };
                    self.timeline.hold(record.at_ns, held, counts);
                    continue;
                };
                in_window = Some(record.packet);
                self.layers.take(at_ns, form, frame)
            };
            match found {
                Ok(FrameMessages::InPacket(head, place)) => {
                    counts.found(head.kind);
                    let packet = match in_window {
                        Some(packet) => &self.window.here()[packet],
                        None => &self.held.frame,
                    };
                    return Ok(Some(head.with(&packet[place])));
                }
                Ok(FrameMessages::InFragments(head, place)) => {
                    counts.found(head.kind);
                    return Ok(Some(head.with(&self.layers.fragments.whole()[place])));
                }
                Ok(FrameMessages::Messages(completed)) => counts.further += completed as u64 - 1,
                Err(why) => {
                    counts.skip(why);
                    if why == Why::OtherPort {
                        counts.at_other_port(self.layers.flow.other_port);
                    }
                }
            }
        }
    }
}

/// Whether copies are the rule of a capture, by the packets at its beginning that the window holds. The window stays where
/// it is.
fn survey(window: &mut Window, mut container: Container, settings: &Settings) -> Rule {
    let mut ahead = window.ahead();
    let mut layers = Layers::new(settings, Rule::default());
    // The capture's damage is reported when it is read.
    while let Ok(Some(record)) = container.next(&mut ahead) {
        let frame = &ahead.here()[record.packet.clone()];
        // The messages are taken when the capture is read.
        let _ = layers.take(record.at_ns, Form::from_record(&record), frame);
        ahead.consume(record.bytes);
    }
    layers.duplicates.rule()
}

/// The layers between a link's frame and a message.
struct Layers {
    duplicates: Duplicates,
    fragments: Fragments,
    flow: Flow,
}

/// The messages that a packet brought.
enum FrameMessages {
    /// A message, at a place of the frame.
    InPacket(Head, Range<usize>),
    /// A message, at a place of a datagram that came in fragments.
    InFragments(Head, Range<usize>),
    /// Messages of a connection.
    Messages(usize),
}

impl Layers {
    fn new(settings: &Settings, rule: Rule) -> Self {
        Self { duplicates: Duplicates::new(rule), fragments: Fragments::new(), flow: Flow::new(settings) }
    }

    fn take(&mut self, at_ns: u64, form: Form, frame: &[u8]) -> Result<FrameMessages, Why> {
        let start = form.link.pass(frame, form.is_cut)?;
        let packet = &frame[start..];
        let ip = Ip::read(packet, form.is_cut)?;
        let sight = |exchange| Sight {
            identity: ip.identity(packet),
            is_numbered: ip.is_numbered(),
            place: place(&frame[..start], form.interface, ip.hop_limit),
            at_ns,
            exchange,
        };
        if let Some(part) = ip.part {
            return self.fragment(&sight(None), packet, &ip, part);
        }
        let payload = &packet[ip.payload.clone()];
        let way = self.flow.way(ip.protocol, (ip.from, ip.to), payload, ip.is_cut)?;
        if self.duplicates.has(&sight(way.exchange(payload))) {
            return Err(if ip.is_cut { Why::Cut } else { Why::Duplicate });
        }
        let taken = if ip.is_cut {
            self.flow.take_cut(at_ns, &way, payload, ip.missing)?
        } else {
            self.flow.take(at_ns, &way, payload)?
        };
        Ok(match taken {
            PayloadMessages::Message(head, place) => {
                FrameMessages::InPacket(head, moved(place, start + ip.payload.start))
            }
            PayloadMessages::Messages(completed) => FrameMessages::Messages(completed),
        })
    }

    fn fragment(&mut self, sight: &Sight, packet: &[u8], ip: &Ip, part: Part) -> Result<FrameMessages, Why> {
        if !fragments::may_be_dns(ip.protocol) {
            return Err(Why::OtherProtocol);
        }
        if ip.is_cut {
            return Err(Why::Cut);
        }
        if self.duplicates.has(sight) {
            return Err(Why::Duplicate);
        }
        let at_ns = sight.at_ns;
        let payload = &packet[ip.payload.clone()];
        if part.offset.value() == 0
            && fragments::has_ports(ip.protocol)
            && let Err(why) = self.flow.way(ip.protocol, (ip.from, ip.to), payload, false)
        {
            self.fragments.refuse(ip, part, at_ns, why);
            return Err(why);
        }
        let protocol = self.fragments.take(ip, part, payload, at_ns)?;
        let whole = self.fragments.whole();
        let (protocol, start, part) = ip::pass_extensions(whole, 0, protocol, false)?;
        if part.is_some() {
            return Err(Why::BadHeader);
        }
        let payload = &whole[start..];
        let way = self.flow.way(protocol, (ip.from, ip.to), payload, false)?;
        Ok(match self.flow.take(at_ns, &way, payload)? {
            PayloadMessages::Message(head, place) => FrameMessages::InFragments(head, moved(place, start)),
            PayloadMessages::Messages(completed) => FrameMessages::Messages(completed),
        })
    }
}

/// A hash of what differs between two places at which a packet is captured.
fn place(frame_header: &[u8], interface: u32, hop_limit: u8) -> u32 {
    let hash = xxh3_64_with_seed(frame_header, u64::from(interface) << 8 | u64::from(hop_limit));
    let [h0, h1, h2, h3, ..] = hash.to_le_bytes();
    u32::from_le_bytes([h0, h1, h2, h3])
}

fn moved(place: Range<usize>, by: usize) -> Range<usize> {
    place.start + by..place.end + by
}

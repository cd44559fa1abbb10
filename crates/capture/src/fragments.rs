//! Datagrams that came in fragments, put together again.

use std::collections::VecDeque;
use std::net::IpAddr;

use etherparse::defrag::IpDefragBuf;
use etherparse::{IpNumber, ip_number};

use crate::counts::Why;
use crate::ip::{Ip, Part};

/// The most datagrams that are held unfinished. Each takes up to 64 KiB, and up to 32 KiB for its gaps. If there are
/// more, the oldest is given up.
const DATAGRAMS_MOST: usize = 256;

/// How long fragments wait for each other, as hosts have it (RFC 8200, section 4.5: 60 s; Linux: 30 s).
const WAIT_NS: u64 = 30_000_000_000;

/// The most datagrams that are known as given up. If there are more, the oldest is forgotten.
const REFUSED_MOST: usize = 256;

pub(crate) struct Fragments {
    held: Vec<Held>,
    /// Datagrams that were given up.
    refused: VecDeque<Refused>,
    /// The payload of the datagram that was completed last.
    whole: Vec<u8>,
}

struct Held {
    key: Key,
    at_ns: u64,
    buffer: IpDefragBuf,
    /// The protocol that the first fragment carries; the others need not say it.
    protocol: Option<IpNumber>,
}

impl Held {
    /// Whether a fragment overlaps with earlier ones. Hosts then discard the datagram, so that no server gets it (RFC 8200,
    /// section 4.5, after RFC 5722; Linux does so for IPv4, too, against the attacks of RFC 3128). A fragment that repeats
    /// bytes that are all there is a copy.
    fn contradicts(&self, part: Part, payload: &[u8]) -> bool {
        let start = usize::from(part.offset.byte_offset());
        let end = start + payload.len();
        self.buffer.sections().iter().map(|section| usize::from(section.start)..usize::from(section.end)).any(
            |section| {
                let is_disjoint = end <= section.start || start >= section.end;
                let is_inside = section.start <= start && end <= section.end;
                let is_repeat = is_inside && self.buffer.data()[start..end] == *payload;
                !is_disjoint && !is_repeat
            },
        )
    }
}

struct Refused {
    key: Key,
    at_ns: u64,
    why: Why,
}

/// The fields that the fragments of a datagram have in common (RFC 791, section 3.2; RFC 8200, section 4.5).
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    from: IpAddr,
    to: IpAddr,
    identification: u32,
    /// Over IPv4.
    protocol: Option<IpNumber>,
}

impl Key {
    fn new(ip: &Ip, part: Part) -> Self {
        Self {
            from: ip.from,
            to: ip.to,
            identification: part.identification,
            protocol: ip.from.is_ipv4().then_some(ip.protocol),
        }
    }
}

impl Fragments {
    pub(crate) fn new() -> Self {
        Self { held: Vec::new(), refused: VecDeque::new(), whole: Vec::new() }
    }

    /// Takes a fragment. Returns the protocol of the datagram that it completed, which [`Self::whole`] then holds, or
    /// why there is none.
    pub(crate) fn take(&mut self, ip: &Ip, part: Part, payload: &[u8], at_ns: u64) -> Result<IpNumber, Why> {
        let key = Key::new(ip, part);
        let refused = self.refused.iter().find(|refused| refused.key == key);
        if let Some(refused) = refused.filter(|refused| refused.at_ns.abs_diff(at_ns) <= WAIT_NS) {
            return Err(refused.why);
        }
        let place = self.place(key, ip.protocol, at_ns);
        let held = &mut self.held[place];
        if held.contradicts(part, payload) || held.buffer.add(part.offset, !part.is_last, payload).is_err() {
            self.refuse(ip, part, at_ns, Why::Fragment);
            return Err(Why::BadHeader);
        }
        if part.offset.value() == 0 {
            held.protocol = Some(ip.protocol);
        }
        if !held.buffer.is_complete() {
            return Err(Why::Fragment);
        }
        let Held { buffer, protocol, .. } = self.held.swap_remove(place);
        (self.whole, _) = buffer.take_bufs();
        protocol.ok_or(Why::BadHeader)
    }

    /// Gives up a datagram, of which further fragments are skipped for this cause: its first fragment shows that it is not
    /// DNS, so that it takes no room from others, or its fragments contradict each other.
    pub(crate) fn refuse(&mut self, ip: &Ip, part: Part, at_ns: u64, why: Why) {
        let key = Key::new(ip, part);
        self.held.retain(|held| held.key != key);
        self.refused.retain(|refused| refused.key != key);
        if self.refused.len() == REFUSED_MOST {
            self.refused.pop_front();
        }
        self.refused.push_back(Refused { key, at_ns, why });
    }

    /// The payload of the datagram that was completed last.
    pub(crate) fn whole(&self) -> &[u8] {
        &self.whole
    }

    /// The place of the datagram with this key. It begins anew if its fragments are too old.
    fn place(&mut self, key: Key, protocol: IpNumber, at_ns: u64) -> usize {
        if let Some(place) = self.held.iter().position(|held| held.key == key) {
            if self.held[place].at_ns.abs_diff(at_ns) <= WAIT_NS {
                return place;
            }
            self.held.swap_remove(place);
        }
        if self.held.len() == DATAGRAMS_MOST {
            let oldest = self.held.iter().enumerate().min_by_key(|(_, held)| held.at_ns);
            if let Some((place, _)) = oldest {
                self.held.swap_remove(place);
            }
        }
        let buffer = IpDefragBuf::new(protocol, Vec::new(), Vec::new());
        self.held.push(Held { key, at_ns, buffer, protocol: None });
        self.held.len() - 1
    }
}

/// Whether the payload of a first fragment with this next header begins with ports.
pub(crate) fn has_ports(next: IpNumber) -> bool {
    matches!(next, ip_number::UDP | ip_number::TCP)
}

/// Whether a fragment with this next header can belong to UDP or TCP.
pub(crate) fn may_be_dns(next: IpNumber) -> bool {
    match next {
        ip_number::UDP | ip_number::TCP => true,
        // Encrypted payloads stay unread.
        ip_number::ENCAP_SEC => false,
        _ => next.is_ipv6_ext_header_value(),
    }
}

//! Turns a query into its reply in the same buffer. This allocates nothing, whatever the bytes are, except for the
//! transfer of a zone.

mod answer;
mod asked;
mod chaos;
mod compress;
mod cookie;
mod edns;
mod foresee;
mod heading;
mod proof;
mod query;
mod record;
mod referral;
mod shape;
mod transfer;
mod tsig;
mod writer;

use std::net::IpAddr;
use std::sync::Arc;

use kqps_message::header::HEADER_BYTES;
use kqps_message::query::CLASS_IN;
use kqps_message::{Header, edns as message_edns, rcode, rtype};

use crate::name::Name;
use crate::zone::Zone;
use crate::zone::node::Rrset;
use crate::zones::{Entry, Zones};
use answer::Reply;
pub use asked::{Asked, AskedEdns};
pub use compress::{Names, PLACE_MAX};
use cookie::Checked;
use edns::Opt;
use foresee::Foreseen;
pub use heading::Heading;
use proof::Proofs;
use query::Query;
pub use transfer::Transfer;
use tsig::NOTAUTH;
pub use writer::{Full, Section};
use writer::{Owner, Writer};

const CLASS_ANY: u16 = 255;
const OPCODE_NOTIFY: u8 = 4;
/// The longest message over TCP.
const TCP_BYTES_MAX: usize = 65_535;

/// The settings of a server that its replies depend on.
#[derive(Clone, Debug)]
pub struct ResponderSettings {
    /// The largest message over UDP that it sends and receives, in bytes; values below 512 count as 512.
    pub udp_payload_bytes: u16,
    /// Its answer to NSID (RFC 5001); at most 128 bytes are safe over UDP.
    pub nsid: Option<Box<[u8]>>,
    /// Its answer to `version.bind` and `version.server` in class CH; at most 255 bytes.
    pub version: Option<Box<[u8]>>,
    /// Its answer to `id.server` and `hostname.bind` in class CH; at most 255 bytes.
    pub identity: Option<Box<[u8]>>,
    /// The secret of its cookies (RFC 9018); with `None` it ignores cookies.
    pub cookie_secret: Option<[u8; 16]>,
    /// Whether a query over UDP with a cookie gets an answer only if the cookie is good (RFC 7873, section 5.2.3).
    pub must_cookie_be_good: bool,
    /// Whether zones may be transferred over TCP.
    pub transfers: bool,
}

impl Default for ResponderSettings {
    fn default() -> Self {
        Self {
            udp_payload_bytes: message_edns::UDP_PAYLOAD_BYTES,
            nsid: None,
            version: None,
            identity: None,
            cookie_secret: None,
            must_cookie_be_good: false,
            transfers: false,
        }
    }
}

/// The transport of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP, whose messages have a size limit.
    Udp,
    /// TCP, a stream.
    Tcp,
}

/// The client of a query, its transport, and the time.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    /// The address that the query came from.
    pub address: IpAddr,
    /// The transport that it came over.
    pub transport: Transport,
    /// The time for cookies, in seconds since 1970, modulo 2^32.
    pub now_s: u32,
    /// How long the connection may be idle, in units of 100 ms, for a client that asks for it (RFC 7828, section 3.3.2).
    /// `None` if the transport has no such option, as UDP, HTTPS and QUIC.
    pub idle_ds: Option<u16>,
}

/// The result of a query.
#[derive(Debug)]
pub enum Outcome {
    /// A reply of this length, at the front of the buffer.
    Reply(usize),
    /// A reply of many messages, which the caller takes one by one.
    Transfer(Box<Transfer>),
    /// No reply.
    Silence(Silence),
}

/// Why a message gets no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// The message is shorter than a header.
    TooShort,
    /// The message is itself a reply. If two servers answered each other's replies, they would never stop.
    IsReply,
}

/// Answers queries. Every thread has its own.
#[derive(Debug)]
pub struct Responder {
    settings: ResponderSettings,
    foreseen: Foreseen,
    name: Name,
    other: Name,
    names: Names,
    /// The rcode of the last reply.
    rcode: u16,
}

impl Responder {
    /// A responder with these settings.
    pub fn new(settings: ResponderSettings) -> Self {
        Self {
            settings,
            foreseen: Foreseen::default(),
            name: Name::root(),
            other: Name::root(),
            names: Names::new(),
            rcode: rcode::NOERROR,
        }
    }

    /// The rcode of the last reply, including the bits in its OPT record.
    pub fn rcode(&self) -> u16 {
        self.rcode
    }

    /// Answers the query in the first `query_bytes` bytes of `buffer`. The reply overwrites it and may be as long
    /// as the buffer, which should have 65,535 bytes for a stream.
    #[inline]
    pub fn respond(
        &mut self,
        zones: &Zones,
        buffer: &mut [u8],
        query_bytes: usize,
        asker: &Asker,
    ) -> Outcome {
        let message = &buffer[..query_bytes.min(buffer.len())];
        let Some(header) = Header::from_bytes(message) else { return Outcome::Silence(Silence::TooShort) };
        if header.is_reply() {
            return Outcome::Silence(Silence::IsReply);
        }
        let opcode = header.opcode();
        let name = self.foreseen.next().unwrap_or(&mut self.name);
        let query = query::read(message, header, name);
        let cookie = query
            .edns
            .filter(|edns| edns.version == 0)
            .and_then(|edns| edns.cookie?.ok())
            .zip(self.settings.cookie_secret)
            .map(|(cookie, secret)| cookie.check(&secret, asker.address, asker.now_s));

        let asked_bytes = query.edns.map(|edns| edns.udp_payload_bytes);
        let udp_bytes = edns::udp_bytes(asked_bytes, self.settings.udp_payload_bytes);
        let bytes_max = match asker.transport {
            Transport::Udp => buffer.len().min(udp_bytes.into()),
            Transport::Tcp => buffer.len().min(TCP_BYTES_MAX),
        };
        let room = bytes_max.saturating_sub(query.end);
        let opt = query.edns.and_then(|edns| {
            let cookie = cookie.map(|cookie| cookie.reply);
            Opt::new(&self.settings, &edns, cookie, asker.idle_ds, room)
        });
        let room = room - opt.map_or(0, |opt| opt.bytes());
        let objection = objection(&self.settings, &query, opcode, asker.transport, cookie);
        // A signature gets an answer if nothing else is wrong with the query.
        let tsig = query.tsig_at.filter(|_| objection == Some(NOTAUTH));
        let tsig = tsig.and_then(|at| tsig::read(message, at)).filter(|tsig| tsig.bytes() <= room);
        if objection.is_none()
            && matches!(query.qtype, rtype::AXFR | rtype::IXFR)
            && asker.transport == Transport::Tcp
            && let Some(zone) = transfer(&self.settings, zones, name, &query)
        {
            let opt = opt.map(|opt| {
                let mut bytes = vec![0; opt.bytes()];
                opt.write(&mut bytes, rcode::NOERROR);
                bytes.into()
            });
            return Outcome::Transfer(Box::new(Transfer::new(zone, &buffer[..query.end], opt)));
        }

        let limit = query.end + room - tsig.as_ref().map_or(0, tsig::Tsig::bytes);
        self.names.forget(0);
        if query.has_question() {
            self.names.note(name, HEADER_BYTES, name.labels());
        }
        let writer = Writer::new(buffer, &mut self.names, query.end, limit);
        let (heading, (mut end, mut counts)) = match objection {
            Some(rcode) => (Heading::refusal(rcode), writer.end()),
            None => assemble(&self.settings, zones, writer, (name, &mut self.other), &query, asker.transport),
        };
        if let Some(opt) = opt {
            opt.write(&mut buffer[end..], heading.rcode);
            end += opt.bytes();
            counts[2] += 1;
        }
        if let Some(tsig) = tsig {
            tsig.write(&mut buffer[end..]);
            end += tsig.bytes();
            counts[2] += 1;
        }
        heading.write(buffer, query.has_question(), counts);
        self.rcode = heading.rcode;
        Outcome::Reply(end)
    }
}

/// The zone to send to a query for a transfer, if there is nothing else to answer.
fn transfer(settings: &ResponderSettings, zones: &Zones, name: &Name, query: &Query) -> Option<Arc<Zone>> {
    let entry = zones.find(name, 0)?;
    let Entry::Loaded(zone) = entry else { return None };
    let is_apex = zone.apex.len() == name.wire().len();
    // A client with this serial or a later one (RFC 1982) gets only the SOA record (RFC 1995, section 2).
    let is_behind = query.serial.is_some_and(|serial| serial.wrapping_sub(zone.serial()).cast_signed() < 0);
    let allowed = settings.transfers && query.qclass == CLASS_IN;
    let is_wanted = query.qtype == rtype::AXFR || is_behind;
    (allowed && is_apex && is_wanted).then(|| Arc::clone(zone))
}

/// The rcode for a query that is rejected before any lookup, if it is.
#[inline]
fn objection(
    settings: &ResponderSettings,
    query: &Query,
    opcode: u8,
    transport: Transport,
    cookie: Option<Checked>,
) -> Option<u16> {
    match opcode {
        0 => {}
        // This server has no masters (RFC 1996, section 3.10).
        OPCODE_NOTIFY if query.rcode == rcode::NOERROR && query.has_question() => return Some(NOTAUTH),
        OPCODE_NOTIFY => return Some(rcode::FORMERR),
        _ => return Some(rcode::NOTIMP),
    }
    if query.rcode != rcode::NOERROR {
        return Some(query.rcode);
    }
    if let Some(edns) = &query.edns {
        if edns.version != 0 {
            return Some(rcode::BADVERS);
        }
        let is_cookie_malformed = settings.cookie_secret.is_some() && matches!(edns.cookie, Some(Err(_)));
        if is_cookie_malformed {
            return Some(rcode::FORMERR);
        }
    }
    if query.tsig_at.is_some() {
        return Some(NOTAUTH);
    }
    if !query.has_question() {
        // A client may ask for nothing but a cookie (RFC 7873, section 5.4).
        return Some(match cookie {
            Some(cookie) if cookie.is_good || cookie.is_first => rcode::NOERROR,
            Some(_) => rcode::BADCOOKIE,
            None => rcode::FORMERR,
        });
    }
    let is_cookie_bad = cookie.is_some_and(|cookie| !cookie.is_good);
    if settings.must_cookie_be_good && transport == Transport::Udp && is_cookie_bad {
        return Some(rcode::BADCOOKIE);
    }
    None
}

/// Looks up the answer and writes it.
#[inline]
fn assemble(
    settings: &ResponderSettings,
    zones: &Zones,
    mut writer: Writer<'_>,
    (name, other): (&mut Name, &mut Name),
    query: &Query,
    transport: Transport,
) -> (Heading, (usize, [u16; 3])) {
    let refused = |rcode, writer: Writer<'_>| (Heading::refusal(rcode), writer.end());
    match query.qclass {
        CLASS_IN | CLASS_ANY => {}
        chaos::CLASS => {
            let Some(text) = chaos::text_of(settings, name.wire()) else {
                return refused(rcode::REFUSED, writer);
            };
            let is_truncated = chaos::answer(&mut writer, query.qtype, text).is_err();
            return (Heading { rcode: rcode::NOERROR, is_authoritative: true, is_truncated }, writer.end());
        }
        _ => return refused(rcode::REFUSED, writer),
    }
    if query.qtype == rtype::AXFR && transport == Transport::Udp {
        return refused(rcode::NOTIMP, writer);
    }
    let entry = answer::for_name(zones, name, query.qtype);
    // Only a zone of this server can be transferred (RFC 5936, section 2.2.1).
    let is_apex = entry.is_some_and(|entry| entry.apex().len() == name.wire().len());
    if matches!(query.qtype, rtype::AXFR | rtype::IXFR) && !is_apex {
        return refused(NOTAUTH, writer);
    }
    let zone = match entry {
        None => return refused(rcode::REFUSED, writer),
        Some(Entry::Broken(_)) => return refused(rcode::SERVFAIL, writer),
        Some(Entry::Loaded(zone)) => zone,
    };
    if query.qtype >= FIRST_META
        && let Some(heading) = meta(settings, zone, &mut writer, query, transport)
    {
        return (heading, writer.end());
    }
    let dnssec_ok = query.edns.is_some_and(|edns| edns.dnssec_ok);
    let mut reply = Reply {
        zones,
        writer,
        name,
        name_at: HEADER_BYTES,
        other,
        qtype: query.qtype,
        transport,
        dnssec_ok,
        proofs: dnssec_ok.then(Proofs::default),
        hosts: None,
        renames: None,
        rcode: rcode::NOERROR,
        is_authoritative: false,
        is_truncated: false,
    };
    reply.answer(zone);
    let heading = Heading {
        rcode: reply.rcode,
        // An answer for class ANY is never authoritative (RFC 1035, section 6.2).
        is_authoritative: reply.is_authoritative && query.qclass == CLASS_IN,
        is_truncated: reply.is_truncated,
    };
    (heading, reply.writer.end())
}

/// Types from here on ask for something other than records of that type.
const FIRST_META: u16 = 249;

/// Answers a query whose type is not a type of records, except ANY.
#[cold]
fn meta(
    settings: &ResponderSettings,
    zone: &Zone,
    writer: &mut Writer<'_>,
    query: &Query,
    transport: Transport,
) -> Option<Heading> {
    const TKEY: u16 = 249;
    match query.qtype {
        TKEY | rtype::TSIG => Some(Heading::refusal(rcode::FORMERR)),
        rtype::IXFR if query.serial.is_none() => Some(Heading::refusal(rcode::FORMERR)),
        rtype::IXFR if transport == Transport::Udp || settings.transfers => {
            let soa: Option<Rrset<'_>> = zone.top().rrset(rtype::SOA);
            let owner = Owner::new(&zone.apex, Some(HEADER_BYTES));
            let is_full = soa.is_some_and(|soa| writer.rrset(owner, &soa, None, false).is_err());
            Some(Heading { rcode: rcode::NOERROR, is_authoritative: true, is_truncated: is_full })
        }
        rtype::AXFR | rtype::IXFR => Some(Heading::refusal(rcode::REFUSED)),
        _ => None,
    }
}

//! EDNS (RFC 6891): the OPT records of a query and of its reply.

use kqps_message::edns::{COOKIE, DO, OPT_BYTES, OPTION_BYTES, TCP_KEEPALIVE, opt_record};

use crate::respond::ResponderSettings;
use crate::respond::cookie::{self, Cookie, Malformed};

/// The option code of the name server identifier (RFC 5001).
const NSID: u16 = 3;
/// The bytes of a connection's idle time in its option (RFC 7828, section 3.1).
const IDLE_BYTES: usize = 2;
/// The message size that every client can receive over UDP, bytes (RFC 1035, section 4.2.1; RFC 6891, section
/// 6.2.3).
pub(crate) const UDP_BYTES_MIN: u16 = 512;

/// The longest reply over UDP in bytes, for a query whose OPT record has this size if it has one, and a server that sends
/// `own` bytes at most. Values below 512 count as 512.
#[inline]
pub(crate) fn udp_bytes(asked: Option<u16>, own: u16) -> u16 {
    asked.map_or(UDP_BYTES_MIN, |bytes| bytes.min(own).max(UDP_BYTES_MIN))
}

/// The OPT record of a query.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools)] // each says that a flag or an option is there
pub(crate) struct Edns {
    /// The largest UDP message that the client receives, bytes; at least 512.
    pub udp_payload_bytes: u16,
    /// The version of EDNS. The meaning of the rest is known only for version 0.
    pub version: u8,
    /// Whether the client wants signatures and proofs.
    pub dnssec_ok: bool,
    /// Whether the client asks for the server's identifier.
    pub nsid: bool,
    /// Whether the client asks for the idle time of its connection.
    pub keepalive: bool,
    /// The client's cookie, if there is one.
    pub cookie: Option<Result<Cookie, Malformed>>,
    /// Whether the options fill the data exactly.
    pub is_well_formed: bool,
}

#[inline]
pub(crate) fn read(class: u16, ttl: u32, data: &[u8]) -> Edns {
    let [_, version, ..] = ttl.to_be_bytes();
    let mut edns = Edns {
        udp_payload_bytes: class.max(UDP_BYTES_MIN),
        version,
        dnssec_ok: ttl & DO != 0,
        nsid: false,
        keepalive: false,
        cookie: None,
        is_well_formed: true,
    };
    let mut rest = data;
    while let Some((&[c0, c1, l0, l1], more)) = rest.split_first_chunk::<OPTION_BYTES>() {
        let Some((value, more)) = more.split_at_checked(usize::from(u16::from_be_bytes([l0, l1]))) else {
            break;
        };
        rest = more;
        match u16::from_be_bytes([c0, c1]) {
            NSID => edns.nsid = true,
            // A query has no idle time in it (RFC 7828, section 3.2.1); an option that has one is ignored.
            TCP_KEEPALIVE => edns.keepalive |= value.is_empty(),
            COOKIE if edns.cookie.is_none() => edns.cookie = Some(Cookie::read(value)),
            // A server uses the first cookie (RFC 7873, section 5.2), and ignores unknown options.
            _ => {}
        }
    }
    edns.is_well_formed = rest.is_empty();
    edns
}

/// The OPT record of a reply. It is the last record, except for a signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opt<'s> {
    settings: &'s ResponderSettings,
    dnssec_ok: bool,
    with_nsid: bool,
    cookie: Option<[u8; cookie::BYTES]>,
    idle_ds: Option<u16>,
}

impl<'s> Opt<'s> {
    /// The OPT record for a reply with `room` bytes left, in answer to `edns`. `idle_ds` is the idle time of the connection
    /// for a client that asks for it. Optional parts are left out if they do not fit. `None` if there is no room for an OPT
    /// record.
    pub(crate) fn new(
        settings: &'s ResponderSettings,
        edns: &Edns,
        cookie: Option<[u8; cookie::BYTES]>,
        idle_ds: Option<u16>,
        room: usize,
    ) -> Option<Self> {
        let nsid = edns.nsid && edns.version == 0 && settings.nsid.is_some();
        let idle_ds = idle_ds.filter(|_| edns.keepalive && edns.version == 0);
        let mut opt = Self { settings, dnssec_ok: edns.dnssec_ok, with_nsid: nsid, cookie, idle_ds };
        if opt.bytes() > room {
            opt.idle_ds = None;
        }
        if opt.bytes() > room {
            opt.with_nsid = false;
        }
        if opt.bytes() > room {
            opt.cookie = None;
        }
        (opt.bytes() <= room).then_some(opt)
    }

    fn nsid(&self) -> Option<&'s [u8]> {
        self.settings.nsid.as_deref().filter(|_| self.with_nsid)
    }

    /// The length of the record in bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        let nsid = self.nsid().map_or(0, |nsid| OPTION_BYTES + nsid.len());
        let cookie = self.cookie.map_or(0, |cookie| OPTION_BYTES + cookie.len());
        OPT_BYTES + nsid + cookie + self.idle_ds.map_or(0, |_| OPTION_BYTES + IDLE_BYTES)
    }

    /// Writes the record to the front of `out`, with the high bits of `rcode`.
    #[inline]
    pub(crate) fn write(&self, out: &mut [u8], rcode: u16) {
        let mut record =
            opt_record(self.settings.udp_payload_bytes.max(UDP_BYTES_MIN), rcode, self.dnssec_ok);
        let [.., high, low] = (self.bytes() - OPT_BYTES).to_be_bytes();
        record[OPT_BYTES - 2..].copy_from_slice(&[high, low]);
        out[..OPT_BYTES].copy_from_slice(&record);
        let mut at = OPT_BYTES;
        let mut option = |code: u16, value: &[u8]| {
            let [c0, c1] = code.to_be_bytes();
            let [.., l0, l1] = value.len().to_be_bytes();
            out[at..at + OPTION_BYTES].copy_from_slice(&[c0, c1, l0, l1]);
            out[at + OPTION_BYTES..at + OPTION_BYTES + value.len()].copy_from_slice(value);
            at += OPTION_BYTES + value.len();
        };
        if let Some(nsid) = self.nsid() {
            option(NSID, nsid);
        }
        if let Some(cookie) = &self.cookie {
            option(COOKIE, cookie);
        }
        if let Some(idle_ds) = self.idle_ds {
            option(TCP_KEEPALIVE, &idle_ds.to_be_bytes());
        }
    }
}

//! Reads queries for other authoritative answers than those of [`crate::Zones`].

use kqps_message::Header;

use crate::name::Name;
use crate::respond::{edns, query};

/// The question of a query, and its EDNS.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The end of the question, up to which a reply copies the query; the end of the header if no question can be copied.
    pub end: usize,
    /// The type in the question.
    pub qtype: u16,
    /// The class in the question.
    pub qclass: u16,
    /// Whether the query has one question that can be read.
    pub has_question: bool,
    /// The content of its OPT record.
    pub edns: Option<AskedEdns>,
    /// NOERROR, or FORMERR if the query is malformed.
    pub rcode: u16,
}

/// The fields of an OPT record that an answer depends on.
#[derive(Clone, Copy, Debug)]
pub struct AskedEdns {
    /// The largest UDP message that the client receives, bytes; at least 512.
    pub udp_payload_bytes: u16,
    /// The version of EDNS.
    pub version: u8,
    /// Whether the client wants signatures and proofs.
    pub dnssec_ok: bool,
}

impl Asked {
    /// The longest reply over UDP, in bytes, of a server that sends `own` bytes at most.
    #[inline]
    pub fn udp_bytes(&self, own: u16) -> u16 {
        edns::udp_bytes(self.edns.map(|edns| edns.udp_payload_bytes), own)
    }

    /// Reads a message. The name in question goes into `name`. `None` if the message is shorter than a header, or is a
    /// reply.
    #[inline]
    pub fn read(message: &[u8], name: &mut Name) -> Option<Self> {
        let header = Header::from_bytes(message).filter(|header| !header.is_reply())?;
        let query = query::read(message, header, name);
        let edns = query.edns.map(|edns| AskedEdns {
            udp_payload_bytes: edns.udp_payload_bytes,
            version: edns.version,
            dnssec_ok: edns.dnssec_ok,
        });
        Some(Self {
            end: query.end,
            qtype: query.qtype,
            qclass: query.qclass,
            has_question: query.has_question(),
            edns,
            rcode: query.rcode,
        })
    }
}

//! A query: its bytes, and the arguments of dig for it.

use std::fmt::Write as _;

use domain::base::iana::Class;
use domain::base::{Name, Rtype};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    Tcp,
}

/// A query as it is sent.
#[derive(Clone, Debug)]
pub(super) struct Query {
    /// Its index among the generated queries. With the seed it can be made again.
    pub(super) index: u64,
    pub(super) transport: Transport,
    pub(super) bytes: Vec<u8>,
    /// The arguments of dig for it, and the oddity of its bytes.
    pub(super) words: String,
    /// The question that it was made from.
    pub(super) question: Question,
}

impl Query {
    /// The opcode in its header; 0 without a whole header.
    pub(super) fn opcode(&self) -> u8 {
        self.bytes.get(2).map_or(0, |byte| byte >> 3 & 0x0f)
    }

    /// The ID of the query with this index, which identifies its reply.
    pub(super) fn id(index: u64) -> u16 {
        let [.., high, low] = index.to_be_bytes();
        u16::from_be_bytes([high, low])
    }
}

#[derive(Clone, Debug)]
pub(super) struct Question {
    /// In wire format, in its own case.
    pub(super) qname: Vec<u8>,
    pub(super) qtype: u16,
    pub(super) qclass: u16,
}

/// Header bits that a client may set (RFC 1035, section 4.1.1; RFC 4035, section 3.2.2), in the second word.
pub(super) const RD: u16 = 0x0100;
pub(super) const AD: u16 = 0x0020;
pub(super) const CD: u16 = 0x0010;

/// An OPT record (RFC 6891, section 6.1.2).
#[derive(Clone, Debug)]
pub(super) struct Edns {
    pub(super) udp_payload_bytes: u16,
    pub(super) version: u8,
    pub(super) is_do: bool,
    /// In wire format.
    pub(super) options: Vec<u8>,
    /// The options in words.
    pub(super) option_words: String,
}

/// A query without oddities, before it is encoded.
#[derive(Clone, Debug)]
pub(super) struct Plain {
    pub(super) question: Question,
    pub(super) bits: u16,
    pub(super) edns: Option<Edns>,
    /// For IXFR: whether it has the SOA record of the client's version.
    pub(super) has_soa: bool,
}

/// TYPE, CLASS, TTL, RDLENGTH and RDATA of a SOA with serial 1 and root names, without the owner.
pub(super) const SOA: [u8; 32] =
    [0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

impl Plain {
    pub(super) fn bytes(&self, id: u16) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(512);
        let counts = [1, 0, u16::from(self.has_soa), u16::from(self.edns.is_some())];
        for word in [id, self.bits].into_iter().chain(counts) {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(self.question.bytes());
        if self.has_soa {
            // The owner is the qname.
            bytes.extend([0xc0, 12]);
            bytes.extend(SOA);
        }
        bytes.extend(self.edns.iter().flat_map(Edns::bytes));
        bytes
    }

    pub(super) fn words(&self, transport: Transport) -> String {
        let mut words = self.question.words();
        for (bit, word) in [(RD, "recurse"), (AD, "adflag"), (CD, "cdflag")] {
            if self.bits & bit != 0 {
                let _ = write!(words, " +{word}");
            }
        }
        if let Some(edns) = &self.edns {
            let _ = write!(words, " +bufsize={}", edns.udp_payload_bytes);
            if edns.version != 0 {
                let _ = write!(words, " +edns={}", edns.version);
            }
            words += if edns.is_do { " +dnssec" } else { "" };
            words += &edns.option_words;
        }
        words += if self.has_soa { " (with a SOA)" } else { "" };
        words += if transport == Transport::Tcp { " +tcp" } else { "" };
        words
    }
}

impl Question {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.qname.clone();
        bytes.extend(self.qtype.to_be_bytes());
        bytes.extend(self.qclass.to_be_bytes());
        bytes
    }

    pub(super) fn rtype(&self) -> Rtype {
        Rtype::from_int(self.qtype)
    }

    fn words(&self) -> String {
        let name = Name::from_slice(&self.qname)
            .map_or_else(|_| format!("{:?}", self.qname), |name| name.fmt_with_dot().to_string());
        let mut words = format!("{name} {}", self.rtype());
        if self.qclass != Class::IN.to_int() {
            let _ = write!(words, " {}", Class::from_int(self.qclass));
        }
        words
    }
}

impl Edns {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let [high, low] = self.udp_payload_bytes.to_be_bytes();
        let mut bytes = vec![0, 0, 41, high, low, 0, self.version, u8::from(self.is_do) << 7, 0];
        let options_bytes = u16::try_from(self.options.len()).expect("options are short");
        bytes.extend(options_bytes.to_be_bytes());
        bytes.extend(&self.options);
        bytes
    }
}

/// An EDNS option in wire format (RFC 6891, section 6.1.2).
pub(super) fn option(code: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = code.to_be_bytes().to_vec();
    bytes.extend(u16::try_from(data.len()).expect("an option is short").to_be_bytes());
    bytes.extend(data);
    bytes
}

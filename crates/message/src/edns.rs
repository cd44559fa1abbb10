//! EDNS: the OPT record (RFC 6891), its DO flag (RFC 3225) and the client-subnet option (RFC 7871).

use std::net::IpAddr;

use crate::header::Header;
use crate::{question, record, rtype};

/// The UDP payload size that a query offers by default, in bytes. Packets of this size pass most links without
/// fragments (DNS flag day 2020).
pub const UDP_PAYLOAD_BYTES: u16 = 1232;

/// The bit of an OPT record's TTL that asks for DNSSEC records (RFC 3225, section 3).
pub const DO: u32 = 0x8000;

/// The option code of cookies (RFC 7873, section 4).
pub const COOKIE: u16 = 10;

/// The option code of edns-tcp-keepalive, which is for TCP alone (RFC 7828, section 3.2.1; RFC 9250, section 5.5.2).
pub const TCP_KEEPALIVE: u16 = 11;

/// The option code of EDNS Client Subnet (RFC 7871, section 6).
const CLIENT_SUBNET: u16 = 8;
/// The bytes of an OPT record's root name, type, class, TTL and RDLENGTH.
pub const OPT_BYTES: usize = 11;
/// The bytes of an option's code and length.
pub const OPTION_BYTES: usize = 4;

/// The EDNS parameters of a query, as its OPT record holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edns {
    /// The largest reply over UDP that the sender takes, in bytes.
    pub udp_payload_bytes: u16,
    /// Whether the sender asks for DNSSEC records.
    pub dnssec_ok: bool,
    /// The clients on whose behalf the sender asks (RFC 7871).
    pub client_subnet: Option<ClientSubnet>,
}

impl Default for Edns {
    fn default() -> Self {
        Self { udp_payload_bytes: UDP_PAYLOAD_BYTES, dnssec_ok: false, client_subnet: None }
    }
}

/// A prefix of client addresses (RFC 7871).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientSubnet {
    address: IpAddr,
    prefix_bits: u8,
}

impl ClientSubnet {
    /// The first `prefix_bits` bits of `address`. `None` if the address has fewer bits.
    pub fn new(address: IpAddr, prefix_bits: u8) -> Option<Self> {
        let bits_max = if address.is_ipv4() { 32 } else { 128 };
        (prefix_bits <= bits_max).then_some(Self { address, prefix_bits })
    }

    /// Reads `ADDRESS` or `ADDRESS/BITS`, IPv4 or IPv6. Without `BITS` the prefix is the whole address.
    pub fn parse(text: &str) -> Option<Self> {
        let Some((address, bits)) = text.split_once('/') else {
            let address: IpAddr = text.parse().ok()?;
            return Self::new(address, if address.is_ipv4() { 32 } else { 128 });
        };
        if !bits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Self::new(address.parse().ok()?, bits.parse().ok()?)
    }

    /// Appends the option. It holds only the address bytes that the prefix needs, with the last byte masked.
    fn write(self, out: &mut Vec<u8>) {
        let bytes = self.prefix_bits.div_ceil(8);
        let family: u16 = if self.address.is_ipv4() { 1 } else { 2 };
        out.extend_from_slice(&CLIENT_SUBNET.to_be_bytes());
        out.extend_from_slice(&(4 + u16::from(bytes)).to_be_bytes());
        out.extend_from_slice(&family.to_be_bytes());
        out.extend_from_slice(&[self.prefix_bits, 0]);
        match self.address {
            IpAddr::V4(address) => out.extend_from_slice(&address.octets()[..usize::from(bytes)]),
            IpAddr::V6(address) => out.extend_from_slice(&address.octets()[..usize::from(bytes)]),
        }
        let spare_bits = bytes * 8 - self.prefix_bits;
        if let Some(last) = out.last_mut().filter(|_| spare_bits > 0) {
            *last &= 0xff << spare_bits;
        }
    }
}

/// Appends an OPT record to the message that begins at `start` in `out`, and adds 1 to its ARCOUNT. Returns false
/// and changes nothing if the message has no whole header or if ARCOUNT is 65,535.
pub fn append(out: &mut Vec<u8>, start: usize, edns: &Edns) -> bool {
    let Some(count) =
        out.get(start..).and_then(Header::from_bytes).and_then(|header| header.additionals().checked_add(1))
    else {
        return false;
    };
    out[start + 10..start + 12].copy_from_slice(&count.to_be_bytes());
    let opt = out.len();
    out.extend_from_slice(&opt_record(edns.udp_payload_bytes, 0, edns.dnssec_ok));
    if let Some(subnet) = edns.client_subnet {
        subnet.write(out);
    }
    let [.., high, low] = (out.len() - opt - OPT_BYTES).to_be_bytes();
    out[opt + OPT_BYTES - 2..opt + OPT_BYTES].copy_from_slice(&[high, low]);
    true
}

/// An OPT record of version 0 without options: the largest reply over UDP that the sender takes, in bytes, the upper
/// eight bits of an rcode, and DO.
#[inline]
pub fn opt_record(udp_payload_bytes: u16, rcode: u16, dnssec_ok: bool) -> [u8; OPT_BYTES] {
    let ([t0, t1], [p0, p1]) = (rtype::OPT.to_be_bytes(), udp_payload_bytes.to_be_bytes());
    let [_, upper] = (rcode >> 4).to_be_bytes();
    let [.., f0, f1] = if dnssec_ok { DO.to_be_bytes() } else { [0; 4] };
    [0, t0, t1, p0, p1, upper, 0, f0, f1, 0, 0]
}

/// Whether these bytes consist of whole options.
#[inline]
pub fn are_options(mut data: &[u8]) -> bool {
    while let Some((&[_, _, high, low], rest)) = data.split_first_chunk::<OPTION_BYTES>() {
        let Some(rest) = rest.get(usize::from(u16::from_be_bytes([high, low]))..) else { return false };
        data = rest;
    }
    data.is_empty()
}

/// Appends an option to a row of options: its code, the length of its data, and the data. Returns false and changes
/// nothing if the row would be longer than the data of a record can be.
pub fn append_option(options: &mut Vec<u8>, code: u16, data: &[u8]) -> bool {
    if u16::try_from(options.len() + 4 + data.len()).is_err() {
        return false;
    }
    options.extend_from_slice(&code.to_be_bytes());
    let [.., high, low] = data.len().to_be_bytes();
    options.extend_from_slice(&[high, low]);
    options.extend_from_slice(data);
    true
}

/// Whether an option of this code is among the options of an OPT record. Of a malformed row those before its fault count.
pub fn has_option(mut options: &[u8], code: u16) -> bool {
    while let Some((&[c0, c1, l0, l1], rest)) = options.split_first_chunk() {
        if u16::from_be_bytes([c0, c1]) == code {
            return true;
        }
        let Some(after) = rest.get(usize::from(u16::from_be_bytes([l0, l1]))..) else { return false };
        options = after;
    }
    false
}

/// Adds a row of options to the OPT record of a message, after those that it has. Returns false and changes nothing if
/// the message has no OPT record, or if the lengths of the record or the message would be above 65,535.
pub fn add_options(message: &mut Vec<u8>, options: &[u8]) -> bool {
    let Ok(Some(opt)) = find(message) else { return false };
    let (end, data_bytes) = (opt.end, opt.data.len());
    let Ok(longer) = u16::try_from(data_bytes + options.len()) else { return false };
    if u16::try_from(message.len() + options.len()).is_err() {
        return false;
    }
    message[end - data_bytes - 2..end - data_bytes].copy_from_slice(&longer.to_be_bytes());
    message.splice(end..end, options.iter().copied());
    true
}

/// Finds the OPT record of a message. `Ok(None)` if the message has none; an error if its records cannot be read.
pub fn find(message: &[u8]) -> Result<Option<record::Record<'_>>, Malformed> {
    let header = Header::from_bytes(message).ok_or(Malformed)?;
    let mut at = question::end(message).ok_or(Malformed)?;
    for _ in 0..u32::from(header.answers()) + u32::from(header.authorities()) {
        at = record::read(message, at).ok_or(Malformed)?.end;
    }
    for _ in 0..header.additionals() {
        let record = record::read(message, at).ok_or(Malformed)?;
        if record.rtype == rtype::OPT {
            return Ok(Some(record));
        }
        at = record.end;
    }
    Ok(None)
}

/// The rcode of a reply with this header. The header holds the lower four bits, and the OPT record, if any, the
/// upper eight (RFC 6891, section 6.1.3).
#[inline]
pub fn rcode(header: Header<'_>, reply: &[u8]) -> u16 {
    if header.additionals() == 0 {
        return header.rcode();
    }
    let upper = find(reply).ok().flatten().map_or(0, |opt| opt.ttl_s.to_be_bytes()[0]);
    u16::from(upper) << 4 | header.rcode()
}

/// A message that is shorter than a header, or has fewer whole questions or records than its header counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its sections do not match its header's counts")]
pub struct Malformed;

#[cfg(test)]
mod tests {
    use super::*;

    fn opt(edns: &Edns) -> Vec<u8> {
        let mut out = vec![0; 12];
        assert!(append(&mut out, 0, edns));
        assert_eq!(out[10..12], [0, 1]);
        out.split_off(12)
    }

    #[test]
    fn an_opt_record_has_the_bytes_of_rfc_6891() {
        assert_eq!(opt(&Edns::default()), b"\0\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00");
        let wants = Edns { dnssec_ok: true, ..Edns::default() };
        assert_eq!(opt(&wants), b"\0\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00");
    }

    #[test]
    fn a_client_subnet_has_the_bytes_of_rfc_7871() {
        for (text, option) in [
            ("192.0.2.77/24", &b"\x00\x08\x00\x07\x00\x01\x18\x00\xc0\x00\x02"[..]),
            ("192.0.255.0/17", b"\x00\x08\x00\x07\x00\x01\x11\x00\xc0\x00\x80"),
            ("192.0.2.1", b"\x00\x08\x00\x08\x00\x01\x20\x00\xc0\x00\x02\x01"),
            ("0.0.0.0/0", b"\x00\x08\x00\x04\x00\x01\x00\x00"),
            ("2001:db8::/32", b"\x00\x08\x00\x08\x00\x02\x20\x00\x20\x01\x0d\xb8"),
        ] {
            let edns = Edns { client_subnet: ClientSubnet::parse(text), ..Edns::default() };
            let record = opt(&edns);
            assert_eq!(record[9..11], (option.len() as u16).to_be_bytes(), "{text}");
            assert_eq!(&record[11..], option, "{text}");
        }
    }

    #[test]
    fn what_is_no_prefix_is_refused() {
        for text in [
            "",
            "/24",
            "192.0.2.0/",
            "192.0.2.0/33",
            "192.0.2/24",
            "2001:db8::/129",
            "192.0.2.0/+8",
            "NXDOMAIN",
        ] {
            assert_eq!(ClientSubnet::parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_opt_record_is_found_among_others() {
        let mut message = vec![0; 12];
        assert_eq!(find(&message), Ok(None));
        message[7] = 1;
        message.extend_from_slice(b"\0\x00\x01\x00\x01\x00\x00\x00\x00\x00\x01x");
        assert_eq!(find(&message), Ok(None));
        append(&mut message, 0, &Edns { dnssec_ok: true, ..Edns::default() });
        let found = find(&message).expect("well formed").expect("an OPT record");
        assert_eq!((found.class, found.ttl_s & DO), (UDP_PAYLOAD_BYTES, DO));
        message.pop();
        assert_eq!(find(&message), Err(Malformed));
    }

    #[test]
    fn options_stand_after_those_that_are_there() {
        let mut options = Vec::new();
        assert!(append_option(&mut options, 65_001, b"\x0a\x0b") && append_option(&mut options, 3, b""));
        assert_eq!(options, b"\xfd\xe9\x00\x02\x0a\x0b\x00\x03\x00\x00");
        let mut message = vec![0; 12];
        assert!(!add_options(&mut message, &options), "it has no OPT record");
        let edns = Edns { client_subnet: ClientSubnet::parse("192.0.2.0/24"), ..Edns::default() };
        append(&mut message, 0, &edns);
        message[11] = 2;
        message.extend_from_slice(b"\0\x00\x01\x00\x01\x00\x00\x00\x00\x00\x01x");
        let before = message.clone();
        assert!(add_options(&mut message, &options));
        let found = find(&message).expect("well formed").expect("an OPT record");
        assert_eq!(found.data, [&before[23..34], &options].concat());
        assert_eq!(message[found.end..], before[34..]);
        assert!(!add_options(&mut message, &vec![0; 65_530]));
    }

    #[test]
    fn an_rcode_has_its_upper_bits_in_the_opt_record() {
        let rcode_of = |message: &[u8]| rcode(Header::from_bytes(message).expect("twelve bytes"), message);
        let mut message = vec![0; 12];
        message[3] = 7;
        assert_eq!(rcode_of(&message), 7);
        append(&mut message, 0, &Edns::default());
        assert_eq!(rcode_of(&message), 7);
        message[17] = 1;
        assert_eq!(rcode_of(&message), 23, "BADCOOKIE");
        message[17] = 0xff;
        assert_eq!(rcode_of(&message), 0xff7);
        message.pop();
        assert_eq!(rcode_of(&message), 7, "its records cannot be read");
    }

    #[test]
    fn a_full_count_takes_no_further_record() {
        let mut message = vec![0xff; 12];
        assert!(!append(&mut message, 0, &Edns::default()));
        assert!(!append(&mut vec![0; 11], 0, &Edns::default()));
    }
}

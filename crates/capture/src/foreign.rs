//! Files that are not read, by their first bytes: formats of other programs, each with the command that makes it readable.

use std::fmt;

use crate::logged;

/// The bytes by which [`Foreign::from_first_bytes`] knows every format.
pub const FIRST_BYTES: usize = 512;

/// The bytes before the packet in a record of ERF, and the types of records with Ethernet.
const ERF_HEADER_BYTES: u16 = 16;
const ERF_ETHERNET: [u8; 3] = [2, 11, 16];

/// A format that is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// Compressed by this program.
    Packed(&'static str),
    /// An archive of this program, and the command that unpacks it.
    Archive(&'static str, &'static str),
    /// A capture of this program or device, which `editcap` converts.
    Capture(&'static str),
    /// Something else: its name, and what helps.
    Other(&'static str, &'static str),
}

use Foreign::{Archive, Capture, Other, Packed};

const CDNS: Foreign = Other(
    "a capture in C-DNS (RFC 8618), which kqps does not read",
    "`inspector` of dns-stats converts it to pcap",
);
const HTML: Foreign = Other("a page of HTML, as a failed download leaves it", "download the file itself");
const GIT_LFS: Foreign =
    Other("a pointer of Git LFS in place of the file", "`git lfs pull` fetches the file");

/// Bytes at a place of a file.
type Mark = (usize, &'static [u8]);

/// The formats, each with marks that its files all have.
const FORMATS: [(&[Mark], Foreign); 23] = [
    (&[(0, b"\xfd7zXZ\0")], Packed("xz")),
    (&[(0, b"BZh"), (4, b"1AY&SY")], Packed("bzip2")),
    (&[(0, b"\x04\x22\x4d\x18")], Packed("lz4")),
    (&[(0, b"\x02\x21\x4c\x18")], Packed("lz4")),
    (&[(0, b"LZIP\x01")], Packed("lzip")),
    (&[(0, b"\x1f\x9d")], Archive("compress", "gzip -d")),
    (&[(0, b"PK\x03\x04")], Archive("zip", "unzip")),
    (&[(0, b"7z\xbc\xaf\x27\x1c")], Archive("7z", "7z x")),
    (&[(257, b"ustar\0")], Archive("tar", "tar -xf")),
    (&[(257, b"ustar  \0")], Archive("tar", "tar -xf")),
    (&[(0, b"snoop\0\0\0")], Capture("snoop")),
    (&[(0, b"RTSS"), (5, b"\x01")], Capture("Network Monitor 1")),
    (&[(0, b"GMBU"), (5, b"\x02")], Capture("Network Monitor 2")),
    (&[(0, b"TRSNIFF data    \x1a")], Capture("Sniffer")),
    (&[(0, b"XCP\0")], Capture("NetXRay")),
    (&[(0, b"iptrace 1.0")], Capture("iptrace")),
    (&[(0, b"iptrace 2.0")], Capture("iptrace")),
    (&[(0, b"btsnoop\0")], Capture("btsnoop")),
    (&[(1, b"\x65C-DNS")], CDNS),
    (&[(0, b"version https://git-lfs.")], GIT_LFS),
    (&[(0, b"<!DOCTYPE")], HTML),
    (&[(0, b"<!doctype")], HTML),
    (&[(0, b"<html")], HTML),
];

impl Foreign {
    /// The format of a file with these first bytes, if it is a known one. [`FIRST_BYTES`] are enough.
    pub fn from_first_bytes(first: &[u8]) -> Option<Self> {
        let has = |(at, bytes): &Mark| first.get(*at..).is_some_and(|rest| rest.starts_with(bytes));
        let known = FORMATS.iter().find(|(marks, _)| marks.iter().all(has));
        known
            .map(|(_, format)| *format)
            .or_else(|| Self::like_taps(first))
            .or_else(|| logged::text_format(first).map(|(name, remedy)| Other(name, remedy)))
    }

    /// The format of a file that begins with the four bytes of a stream of dnstap and is none.
    pub(crate) fn like_taps(first: &[u8]) -> Option<Self> {
        is_erf(first).then_some(Capture("ERF"))
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Packed(program) => write!(
                out,
                "this is compressed by {program}, which kqps does not read; `{program} -d` decompresses it"
            ),
            Archive(program, command) => {
                write!(
                    out,
                    "this is an archive of {program}, which kqps does not read; `{command}` unpacks it"
                )
            }
            Capture(program) => write!(
                out,
                "this is a capture of {program}, which kqps does not read; `editcap -F pcap` of Wireshark converts it"
            ),
            Other(name, remedy) => write!(out, "this is {name}; {remedy}"),
        }
    }
}

/// Whether a file begins with a record of ERF, which has no number of its format: a time in fractions of a second (4 bytes)
/// and seconds, a type, flags, and the lengths of record and packet.
fn is_erf(first: &[u8]) -> bool {
    let Some(&[_, _, _, _, _, _, _, seconds, kind, _, r0, r1, _, _, w0, w1]) = first.first_chunk() else {
        return false;
    };
    let (record, packet) = (u16::from_be_bytes([r0, r1]), u16::from_be_bytes([w0, w1]));
    // Times since 1978, and an Ethernet frame that is whole or cut.
    seconds >= 0x10 && ERF_ETHERNET.contains(&(kind & 0x7f)) && record > ERF_HEADER_BYTES && packet >= 14
}

/// Whether bytes at the beginning of a file are no text: they have a control character that no text has. UTF-16 has such
/// bytes, too, unless a byte order mark shows what it is.
pub fn is_binary(first: &[u8]) -> bool {
    let is_marked = first.starts_with(b"\xff\xfe") || first.starts_with(b"\xfe\xff");
    !is_marked && first.iter().any(|byte| matches!(byte, 0..=8 | 14..=26 | 28..=31))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::is_capture;

    #[test]
    fn formats_are_known_by_their_marks_and_text_is_none_of_them() {
        for (marks, format) in FORMATS {
            let mut file = vec![0; FIRST_BYTES];
            for (at, bytes) in marks {
                file[*at..at + bytes.len()].copy_from_slice(bytes);
            }
            assert_eq!(Foreign::from_first_bytes(&file), Some(format));
            // Bytes before the mark of tar are a name, and 0 is another one's.
            assert!(marks[0].0 > 1 || !is_capture(&file), "{format}");
        }
        for text in ["BZhost.test A\n", "RTSS.test A\n", "snoop A\n", "LZIP A\n", "PK A\n", "version A\n", ""]
        {
            assert_eq!(Foreign::from_first_bytes(text.as_bytes()), None, "{text}");
            assert!(!is_binary(text.as_bytes()));
        }
    }

    #[test]
    fn a_record_of_erf_is_known_and_a_stream_of_dnstap_is_not_taken_for_one() {
        let erf = b"\0\0\0\0\x00\xf1\x53\x65\x02\x04\x00\x5c\0\0\0\x4a\0\0";
        assert_eq!(Foreign::from_first_bytes(erf), Some(Capture("ERF")));
        let stream = b"\0\0\0\0\0\0\0\x22\0\0\0\x02\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";
        assert_eq!(Foreign::from_first_bytes(stream), None);
    }

    #[test]
    fn control_characters_are_no_text() {
        assert!(is_binary(b"a.test A\n\0") && is_binary(b"\x7fELF\x02\x01"));
        assert!(!is_binary("b\u{fc}ro.test\tA\r\n\x0c\x1b[0m".as_bytes()));
        assert!(!is_binary(b"\xff\xfea\0.\0") && !is_binary(b"\xfe\xff\0a"));
    }
}

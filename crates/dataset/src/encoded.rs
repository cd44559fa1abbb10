//! The encoded form of a dataset: a header, the records one after another, and a table of the positions of every
//! 1024th record. It is written in one pass and read through a memory map. Of a capture, the end of a
//! connection is written later, into the record of its last query, and so is the answer to a query if it came late.
//!
//! ```text
//! header   248 bytes   magic, version, counts, hashes, and a hash of all these
//! records  8-aligned   message length, question length, expected rcode, parts: u16 each; then, of a capture, 24 bytes:
//!                      due time in ns, u64; client, place, idle time in ms, transport and flags, u32 each; then the
//!                      digest of the expected answer, if there is one, and of a capture always the room for it; then
//!                      the message, padded
//! table    u32 each    the position of records 0, 1024, 2048 …
//! clients  u32 twice   of a capture: the network of each client, and the client's number there
//! networks u32 each    of a capture: the number of clients of each network
//! facts    JSON        of a capture: what is known of it as a whole; otherwise which bad lines or messages were skipped
//! ```
//!
//! Numbers are little-endian. A position counts 8 bytes from the start of the file.

use crate::answer::Digest;
use crate::facts::PLACE_BYTES;
use crate::skipped::{NUMBERS, Skipped};

/// The version of the format. Increase it if the format of the file or the encoding of a source changes. It is
/// part of a file's name.
pub(crate) const VERSION: u32 = 10;
pub(crate) const HEADER_BYTES: usize = 248;
/// Records and positions are multiples of this.
pub(crate) const UNIT_BYTES: usize = 8;
/// The bytes of a record before its parts and its message.
pub(crate) const PREFIX_BYTES: usize = 8;
/// The position of the rcode in a record, with the parts after it.
pub(crate) const RCODE_AT: usize = 4;
/// The bytes that a record of a capture has after its prefix.
pub(crate) const CAPTURED_BYTES: usize = 24;
pub(crate) const DIGEST_BYTES: usize = 8;
/// The rcode of a record without an expected rcode.
pub(crate) const NO_RCODE: u16 = u16::MAX;
/// The table holds the position of one record in this many.
pub(crate) const STRIDE: u64 = 1024;

/// The bit of a record's parts that stands for the digest.
pub(crate) const DIGEST: u16 = 1;
/// The bit of a record's parts that stands for what a capture says.
pub(crate) const CAPTURED: u16 = 1 << 1;
/// The bit of a record's parts that says that the digest covers AD.
pub(crate) const COVERS_AD: u16 = 1 << 2;

const MAGIC: [u8; 8] = *b"kqpsdata";
const HASHED_BYTES: usize = HEADER_BYTES - blake3::OUT_LEN;

/// The position of the digest in a record with these parts.
#[inline]
pub(crate) fn digest_at(parts: u16) -> usize {
    PREFIX_BYTES + usize::from((parts & CAPTURED) >> 1) * CAPTURED_BYTES
}

/// The position of the message in a record with these parts. A record of a capture has room for a digest in any case.
#[inline]
pub(crate) fn message_at(parts: u16) -> usize {
    digest_at(parts) + usize::from((parts | parts >> 1) & DIGEST) * DIGEST_BYTES
}

/// The facts of a query besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) question_bytes: u16,
    pub(crate) expected_rcode: Option<u16>,
    pub(crate) expected_answer: Option<Digest>,
}

/// The extent of what follows the table. All are 0 unless the source is a capture, or has bad lines or messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sections {
    pub(crate) clients: u64,
    pub(crate) networks: u64,
    pub(crate) facts_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) queries: u64,
    /// The entries of the source that were left out.
    pub(crate) skipped: Skipped,
    /// The end of the records and the beginning of the table, in bytes.
    pub(crate) records_end: u64,
    /// The number of queries with the digest of an expected answer.
    pub(crate) answers: u64,
    pub(crate) sections: Sections,
    /// BLAKE3 of the source's content.
    pub(crate) source_hash: [u8; 32],
    /// The first half of BLAKE3 of everything after the header.
    pub(crate) body_hash: [u8; 16],
}

impl Header {
    pub(crate) fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&u64::from(VERSION).to_le_bytes());
        let Sections { clients, networks, facts_bytes } = self.sections;
        for number in [self.queries, self.records_end, self.answers, clients, networks, facts_bytes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.source_hash);
        bytes.extend_from_slice(&self.body_hash);
        for number in self.skipped.to_numbers() {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let hash = blake3::hash(&bytes);
        bytes.extend_from_slice(hash.as_bytes());
        bytes.try_into().unwrap_or([0; HEADER_BYTES])
    }

    /// Reads the header of a file; `None` if the file is damaged, incomplete or of another version.
    pub(crate) fn read(file: &[u8]) -> Option<Self> {
        let (hashed, hash) = file.get(..HEADER_BYTES)?.split_at(HASHED_BYTES);
        if blake3::hash(hashed).as_bytes() != hash || hashed[..8] != MAGIC {
            return None;
        }
        let number = |at: usize| hashed[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let mut skipped = [0; NUMBERS];
        for (at, count) in (112..).step_by(8).zip(&mut skipped) {
            *count = number(at)?;
        }
        let header = Self {
            queries: number(16)?,
            records_end: number(24)?,
            answers: number(32)?,
            sections: Sections { clients: number(40)?, networks: number(48)?, facts_bytes: number(56)? },
            source_hash: *hashed[64..].first_chunk()?,
            body_hash: *hashed[96..].first_chunk()?,
            skipped: Skipped::from_numbers(skipped),
        };
        (number(8)? == u64::from(VERSION) && header.file_bytes() == file.len() as u64).then_some(header)
    }

    /// Whether everything after the header is undamaged.
    pub(crate) fn matches_body(&self, file: &[u8]) -> bool {
        body_hash(&blake3::hash(&file[HEADER_BYTES..])) == self.body_hash
    }

    /// The end of the table and the beginning of the clients, in bytes.
    pub(crate) fn clients_at(&self) -> u64 {
        self.records_end + self.queries.div_ceil(STRIDE) * 4
    }

    /// The end of the clients and the beginning of the networks, in bytes.
    pub(crate) fn networks_at(&self) -> u64 {
        self.clients_at() + self.sections.clients * PLACE_BYTES as u64
    }

    /// The facts in a file with this header: a [`crate::tail::Tail`], or nothing.
    pub(crate) fn facts<'f>(&self, file: &'f [u8]) -> &'f [u8] {
        file.get(self.facts_at() as usize..).unwrap_or_default()
    }

    fn facts_at(&self) -> u64 {
        self.networks_at() + self.sections.networks * 4
    }

    fn file_bytes(&self) -> u64 {
        self.facts_at() + self.sections.facts_bytes
    }
}

pub(crate) fn body_hash(hash: &blake3::Hash) -> [u8; 16] {
    hash.as_bytes().first_chunk().copied().unwrap_or_default()
}

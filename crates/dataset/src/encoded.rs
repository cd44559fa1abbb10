//! The encoded form of a dataset: a header, the records one after another, and a table of the positions of every
//! 1024th record. It is written in one pass and read through a memory map.
//!
//! ```text
//! header   224 bytes   magic, version, counts, hashes, and a hash of all these
//! records  8-aligned   message length, question length, expected rcode, digests: u16 each; then the digest of the
//!                      expected answer, if there is one; then the message, padded
//! table    u32 each    the position of records 0, 1024, 2048 …
//! ```
//!
//! Numbers are little-endian. A position counts 8 bytes from the start of the file.

use std::io::{self, Seek, SeekFrom, Write};

use crate::answer::Digest;
use crate::skipped::{NUMBERS, Skipped};

/// The version of the format. Increase it if the format of the file or the encoding of a source changes. It is
/// part of a file's name.
pub(crate) const VERSION: u32 = 5;
pub(crate) const HEADER_BYTES: usize = 224;
/// Records and positions are multiples of this.
pub(crate) const UNIT_BYTES: usize = 8;
/// The bytes of a record before its digest and its message.
pub(crate) const PREFIX_BYTES: usize = 8;
pub(crate) const DIGEST_BYTES: usize = 8;
/// The rcode of a record without an expected rcode.
pub(crate) const NO_RCODE: u16 = u16::MAX;
/// The table holds the position of one record in this many.
pub(crate) const STRIDE: u64 = 1024;

const MAGIC: [u8; 8] = *b"kqpsdata";
const HASHED_BYTES: usize = HEADER_BYTES - blake3::OUT_LEN;
const BUFFER_BYTES: usize = 1 << 20;

/// What is known about a query besides its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) question_bytes: u16,
    pub(crate) expected_rcode: Option<u16>,
    pub(crate) expected_answer: Option<Digest>,
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
    /// BLAKE3 of the source's content.
    pub(crate) source_hash: [u8; 32],
    /// The first half of BLAKE3 of everything after the header.
    pub(crate) body_hash: [u8; 16],
}

impl Header {
    fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&u64::from(VERSION).to_le_bytes());
        for number in [self.queries, self.records_end, self.answers] {
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
        for (at, count) in (88..).step_by(8).zip(&mut skipped) {
            *count = number(at)?;
        }
        let header = Self {
            queries: number(16)?,
            records_end: number(24)?,
            answers: number(32)?,
            source_hash: *hashed[40..].first_chunk()?,
            body_hash: *hashed[72..].first_chunk()?,
            skipped: Skipped::from_numbers(skipped),
        };
        (number(8)? == u64::from(VERSION) && header.file_bytes() == file.len() as u64).then_some(header)
    }

    /// Whether everything after the header is undamaged.
    pub(crate) fn matches_body(&self, file: &[u8]) -> bool {
        body_hash(&blake3::hash(&file[HEADER_BYTES..])) == self.body_hash
    }

    fn file_bytes(&self) -> u64 {
        self.records_end + self.queries.div_ceil(STRIDE) * 4
    }
}

fn body_hash(hash: &blake3::Hash) -> [u8; 16] {
    hash.as_bytes().first_chunk().copied().unwrap_or_default()
}

pub(crate) struct Writer<W> {
    out: W,
    buffer: Vec<u8>,
    body: blake3::Hasher,
    table: Vec<u32>,
    records_end: u64,
    queries: u64,
    answers: u64,
}

#[derive(Debug)]
pub(crate) enum WriteError {
    Io(io::Error),
    /// No position can address the record.
    Full,
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl<W: Write + Seek> Writer<W> {
    /// Begins a file. The header is written last, so the file is incomplete until then.
    pub(crate) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&[0; HEADER_BYTES])?;
        Ok(Self {
            out,
            buffer: Vec::with_capacity(BUFFER_BYTES + (1 << 17)),
            body: blake3::Hasher::new(),
            table: Vec::new(),
            records_end: HEADER_BYTES as u64,
            queries: 0,
            answers: 0,
        })
    }

    /// Appends a query. Its message has at most 65535 bytes.
    pub(crate) fn push(&mut self, message: &[u8], facts: Facts) -> Result<(), WriteError> {
        if self.queries.is_multiple_of(STRIDE) {
            let position =
                u32::try_from(self.records_end / UNIT_BYTES as u64).map_err(|_| WriteError::Full)?;
            self.table.push(position);
        }
        let digests = u16::from(facts.expected_answer.is_some());
        let digest_bytes = usize::from(digests) * DIGEST_BYTES;
        let record_bytes = PREFIX_BYTES + digest_bytes + message.len().next_multiple_of(UNIT_BYTES);
        self.records_end += record_bytes as u64;
        if self.records_end / UNIT_BYTES as u64 > u64::from(u32::MAX) {
            return Err(WriteError::Full);
        }
        self.buffer.extend_from_slice(&(message.len() as u16).to_le_bytes());
        self.buffer.extend_from_slice(&facts.question_bytes.to_le_bytes());
        self.buffer.extend_from_slice(&facts.expected_rcode.unwrap_or(NO_RCODE).to_le_bytes());
        self.buffer.extend_from_slice(&digests.to_le_bytes());
        if let Some(digest) = facts.expected_answer {
            self.buffer.extend_from_slice(&digest.number().to_le_bytes());
        }
        self.buffer.extend_from_slice(message);
        self.buffer.resize(self.buffer.len().next_multiple_of(UNIT_BYTES), 0);
        self.queries += 1;
        self.answers += u64::from(digests);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes the table and the header, and returns the header.
    pub(crate) fn finish(mut self, source_hash: [u8; 32], skipped: Skipped) -> io::Result<Header> {
        for position in std::mem::take(&mut self.table) {
            self.buffer.extend_from_slice(&position.to_le_bytes());
        }
        self.flush()?;
        let header = Header {
            queries: self.queries,
            skipped,
            records_end: self.records_end,
            answers: self.answers,
            source_hash,
            body_hash: body_hash(&self.body.finalize()),
        };
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&header.to_bytes())?;
        self.out.flush()?;
        Ok(header)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.body.update(&self.buffer);
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

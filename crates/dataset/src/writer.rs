//! Writes the encoded form of a dataset in one pass, but for records of a capture that are amended later.

use std::io::{self, Read, Seek, SeekFrom, Write};

use crate::answer::Digest;
use crate::captured::Captured;
use crate::encoded::{
    CAPTURED, COVERS_AD, DIGEST, Facts, HEADER_BYTES, Header, NO_RCODE, PREFIX_BYTES, RCODE_AT, STRIDE,
    Sections, UNIT_BYTES, body_hash, digest_at, message_at,
};
use crate::skipped::Skipped;

const BUFFER_BYTES: usize = 1 << 20;

pub(crate) struct Writer<W> {
    out: W,
    buffer: Vec<u8>,
    body: blake3::Hasher,
    table: Vec<u32>,
    /// The end of what `out` has, in bytes. The buffer begins there.
    written: u64,
    records_end: u64,
    queries: u64,
    answers: u64,
    /// Whether records were changed after they were hashed.
    is_amended: bool,
    /// Whether `out` stands elsewhere than at the end of what it has.
    is_displaced: bool,
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

impl<W: Read + Write + Seek> Writer<W> {
    /// Begins a file. The header is written last, so the file is incomplete until then.
    pub(crate) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&[0; HEADER_BYTES])?;
        Ok(Self {
            out,
            buffer: Vec::with_capacity(BUFFER_BYTES + (1 << 17)),
            body: blake3::Hasher::new(),
            table: Vec::new(),
            written: HEADER_BYTES as u64,
            records_end: HEADER_BYTES as u64,
            queries: 0,
            answers: 0,
            is_amended: false,
            is_displaced: false,
        })
    }

    /// Appends a query, and returns where its record begins. Its message has at most 65535 bytes.
    pub(crate) fn push(
        &mut self,
        message: &[u8],
        facts: Facts,
        captured: Option<Captured>,
    ) -> Result<u64, WriteError> {
        let record = self.records_end;
        if self.queries.is_multiple_of(STRIDE) {
            let position = u32::try_from(record / UNIT_BYTES as u64).map_err(|_| WriteError::Full)?;
            self.table.push(position);
        }
        let digests = match facts.expected_answer {
            Some(digest) if digest.covers_ad() => DIGEST | COVERS_AD,
            Some(_) => DIGEST,
            None => 0,
        };
        let parts = digests | if captured.is_some() { CAPTURED } else { 0 };
        self.records_end += (message_at(parts) + message.len()).next_multiple_of(UNIT_BYTES) as u64;
        if self.records_end / UNIT_BYTES as u64 > u64::from(u32::MAX) {
            return Err(WriteError::Full);
        }
        let message_bytes = u16::try_from(message.len()).expect("a message has 65,535 bytes at most");
        self.buffer.extend_from_slice(&message_bytes.to_le_bytes());
        self.buffer.extend_from_slice(&facts.question_bytes.to_le_bytes());
        self.buffer.extend_from_slice(&facts.expected_rcode.unwrap_or(NO_RCODE).to_le_bytes());
        self.buffer.extend_from_slice(&parts.to_le_bytes());
        if let Some(captured) = captured {
            self.buffer.extend_from_slice(&captured.to_bytes());
        }
        if facts.expected_answer.is_some() || captured.is_some() {
            let digest = facts.expected_answer.map_or(0, Digest::number);
            self.buffer.extend_from_slice(&digest.to_le_bytes());
        }
        self.buffer.extend_from_slice(message);
        self.buffer.resize(self.buffer.len().next_multiple_of(UNIT_BYTES), 0);
        self.queries += 1;
        self.answers += u64::from(digests & DIGEST);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(record)
    }

    /// Replaces what the capture says in the record that begins at `record`. A record that has left the buffer costs a
    /// seek and a write.
    pub(crate) fn amend(&mut self, record: u64, captured: Captured) -> io::Result<()> {
        self.replace(record + PREFIX_BYTES as u64, &captured.to_bytes())
    }

    /// Adds what is expected to the record of a captured query that expects nothing so far.
    pub(crate) fn expect(&mut self, record: u64, rcode: u16, answer: Option<Digest>) -> io::Result<()> {
        let parts = if answer.is_some() { CAPTURED | DIGEST } else { CAPTURED };
        let words = (u32::from(parts) << 16 | u32::from(rcode)).to_le_bytes();
        self.replace(record + RCODE_AT as u64, &words)?;
        let Some(answer) = answer else { return Ok(()) };
        self.answers += 1;
        self.replace(record + digest_at(parts) as u64, &answer.number().to_le_bytes())
    }

    /// Replaces bytes of a record.
    fn replace(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(within) = at.checked_sub(self.written) {
            let within = within as usize;
            self.buffer[within..within + bytes.len()].copy_from_slice(bytes);
            return Ok(());
        }
        (self.is_amended, self.is_displaced) = (true, true);
        self.out.seek(SeekFrom::Start(at))?;
        self.out.write_all(bytes)
    }

    /// Writes the table, after the last query.
    pub(crate) fn end_records(&mut self) -> io::Result<()> {
        for position in std::mem::take(&mut self.table) {
            self.append(&position.to_le_bytes())?;
        }
        Ok(())
    }

    /// Appends bytes of a section, after the table.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes the header, and returns it.
    pub(crate) fn finish(
        mut self,
        source_hash: [u8; 32],
        skipped: Skipped,
        sections: Sections,
    ) -> io::Result<Header> {
        self.flush()?;
        let header = Header {
            queries: self.queries,
            skipped,
            records_end: self.records_end,
            answers: self.answers,
            sections,
            source_hash,
            body_hash: body_hash(&self.hash()?),
        };
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&header.to_bytes())?;
        self.out.flush()?;
        Ok(header)
    }

    /// The hash of everything after the header. Reads it again if records were changed after they were hashed.
    fn hash(&mut self) -> io::Result<blake3::Hash> {
        if self.is_amended {
            self.out.seek(SeekFrom::Start(HEADER_BYTES as u64))?;
            self.body.reset().update_reader(&mut self.out)?;
        }
        Ok(self.body.finalize())
    }

    fn flush(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_displaced) {
            self.out.seek(SeekFrom::Start(self.written))?;
        }
        self.body.update(&self.buffer);
        self.out.write_all(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

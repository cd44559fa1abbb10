//! Writes the encoded form of a dataset in one pass.

use std::io::{self, Seek, SeekFrom, Write};

use crate::encoded::{
    DIGEST_BYTES, Facts, HEADER_BYTES, Header, NO_RCODE, PREFIX_BYTES, STRIDE, UNIT_BYTES, body_hash,
};
use crate::skipped::Skipped;

const BUFFER_BYTES: usize = 1 << 20;

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

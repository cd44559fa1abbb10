//! Records on their way from a master file to a compiled zone. Many of them share one piece of memory, so threads can
//! pass them on without an allocation for each.

use std::path::Path;
use std::sync::Arc;

/// A record of a zone. Its class is IN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its owner in wire form, uncompressed, 1 to 255 bytes, in the case of the file.
    pub owner: &'a [u8],
    /// Its type.
    pub rtype: u16,
    /// Its TTL in seconds.
    pub ttl_s: u32,
    /// Its data in wire form, with names uncompressed; at most 65,535 bytes.
    pub data: &'a [u8],
    /// The line of its file on which it begins, counted from 1.
    pub line: u32,
}

/// The bytes before a record's owner: line, TTL, type, length of the data, length of the owner.
const FIXED_BYTES: usize = 13;

/// Marks a TTL that is not known yet. A TTL has 31 bits (RFC 2181, section 8).
pub(crate) const TTL_OPEN: u32 = u32::MAX;

/// Records of one file, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    bytes: Vec<u8>,
    records: usize,
    last_line: u32,
    /// Lines that do not begin with their record, each with the column at which the record begins.
    indented: Vec<(u32, u32)>,
    file: Option<Arc<Path>>,
}

impl Batch {
    /// An empty batch with room for `bytes` bytes before it has to grow.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    /// Marks the records as read from a file that the zone's own file includes.
    pub(crate) fn included_from(self, file: Arc<Path>) -> Self {
        Self { file: Some(file), ..self }
    }

    /// The file of the records, if the zone's own file includes it; `None` for the zone's own file.
    pub fn file(&self) -> Option<&Arc<Path>> {
        self.file.as_ref()
    }

    /// The lines of the first and the last record; `None` without records.
    pub(crate) fn lines(&self) -> Option<(u32, u32)> {
        let (first, _) = self.at(0)?;
        Some((first.line, self.last_line))
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.records
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Appends a record. Returns false, and appends nothing, if its owner or data are too long for DNS.
    #[must_use]
    pub fn push(&mut self, record: &Record<'_>) -> bool {
        let (Ok(owner), Ok(data)) = (u8::try_from(record.owner.len()), u16::try_from(record.data.len()))
        else {
            return false;
        };
        self.bytes.extend_from_slice(&record.line.to_le_bytes());
        self.bytes.extend_from_slice(&record.ttl_s.to_le_bytes());
        self.bytes.extend_from_slice(&record.rtype.to_le_bytes());
        self.bytes.extend_from_slice(&data.to_le_bytes());
        self.bytes.push(owner);
        self.bytes.extend_from_slice(record.owner);
        self.bytes.extend_from_slice(record.data);
        self.records += 1;
        self.last_line = record.line;
        true
    }

    /// Records that the record on this line begins at this column, counted from 1. Other records begin at the first
    /// column.
    pub(crate) fn indent(&mut self, line: u32, column: u32) {
        self.indented.push((line, column));
    }

    /// Takes the lines that do not begin with their record, each with the column of the record.
    pub(crate) fn take_indented(&mut self) -> Vec<(u32, u32)> {
        std::mem::take(&mut self.indented)
    }

    /// The record at this position, which comes from [`Records`], and the position of the next.
    pub fn at(&self, position: usize) -> Option<(Record<'_>, usize)> {
        let (fixed, rest) = self.bytes.get(position..)?.split_first_chunk::<FIXED_BYTES>()?;
        let [l0, l1, l2, l3, s0, s1, s2, s3, t0, t1, d0, d1, owner_bytes] = *fixed;
        let (owner, rest) = rest.split_at_checked(usize::from(owner_bytes))?;
        let data = rest.get(..usize::from(u16::from_le_bytes([d0, d1])))?;
        let record = Record {
            owner,
            rtype: u16::from_le_bytes([t0, t1]),
            ttl_s: u32::from_le_bytes([s0, s1, s2, s3]),
            data,
            line: u32::from_le_bytes([l0, l1, l2, l3]),
        };
        Some((record, position + FIXED_BYTES + owner.len() + data.len()))
    }

    /// Gives this TTL to each record whose TTL is [`TTL_OPEN`].
    pub(crate) fn fill_ttl(&mut self, ttl_s: u32) {
        let mut position = 0;
        while let Some((record, next)) = self.at(position) {
            if record.ttl_s == TTL_OPEN {
                self.bytes[position + 4..position + 8].copy_from_slice(&ttl_s.to_le_bytes());
            }
            position = next;
        }
    }

    /// Adds `shift` to the line of each record, modulo 2^32.
    pub(crate) fn shift_lines(&mut self, shift: u32) {
        let mut position = 0;
        while let Some((record, next)) = self.at(position) {
            let line = record.line.wrapping_add(shift);
            self.bytes[position..position + 4].copy_from_slice(&line.to_le_bytes());
            position = next;
        }
        for (line, _) in &mut self.indented {
            *line = line.wrapping_add(shift);
        }
    }

    /// The records, each with its position.
    pub fn records(&self) -> Records<'_> {
        Records { batch: self, position: 0 }
    }
}

/// Iterates over a batch: each record's position, and the record.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    batch: &'a Batch,
    position: usize,
}

impl<'a> Iterator for Records<'a> {
    type Item = (usize, Record<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let position = self.position;
        let (record, next) = self.batch.at(position)?;
        self.position = next;
        Some((position, record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_as_they_went_in() {
        let record = |line, data| Record { owner: b"\x03WwW\0", rtype: 1, ttl_s: 3600, data, line };
        let longest = vec![7; 65_535];
        let all = [record(1, &b"\x0a\0\0\x01"[..]), record(70_000, &b""[..]), record(3, &longest[..])];
        let mut batch = Batch::default();
        assert!(batch.is_empty());
        assert!(all.iter().all(|record| batch.push(record)));
        assert_eq!(batch.len(), 3);
        assert_eq!(batch.records().map(|(_, record)| record).collect::<Vec<_>>(), all);
        let (position, last) = batch.records().last().expect("three records");
        assert_eq!(batch.at(position).expect("a record").0, last);
    }

    #[test]
    fn what_is_too_long_stays_out() {
        let mut batch = Batch::default();
        let long = vec![0; 65_536];
        assert!(!batch.push(&Record { owner: b"\0", rtype: 1, ttl_s: 0, data: &long, line: 1 }));
        assert!(!batch.push(&Record { owner: &long[..256], rtype: 1, ttl_s: 0, data: b"", line: 1 }));
        assert!(batch.is_empty());
    }
}

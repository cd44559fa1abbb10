//! Writes records after the question: whole RRsets or none of their records.

use kqps_message::header::HEADER_BYTES;

use crate::respond::compress::{Names, PLACE_MAX};
use crate::respond::shape;
use crate::zone::node::{self, QUESTION_POINTER, RECORD_BYTES, Rrset};

/// There is no room for the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The sections of a reply, apart from the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // they are those of RFC 1035, section 4.1
pub enum Section {
    Answer,
    Authority,
    Additional,
}

/// The owner of the records.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Owner<'n> {
    /// The name at this position of the message, up to [`PLACE_MAX`].
    At(u16),
    /// This name, in wire form.
    Named(&'n [u8]),
}

impl<'n> Owner<'n> {
    /// The owner `name`, whose position in the message is `at`. The root is shorter than a pointer, so it is
    /// always written.
    pub(crate) fn new(name: &'n [u8], at: Option<usize>) -> Self {
        match at {
            Some(at) if at <= PLACE_MAX && name.len() > 1 => {
                Self::At(u16::try_from(at).expect("a pointer has 14 bits"))
            }
            _ => Self::Named(name),
        }
    }
}

/// A reply that is being written.
#[derive(Debug)]
pub(crate) struct Writer<'b> {
    buffer: &'b mut [u8],
    names: &'b mut Names,
    at: usize,
    limit: usize,
    counts: [u16; 3],
    section: Section,
    /// The position of the last record's data.
    data_at: usize,
}

/// A state to return to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    at: usize,
    counts: [u16; 3],
    known: usize,
}

impl<'b> Writer<'b> {
    /// Writes from `at` up to `limit`, which must be within the buffer. Names that `names` knows stand before
    /// `at`.
    pub(crate) fn new(buffer: &'b mut [u8], names: &'b mut Names, at: usize, limit: usize) -> Self {
        Self { buffer, names, at, limit, counts: [0; 3], section: Section::Answer, data_at: at }
    }

    /// Continues in another section.
    pub(crate) fn section(&mut self, section: Section) {
        self.section = section;
    }

    /// The current state.
    pub(crate) fn mark(&self) -> Mark {
        Mark { at: self.at, counts: self.counts, known: self.names.known() }
    }

    /// Returns to a state, and forgets everything written since.
    pub(crate) fn back_to(&mut self, mark: Mark) {
        self.at = mark.at;
        self.counts = mark.counts;
        self.names.forget(mark.known);
    }

    /// The position of the last record's data.
    pub(crate) fn data_at(&self) -> usize {
        self.data_at
    }

    /// Writes an RRset, with its signatures if wanted, or nothing.
    #[inline]
    pub(crate) fn rrset(
        &mut self,
        owner: Owner<'_>,
        rrset: &Rrset<'_>,
        ttl_s: Option<u32>,
        with_signatures: bool,
    ) -> Result<(), Full> {
        let mark = self.mark();
        let mut owner = owner;
        let mut written = self.records(&mut owner, rrset.records, rrset.count, rrset.rtype, ttl_s);
        if with_signatures && written.is_ok() && rrset.signature_count > 0 {
            // Signatures have no names that could be compressed.
            let data_at = self.data_at;
            written = self.records(&mut owner, rrset.signatures, rrset.signature_count, 0, ttl_s);
            self.data_at = data_at;
        }
        if written.is_err() {
            self.back_to(mark);
        }
        written
    }

    /// Writes only the signatures of an RRset.
    pub(crate) fn signatures(&mut self, owner: &mut Owner<'_>, rrset: &Rrset<'_>) -> Result<(), Full> {
        self.records(owner, rrset.signatures, rrset.signature_count, 0, None)
    }

    /// Writes records of one type. Sets `owner` to a pointer, which the next records with the same owner can
    /// use.
    #[inline]
    fn records(
        &mut self,
        owner: &mut Owner<'_>,
        records: &[u8],
        count: u16,
        rtype: u16,
        ttl_s: Option<u32>,
    ) -> Result<(), Full> {
        let shape = shape::compressible(rtype);
        match owner {
            Owner::At(place) if shape.is_none() && ttl_s.is_none() => {
                let end = self.at + records.len();
                if end > self.limit {
                    return Err(Full);
                }
                self.buffer[self.at..end].copy_from_slice(records);
                self.data_at = self.at + RECORD_BYTES;
                if usize::from(*place) != HEADER_BYTES {
                    let pointer = (0xc000 | *place).to_be_bytes();
                    let mut at = self.at;
                    for record in node::records(records) {
                        self.buffer[at..at + 2].copy_from_slice(&pointer);
                        at += record.len();
                    }
                }
                self.at = end;
            }
            _ => {
                for record in node::records(records) {
                    self.one(owner, record, shape, ttl_s)?;
                }
            }
        }
        let total = &mut self.counts[self.section as usize];
        *total = total.checked_add(count).ok_or(Full)?;
        Ok(())
    }

    /// Writes a record and counts it, or writes nothing.
    pub(crate) fn record(&mut self, owner: &[u8], rtype: u16, record: &[u8]) -> Result<(), Full> {
        let mark = self.mark();
        self.counts[self.section as usize] += 1;
        let written = self.one(&mut Owner::Named(owner), record, shape::compressible(rtype), None);
        if written.is_err() {
            self.back_to(mark);
        }
        written
    }

    /// Writes a record that is not in the zone: an alias that follows from a DNAME record.
    pub(crate) fn alias(&mut self, owner: Owner<'_>, ttl_s: u32, target: &[u8]) -> Result<(), Full> {
        let mut record = [0; RECORD_BYTES + 255];
        record[..2].copy_from_slice(&QUESTION_POINTER);
        record[2..4].copy_from_slice(&kqps_message::rtype::CNAME.to_be_bytes());
        record[4..6].copy_from_slice(&kqps_message::query::CLASS_IN.to_be_bytes());
        record[6..10].copy_from_slice(&ttl_s.to_be_bytes());
        record[11] = u8::try_from(target.len()).expect("a name has 255 bytes at most");
        let record = &mut record[..RECORD_BYTES + target.len()];
        record[RECORD_BYTES..].copy_from_slice(target);
        let mark = self.mark();
        let mut owner = owner;
        let written = self.records(&mut owner, record, 1, kqps_message::rtype::CNAME, None);
        if written.is_err() {
            self.back_to(mark);
        }
        written
    }

    fn one(
        &mut self,
        owner: &mut Owner<'_>,
        record: &[u8],
        shape: Option<(usize, usize)>,
        ttl_s: Option<u32>,
    ) -> Result<(), Full> {
        let start = self.at;
        match *owner {
            Owner::At(place) => self.bytes(&(0xc000 | place).to_be_bytes())?,
            Owner::Named(name) => {
                self.name(name)?;
                *owner = Owner::new(name, Some(start));
            }
        }
        let fixed_at = self.at;
        self.bytes(&record[2..RECORD_BYTES])?;
        if let Some(ttl_s) = ttl_s {
            self.buffer[fixed_at + 4..fixed_at + 8].copy_from_slice(&ttl_s.to_be_bytes());
        }
        self.data_at = self.at;
        let data = &record[RECORD_BYTES..];
        let Some(shape) = shape else { return self.bytes(data) };
        self.data(data, shape)?;
        let [.., high, low] = (self.at - self.data_at).to_be_bytes();
        self.buffer[self.data_at - 2..self.data_at].copy_from_slice(&[high, low]);
        Ok(())
    }

    /// Writes data with their names compressed. Data that are not valid for their type are written unchanged.
    fn data(&mut self, data: &[u8], (before, names): (usize, usize)) -> Result<(), Full> {
        let mut end = before;
        for _ in 0..names {
            match kqps_message::name::end(data, end) {
                // A name of a zone has no pointers. The last byte is the root's.
                Some(next) if data[next - 1] == 0 => end = next,
                _ => return self.bytes(data),
            }
        }
        self.bytes(&data[..before])?;
        let mut at = before;
        for _ in 0..names {
            self.name(&data[at..])?;
            at = kqps_message::name::end(data, at).unwrap_or(end);
        }
        self.bytes(&data[end..])
    }

    fn name(&mut self, name: &[u8]) -> Result<(), Full> {
        self.at = self.names.put(self.buffer, self.at, self.limit, name).ok_or(Full)?;
        Ok(())
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let end = self.at + bytes.len();
        if end > self.limit {
            return Err(Full);
        }
        self.buffer[self.at..end].copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }

    /// Ends the message. What follows may go up to the limit of the message. Returns the bytes written and the
    /// counts of the sections.
    pub(crate) fn end(self) -> (usize, [u16; 3]) {
        (self.at, self.counts)
    }
}

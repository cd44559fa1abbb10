//! Writes records behind a question: names with pointers to those before them, and one TTL for each RRset.

use kqps_message::header::HEADER_BYTES;
use kqps_message::question::QUESTION_TAIL_BYTES;
use kqps_message::record::Record;
use kqps_message::{canonical, rtype};

use crate::answered::Why;
use crate::compose::sections::covered;
use crate::compose::suffixes::Suffixes;

/// The longest message in bytes.
const MESSAGE_BYTES_MOST: usize = 65_535;

/// The records of an RRset mostly follow one another. Only so many RRsets before a record are compared with it.
const SETS_BACK: usize = 16;

pub(crate) struct Writer {
    records: Vec<u8>,
    /// The end of the question, where the records begin in a message.
    begin: usize,
    suffixes: Suffixes,
    ttl_places: Vec<u16>,
    /// The RRset of each record.
    set_of: Vec<usize>,
    sets: Vec<Set>,
}

/// An RRset, with the lowest TTL of its records (RFC 2181, section 5.2). Its signatures belong to it: they have the
/// same TTL (RFC 4034, section 3).
struct Set {
    owner_place: usize,
    rtype: u16,
    ttl_s: u32,
}

impl Writer {
    /// Writes behind a question with this name.
    pub(crate) fn new(name: &[u8]) -> Self {
        let mut suffixes = Suffixes::default();
        suffixes.add(name, name.len(), HEADER_BYTES);
        Self {
            records: Vec::new(),
            begin: HEADER_BYTES + name.len() + QUESTION_TAIL_BYTES,
            suffixes,
            ttl_places: Vec::new(),
            set_of: Vec::new(),
            sets: Vec::new(),
        }
    }

    /// Writes a record of the reply with this owner and TTL.
    pub(crate) fn record(
        &mut self,
        reply: &[u8],
        owner: &[u8],
        record: &Record<'_>,
        ttl_s: u32,
    ) -> Result<(), Why> {
        self.write(owner, record.rtype, record.class, covered(record), ttl_s, |writer| {
            writer.data(reply, record)
        })
    }

    /// Writes the alias of a name.
    pub(crate) fn alias(&mut self, owner: &[u8], class: u16, target: &[u8], ttl_s: u32) -> Result<(), Why> {
        self.write(owner, rtype::CNAME, class, rtype::CNAME, ttl_s, |writer| {
            writer.name(target);
            Some(())
        })
    }

    /// Writes a record that belongs to the RRset of the type `of`, with what `data` writes, which is `None` if the data
    /// are malformed.
    fn write(
        &mut self,
        owner: &[u8],
        rtype: u16,
        class: u16,
        of: u16,
        ttl_s: u32,
        data: impl FnOnce(&mut Self) -> Option<()>,
    ) -> Result<(), Why> {
        let owner_place = self.name(owner);
        self.records.extend(rtype.to_be_bytes());
        self.records.extend(class.to_be_bytes());
        self.ttl_places.push(u16::try_from(self.records.len()).map_err(|_| Why::TooBig)?);
        // The TTL and the length of the data follow.
        self.records.extend([0; 6]);
        let data_at = self.records.len();
        data(self).ok_or(Why::Malformed)?;
        if self.begin + self.records.len() > MESSAGE_BYTES_MOST {
            return Err(Why::TooBig);
        }
        let data_bytes = u16::try_from(self.records.len() - data_at).expect("data are a part of a message");
        self.records[data_at - 2..data_at].copy_from_slice(&data_bytes.to_be_bytes());
        self.join(owner_place, of, ttl_s);
        Ok(())
    }

    /// Writes the data of a record, with the names in it as its type allows (RFC 3597, section 4). `None` if they are
    /// malformed.
    fn data(&mut self, reply: &[u8], record: &Record<'_>) -> Option<()> {
        let (before, names) = canonical::names_in(record)?;
        self.records.extend_from_slice(record.data.get(..before)?);
        let mut at = record.end - record.data.len() + before;
        let mut name = Vec::new();
        for _ in 0..names {
            name.clear();
            at = canonical::expand_name(reply, at, &mut name)?;
            if is_compressible(record.rtype) {
                self.name(&name);
            } else {
                self.records.extend_from_slice(&name);
            }
        }
        self.records.extend_from_slice(reply.get(at..record.end)?);
        Some(())
    }

    /// Writes a name. Returns the position in the message at which the name is to be found from now on.
    fn name(&mut self, name: &[u8]) -> usize {
        let place = self.begin + self.records.len();
        let mut at = 0;
        while name[at] != 0 {
            if let Some(target) = self.suffixes.find(&name[at..]) {
                self.records.extend_from_slice(&name[..at]);
                self.records.extend((0xc000 | target).to_be_bytes());
                self.suffixes.add(name, at, place);
                return if at == 0 { usize::from(target) } else { place };
            }
            at += 1 + usize::from(name[at]);
        }
        self.records.extend_from_slice(name);
        self.suffixes.add(name, name.len(), place);
        place
    }

    /// Adds the last record to its RRset.
    fn join(&mut self, owner_place: usize, rtype: u16, ttl_s: u32) {
        let back = self.sets.len().saturating_sub(SETS_BACK);
        let is_it = |set: &Set| set.owner_place == owner_place && set.rtype == rtype;
        let found = self.sets[back..].iter().position(is_it).map(|position| back + position);
        let set = found.unwrap_or_else(|| {
            self.sets.push(Set { owner_place, rtype, ttl_s });
            self.sets.len() - 1
        });
        self.sets[set].ttl_s = self.sets[set].ttl_s.min(ttl_s);
        self.set_of.push(set);
    }

    /// Writes the TTLs. Returns the lowest one, the positions of all, and the records.
    pub(crate) fn finish(mut self) -> (u32, Vec<u16>, Vec<u8>) {
        for (place, set) in self.ttl_places.iter().zip(&self.set_of) {
            let at = usize::from(*place);
            self.records[at..at + 4].copy_from_slice(&self.sets[*set].ttl_s.to_be_bytes());
        }
        let lowest_s = self.sets.iter().map(|set| set.ttl_s).min().unwrap_or(0);
        (lowest_s, self.ttl_places, self.records)
    }
}

/// Whether names in the data of this type may be pointers: NS, MD, MF, CNAME, SOA, MB, MG, MR, PTR, MINFO and MX of RFC
/// 1035. Names in later types must not be (RFC 3597, section 4).
fn is_compressible(rtype: u16) -> bool {
    matches!(rtype, 2..=9 | 12 | 14 | 15)
}

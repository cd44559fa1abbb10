//! Writes records after the question: whole RRsets or none of their records.

use kqps_message::query::CLASS_IN;
use kqps_message::rtype;
use kqps_zone::{Full, Names, PLACE_MAX, Section};

use crate::rrset::Rrset;

/// A reply that is being written.
#[derive(Debug)]
pub(crate) struct Writer<'b> {
    message: &'b mut [u8],
    names: &'b mut Names,
    pub(crate) at: usize,
    limit: usize,
    pub(crate) counts: [u16; 3],
    /// The position of the data of the first address among the answers, for a fault that changes them.
    pub(crate) answer_at: Option<usize>,
}

impl<'b> Writer<'b> {
    /// Writes from `at` up to `limit`, which must be within the message.
    pub(crate) fn new(message: &'b mut [u8], names: &'b mut Names, at: usize, limit: usize) -> Self {
        Self { message, names, at, limit, counts: [0; 3], answer_at: None }
    }

    /// Writes a set, with another owner if one is given, or nothing.
    #[inline]
    pub(crate) fn rrset(&mut self, section: Section, set: &Rrset, owner: Option<&[u8]>) -> Result<(), Full> {
        let (at, known) = (self.at, self.names.known());
        let owner = owner.unwrap_or(&set.owner);
        let mut count = 0;
        let mut pointer = None;
        for data in set.iter() {
            if self.record(set, owner, &mut pointer, data).is_err() {
                self.at = at;
                self.names.forget(known);
                return Err(Full);
            }
            if section == Section::Answer && matches!(set.rtype, rtype::A | rtype::AAAA) {
                self.answer_at.get_or_insert(self.at - data.len());
            }
            count += 1;
        }
        self.counts[section as usize] += count;
        Ok(())
    }

    fn record(
        &mut self,
        set: &Rrset,
        owner: &[u8],
        pointer: &mut Option<[u8; 2]>,
        data: &[u8],
    ) -> Result<(), Full> {
        if let Some(pointer) = pointer {
            self.bytes(&*pointer)?;
        } else {
            let start = self.at;
            self.name(owner)?;
            if owner.len() > 1 && start <= PLACE_MAX {
                let place = u16::try_from(start).expect("a pointer has 14 bits");
                *pointer = Some((0xc000 | place).to_be_bytes());
            }
        }
        let ([t0, t1], [c0, c1]) = (set.rtype.to_be_bytes(), CLASS_IN.to_be_bytes());
        let [s0, s1, s2, s3] = set.ttl_s.to_be_bytes();
        let [.., l0, l1] = data.len().to_be_bytes();
        self.bytes(&[t0, t1, c0, c1, s0, s1, s2, s3, l0, l1])?;
        let data_at = self.at;
        // The position of the first name in the data, and the number of names (RFC 3597, section 4).
        let (before, names) = match set.rtype {
            rtype::NS | rtype::CNAME => (0, 1),
            rtype::SOA => (0, 2),
            rtype::MX => (2, 1),
            _ => return self.bytes(data),
        };
        self.bytes(&data[..before])?;
        let mut from = before;
        for _ in 0..names {
            self.name(&data[from..])?;
            from = kqps_message::name::end(data, from).unwrap_or(data.len());
        }
        self.bytes(&data[from..])?;
        let [.., l0, l1] = (self.at - data_at).to_be_bytes();
        self.message[data_at - 2..data_at].copy_from_slice(&[l0, l1]);
        Ok(())
    }

    fn name(&mut self, name: &[u8]) -> Result<(), Full> {
        self.at = self.names.put(self.message, self.at, self.limit, name).ok_or(Full)?;
        Ok(())
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Full> {
        let end = self.at + bytes.len();
        if end > self.limit {
            return Err(Full);
        }
        self.message[self.at..end].copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }
}

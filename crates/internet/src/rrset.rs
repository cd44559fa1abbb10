//! An RRset: records of one type at one name.

/// A set of records, with room to become another one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rrset {
    /// In wire form.
    pub(crate) owner: Vec<u8>,
    pub(crate) rtype: u16,
    pub(crate) ttl_s: u32,
    data: Vec<u8>,
    /// Where the data of each record end.
    ends: Vec<usize>,
}

impl Rrset {
    /// Becomes a set without records and without an owner.
    pub(crate) fn begin(&mut self, rtype: u16, ttl_s: u32) {
        (self.rtype, self.ttl_s) = (rtype, ttl_s);
        self.owner.clear();
        self.data.clear();
        self.ends.clear();
    }

    /// Adds a record, whose data is appended to the buffer.
    pub(crate) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.data);
        self.ends.push(self.data.len());
    }

    /// The data of each record.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let data = &self.data[start..end];
            start = end;
            data
        })
    }
}

/// A few types in ascending order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Types {
    types: [u16; 14],
    count: usize,
}

impl Types {
    /// Adds a type above those that are there.
    pub(crate) fn push(&mut self, rtype: u16) {
        self.types[self.count] = rtype;
        self.count += 1;
    }

    pub(crate) fn push_if(&mut self, is_there: bool, rtype: u16) {
        if is_there {
            self.push(rtype);
        }
    }

    pub(crate) fn as_slice(&self) -> &[u16] {
        &self.types[..self.count]
    }

    pub(crate) fn has(&self, rtype: u16) -> bool {
        self.as_slice().contains(&rtype)
    }
}

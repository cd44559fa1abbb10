//! Results of long computations, in bounded memory, for all threads. A result that is not kept is computed again, and is the
//! same.

use std::sync::Mutex;

/// Parts with a lock each, of which a thread takes none that another thread holds.
const PARTS: usize = 64;

type Slot = Option<(u128, Box<[u8]>)>;

/// Results by key.
#[derive(Debug)]
pub(crate) struct Cache {
    parts: Box<[Mutex<Box<[Slot]>>]>,
}

impl Cache {
    /// Room for about `results` results. A newer one takes the place of an older one.
    pub(crate) fn new(results: usize) -> Self {
        let slots = results.div_ceil(PARTS).max(1);
        Self { parts: (0..PARTS).map(|_| Mutex::new(vec![None; slots].into())).collect() }
    }

    fn place(&self, key: u128) -> (&Mutex<Box<[Slot]>>, usize) {
        let bits = (key >> 64) as u64;
        (&self.parts[bits as usize % PARTS], (bits >> 8) as usize)
    }

    /// Appends the result of a key to a buffer. Returns whether it was there. It may also be missed while another thread uses
    /// its part.
    pub(crate) fn get(&self, key: u128, out: &mut Vec<u8>) -> bool {
        let (part, place) = self.place(key);
        let Ok(slots) = part.try_lock() else { return false };
        match &slots[place % slots.len()] {
            Some((known, result)) if *known == key => {
                out.extend_from_slice(result);
                true
            }
            _ => false,
        }
    }

    /// Keeps a result, unless another thread uses its part.
    pub(crate) fn put(&self, key: u128, result: &[u8]) {
        let (part, place) = self.place(key);
        if let Ok(mut slots) = part.try_lock() {
            let count = slots.len();
            slots[place % count] = Some((key, result.into()));
        }
    }
}

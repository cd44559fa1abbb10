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

    /// Reads the result of a key. `None` if it is not there, or if another thread uses its part.
    pub(crate) fn get<T>(&self, key: u128, read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let (part, place) = self.place(key);
        let slots = part.try_lock().ok()?;
        match &slots[place % slots.len()] {
            Some((known, result)) if *known == key => Some(read(result)),
            _ => None,
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

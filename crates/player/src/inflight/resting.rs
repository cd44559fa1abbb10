//! A set of IDs as bits, with room for those up to the greatest that it has held.

#[derive(Debug, Default)]
pub(super) struct Resting {
    words: Vec<u64>,
    count: usize,
}

/// The word of an ID, and its bit there.
fn place(id: u16) -> (usize, u64) {
    (usize::from(id / 64), 1 << (id % 64))
}

impl Resting {
    /// The number of IDs.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    #[inline]
    pub(super) fn has(&self, id: u16) -> bool {
        let (word, bit) = place(id);
        self.words.get(word).is_some_and(|bits| bits & bit != 0)
    }

    pub(super) fn add(&mut self, id: u16) {
        let (word, bit) = place(id);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.count += usize::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    /// Removes an ID. Returns whether it was there.
    pub(super) fn remove(&mut self, id: u16) -> bool {
        let has = self.has(id);
        if has {
            let (word, bit) = place(id);
            self.words[word] &= !bit;
            self.count -= 1;
        }
        has
    }

    pub(super) fn clear(&mut self) {
        self.words.clear();
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_there_once_until_it_is_removed() {
        let mut resting = Resting::default();
        assert!(!resting.has(u16::MAX) && !resting.remove(0));
        for id in [0, 63, 64, 64, u16::MAX] {
            resting.add(id);
        }
        assert_eq!(
            ([0, 1, 63, 64, 65].map(|id| resting.has(id)), resting.len()),
            ([true, false, true, true, false], 4)
        );
        assert!(resting.remove(64) && !resting.remove(64) && resting.has(u16::MAX));
        assert_eq!(resting.len(), 3);
        resting.clear();
        assert!(!resting.has(0) && resting.len() == 0);
    }
}

//! Random labels before the name of a query. They follow from the time at which the query was due and its key, so
//! nothing of them is kept until the reply comes.

use kqps_dataset::Query;
use kqps_message::HEADER_BYTES;

use crate::plan::Prefix;

const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";

/// Maker of the labels of each query.
#[derive(Clone, Debug)]
pub(crate) struct Labels {
    prefix: Prefix,
    seed: u64,
}

impl Labels {
    /// Labels of this kind, which depend on `seed`.
    pub(super) fn new(prefix: Prefix, seed: u64) -> Self {
        Self { prefix, seed }
    }

    /// Writes the labels of the query that was due at `due_ns` and has this key. The dataset has room for them at the
    /// beginning of its name.
    pub(super) fn write(&self, due_ns: u64, key: u64, message: &mut [u8]) {
        let Some(name) = message.get_mut(HEADER_BYTES..) else { return };
        // Odd factors, so that queries with one time or one key have different seeds.
        let seed = self.seed
            ^ due_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ key.wrapping_add(1).wrapping_mul(0xd1b5_4a32_d192_ed03);
        let mut random = fastrand::Rng::with_seed(seed);
        match self.prefix {
            Prefix::Label { bytes, labels } => {
                let length = usize::from(bytes);
                for label in name.chunks_exact_mut(length + 1).take(labels.into()) {
                    label[1..].fill_with(|| LETTERS[random.usize(..LETTERS.len())]);
                }
            }
            Prefix::Bytes { bytes } => {
                if let Some(label) = name.get_mut(1..=usize::from(bytes)) {
                    random.fill(label);
                }
            }
            Prefix::Number { low, high } => {
                let mut number = random.u64(low..=high);
                let digits = self.prefix.lengths()[0];
                let Some(label) = name.get_mut(1..=usize::from(digits)) else { return };
                for digit in label.iter_mut().rev() {
                    *digit = b'0' + (number % 10) as u8;
                    number /= 10;
                }
            }
        }
    }

    /// The query that was sent, made again in `asked`.
    pub(crate) fn sent<'m>(
        &self,
        query: &Query<'_>,
        due_ns: u64,
        key: u64,
        asked: &'m mut Vec<u8>,
    ) -> Query<'m> {
        asked.clear();
        asked.extend_from_slice(query.message);
        self.write(due_ns, key, asked);
        let &Query { question_bytes, expected_rcode, expected_answer, .. } = query;
        Query { message: asked, question_bytes, expected_rcode, expected_answer }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The name of a query with labels of these lengths before `a`.
    fn written(prefix: &str, due_ns: u64, key: u64) -> Vec<u8> {
        let prefix: Prefix = prefix.parse().unwrap();
        let mut message = vec![0; HEADER_BYTES];
        for length in prefix.lengths() {
            message.push(length);
            message.resize(message.len() + usize::from(length), b'x');
        }
        message.extend_from_slice(b"\x01a\0\0\x01\0\x01");
        Labels::new(prefix, 1).write(due_ns, key, &mut message);
        message.split_off(HEADER_BYTES)
    }

    #[test]
    fn labels_keep_their_lengths_and_the_rest_of_the_query() {
        for due_ns in 0..100 {
            let name = written("label:5x2", due_ns, 7);
            assert_eq!((name[0], name[6], &name[12..]), (5, 5, &b"\x01a\0\0\x01\0\x01"[..]));
            assert!(name[1..6].iter().chain(&name[7..12]).all(|letter| LETTERS.contains(letter)));
            let number = written("number:95-105", due_ns, 7);
            let digits: u64 = String::from_utf8(number[1..4].to_vec()).unwrap().parse().unwrap();
            assert!((95..=105).contains(&digits) && number[0] == 3 && number[4..] == name[12..]);
            assert_eq!(written("bytes:20", due_ns, 7)[21..], name[12..]);
        }
    }

    #[test]
    fn each_query_has_labels_of_its_own_and_has_them_again() {
        let all: BTreeSet<Vec<u8>> =
            (0..100).flat_map(|due_ns| (0..100).map(move |key| written("label:10", due_ns, key))).collect();
        assert_eq!(all.len(), 10_000);
        assert_eq!(written("label", 5, 6), written("label:10", 5, 6));
        let numbers: BTreeSet<Vec<u8>> = (0..1000).map(|key| written("number:0-9", 3, key)).collect();
        assert_eq!(numbers.len(), 10, "every number comes");
    }
}

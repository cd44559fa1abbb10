//! The labels of generated names: letters that can be spoken, and the record's number, which makes each label
//! different from all others.

use super::GenerateError;
use super::draw::Stream;

/// How long a generated label is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LabelBytes {
    /// As different as those of hosts are: 2 to 18 letters before the number, 7 on average.
    #[default]
    Spread,
    /// All of this length, 63 at most.
    Fixed(u8),
}

/// How many letters stand before the number; each entry is as likely.
const SPREAD: [u8; 16] = [2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 8, 9, 10, 12, 14, 18];
const CONSONANTS: &[u8; 16] = b"bcdfghklmnprstvz";
const VOWELS: &[u8; 4] = b"aeio";

impl LabelBytes {
    /// The length of the longest label for numbers below `number_end`.
    pub(super) fn longest(self, number_end: u64) -> Result<usize, GenerateError> {
        let digits = (number_end - 1).checked_ilog10().unwrap_or(0) as u8 + 1;
        match self {
            Self::Spread => Ok(usize::from(SPREAD[SPREAD.len() - 1] + digits)),
            // One letter at least: a label of digits alone would look like an address.
            Self::Fixed(found) if (digits + 1..=63).contains(&found) => Ok(usize::from(found)),
            Self::Fixed(found) => Err(GenerateError::LabelBytes { found, least: digits + 1 }),
        }
    }
}

/// Writes the label of `number` in place of what `label` holds. The digits at its end are the number, and
/// nothing before them is a digit, so that no two numbers share a label.
pub(super) fn write(seed: u64, number: u64, length: LabelBytes, label: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    let mut rest = number;
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let mut stream = Stream::of(seed, number);
    let spread = SPREAD[stream.below(SPREAD.len() as u64) as usize];
    let letters = match length {
        LabelBytes::Spread => usize::from(spread),
        LabelBytes::Fixed(bytes) => usize::from(bytes).saturating_sub(digits.len() - first),
    };
    label.clear();
    let mut random = 0;
    for at in 0..letters {
        // A number has bits for ten syllables.
        if at % 20 == 0 {
            random = stream.next();
        }
        if at % 2 == 0 {
            label.push(CONSONANTS[(random & 15) as usize]);
            random >>= 4;
        } else {
            label.push(VOWELS[(random & 3) as usize]);
            random >>= 2;
        }
    }
    label.extend_from_slice(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn label(seed: u64, number: u64, length: LabelBytes) -> String {
        let mut label = Vec::new();
        write(seed, number, length, &mut label);
        String::from_utf8(label).unwrap()
    }

    #[test]
    fn labels_differ_and_have_the_length_that_was_asked_for() {
        for length in [LabelBytes::Spread, LabelBytes::Fixed(12)] {
            let longest = length.longest(20_000).unwrap();
            let labels: HashSet<String> = (0..20_000).map(|number| label(1, number, length)).collect();
            assert_eq!(labels.len(), 20_000);
            assert_eq!(labels.iter().map(String::len).max(), Some(longest));
            let shortest = labels.iter().map(String::len).min().unwrap();
            assert!(if length == LabelBytes::Spread { shortest <= 4 } else { shortest == 12 });
        }
    }

    #[test]
    fn another_seed_gives_other_labels() {
        let same = (0..1000).filter(|&number| {
            label(1, number, LabelBytes::Fixed(12)) == label(2, number, LabelBytes::Fixed(12))
        });
        assert_eq!(same.count(), 0);
    }

    #[test]
    fn a_fixed_length_must_hold_a_letter_and_the_number() {
        assert_eq!(LabelBytes::Fixed(6).longest(20_000).unwrap(), 6);
        assert!(LabelBytes::Fixed(5).longest(20_000).is_err());
        assert!(LabelBytes::Fixed(64).longest(20_000).is_err());
        assert_eq!(LabelBytes::Fixed(2).longest(2).unwrap(), 2);
    }
}

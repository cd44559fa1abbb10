//! The labels of generated names: pronounceable letters, and the record's number, which makes each label unique.

use serde::Deserialize;

use super::draw::Stream;
use super::recipe::RecipeFault;

/// The form of generated names.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Labels {
    /// The length of every name's first label, at most 63. With `None`, lengths vary like those of host names: 2 to
    /// 18 letters before the number, 7 on average.
    pub label_bytes: Option<u8>,
    /// The letters of a label.
    pub shape: Shape,
    /// Weights of names with 1, 2, 3 and more labels below the zone; if empty, all have 1.
    pub depth: Vec<f64>,
}

/// The letters of labels before the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Pronounceable syllables.
    #[default]
    Spoken,
    /// Any letters, as in the names of machines.
    Random,
}

/// Lengths of the letters before the number. Each entry is equally likely.
const SPREAD: [u8; 16] = [2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 8, 9, 10, 12, 14, 18];
const CONSONANTS: &[u8; 16] = b"bcdfghklmnprstvz";
const VOWELS: &[u8; 4] = b"aeio";
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyzaeinrt";

impl Labels {
    /// The length of the longest label for numbers below `number_end`.
    pub(super) fn longest(&self, number_end: u64) -> Result<usize, RecipeFault> {
        let digits = (number_end - 1).checked_ilog10().unwrap_or(0) + 1;
        let digits = u8::try_from(digits).expect("a number has 20 digits at most");
        match self.label_bytes {
            None => Ok(usize::from(SPREAD[SPREAD.len() - 1] + digits)),
            // At least one letter, since a label of digits alone would look like an address.
            Some(found) if (digits + 1..=63).contains(&found) => Ok(usize::from(found)),
            Some(found) => Err(RecipeFault::LabelBytes { found, least: digits + 1 }),
        }
    }

    /// Appends the label of `number`. The digits at its end are the number, and nothing before them is a digit, so
    /// no two numbers share a label.
    #[inline]
    pub fn append(&self, seed: u64, number: u64, out: &mut Vec<u8>) {
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        let mut stream = Stream::with_number(seed, number);
        let spread = SPREAD[stream.below(SPREAD.len() as u64) as usize];
        let letters = match self.label_bytes {
            None => usize::from(spread),
            Some(bytes) => usize::from(bytes).saturating_sub(digits),
        };
        match self.shape {
            Shape::Spoken => syllables(&mut stream, letters, out),
            Shape::Random => append_letters(&mut stream, letters, out),
        }
        append_decimal(number, out);
    }
}

fn syllables(stream: &mut Stream, letters: usize, out: &mut Vec<u8>) {
    let mut random = 0;
    for at in 0..letters {
        // A random number has bits for ten syllables.
        if at % 20 == 0 {
            random = stream.next();
        }
        if at % 2 == 0 {
            out.push(CONSONANTS[(random & 15) as usize]);
            random >>= 4;
        } else {
            out.push(VOWELS[(random & 3) as usize]);
            random >>= 2;
        }
    }
}

/// Appends `letters` random letters.
pub fn append_letters(stream: &mut Stream, letters: usize, out: &mut Vec<u8>) {
    let mut random = 0;
    for at in 0..letters {
        // A random number has bits for twelve letters.
        if at % 12 == 0 {
            random = stream.next();
        }
        out.push(LETTERS[(random & 31) as usize]);
        random >>= 5;
    }
}

/// Appends a number in decimal digits.
#[inline]
pub fn append_decimal(number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut first = digits.len();
    let mut rest = number;
    loop {
        first -= 1;
        digits[first] = b'0' + (rest % 10).to_le_bytes()[0];
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[first..]);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn label(seed: u64, number: u64, labels: &Labels) -> String {
        let mut label = Vec::new();
        labels.append(seed, number, &mut label);
        String::from_utf8(label).unwrap()
    }

    fn fixed(bytes: u8) -> Labels {
        Labels { label_bytes: Some(bytes), ..Labels::default() }
    }

    #[test]
    fn labels_differ_and_have_the_length_that_was_asked_for() {
        let random = Labels { shape: Shape::Random, ..Labels::default() };
        for labels in [Labels::default(), fixed(12), random] {
            let longest = labels.longest(20_000).unwrap();
            let all: HashSet<String> = (0..20_000).map(|number| label(1, number, &labels)).collect();
            assert_eq!(all.len(), 20_000);
            assert_eq!(all.iter().map(String::len).max(), Some(longest));
            let shortest = all.iter().map(String::len).min().unwrap();
            assert!(if labels.label_bytes.is_none() { shortest <= 4 } else { shortest == 12 });
        }
    }

    #[test]
    fn another_seed_gives_other_labels() {
        let same = (0..1000).filter(|&number| label(1, number, &fixed(12)) == label(2, number, &fixed(12)));
        assert_eq!(same.count(), 0);
    }

    #[test]
    fn a_fixed_length_must_hold_a_letter_and_the_number() {
        assert_eq!(fixed(6).longest(20_000).unwrap(), 6);
        assert!(fixed(5).longest(20_000).is_err());
        assert!(fixed(64).longest(20_000).is_err());
        assert_eq!(fixed(2).longest(2).unwrap(), 2);
    }
}

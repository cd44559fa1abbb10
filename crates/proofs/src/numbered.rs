//! Queries with a number. The first label of their names is `q` and eight digits, and their ID is the end of the number.

use kqps_message::{query, rtype};

/// The label with the number, behind the header and the length of the label.
const LABEL: std::ops::Range<usize> = 13..22;

/// The query of type A with this number.
pub(crate) fn message(number: u32) -> Vec<u8> {
    let mut message = Vec::new();
    query::write(&mut message, format!("q{number:08}.example.test").as_bytes(), rtype::A, None)
        .expect("a name of three labels");
    message[..2].copy_from_slice(&number.to_be_bytes()[2..]);
    message
}

/// The number of a query or of its response; `None` if it has none.
pub(crate) fn number_of(message: &[u8]) -> Option<u32> {
    let digits = message.get(LABEL)?.strip_prefix(b"q")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_from_messages() {
        assert_eq!(number_of(&message(7)), Some(7));
        assert_eq!(number_of(&message(10_500_123)), Some(10_500_123));
        assert_eq!((number_of(&[0; 40]), number_of(&[0; 14])), (None, None));
    }
}

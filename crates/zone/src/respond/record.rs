//! The records of a query, and the names in them, whose pointers must lead back to names.

use kqps_message::HEADER_BYTES;
use kqps_message::record::{self, Record};

/// The record at `at`, if every pointer of its name leads back to a name.
#[inline]
pub(crate) fn record(message: &[u8], at: usize) -> Option<Record<'_>> {
    end_of_name(message, at)?;
    record::read(message, at)
}

/// The position after the name at `at`, if every pointer of it leads back to a name (RFC 1035, section 4.1.4).
#[inline]
fn end_of_name(message: &[u8], at: usize) -> Option<usize> {
    if *message.get(at)? == 0 {
        return Some(at + 1);
    }
    let mut wire = [0; 255];
    copy_name(message, at, &mut wire).map(|(_, end)| end)
}

/// Copies the name at `at`, without pointers, and returns its length and the position after it.
pub(crate) fn copy_name(message: &[u8], at: usize, wire: &mut [u8; 255]) -> Option<(usize, usize)> {
    let (mut here, mut before, mut length) = (at, at, 0);
    let mut end = None;
    loop {
        match *message.get(here)? {
            0 => {
                *wire.get_mut(length)? = 0;
                return Some((length + 1, end.unwrap_or(here + 1)));
            }
            label @ 1..=63 => {
                let bytes = message.get(here..=here + usize::from(label))?;
                wire.get_mut(length..length + bytes.len())?.copy_from_slice(bytes);
                length += bytes.len();
                here += bytes.len();
            }
            high @ 192.. => {
                let target = usize::from(high & 63) << 8 | usize::from(*message.get(here + 1)?);
                end.get_or_insert(here + 2);
                // Each pointer leads further back than the one before, so this ends.
                if target >= before || target < HEADER_BYTES {
                    return None;
                }
                (here, before) = (target, target);
            }
            _ => return None,
        }
    }
}

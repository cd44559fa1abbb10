//! Messages on a connection, each after its length (RFC 1035, section 4.2.2).

use kqps_message::header;

/// The number of bytes of a message's length.
pub(super) const LENGTH_BYTES: usize = 2;

/// Calls `each` for every whole message in these bytes, without its length. Returns the bytes of the one that is not
/// whole.
#[inline]
pub(super) fn messages(bytes: &[u8], mut each: impl FnMut(&[u8])) -> &[u8] {
    let mut rest = bytes;
    while let Some(frame) = next_frame(&mut rest) {
        each(&frame[LENGTH_BYTES..]);
    }
    rest
}

/// The whole messages in these bytes, each with its length.
#[inline]
pub(super) fn frames(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || next_frame(&mut bytes))
}

/// Takes the first message off these bytes, with its length; `None` if it is not whole.
#[inline]
fn next_frame<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let message = first_message(bytes)?;
    let (frame, rest) = bytes.split_at(LENGTH_BYTES + message.len());
    *bytes = rest;
    Some(frame)
}

/// The first message in these bytes, without its length; `None` if it is not whole.
pub(super) fn first_message(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}

/// Appends a query with this ID after its length. Returns its place there.
pub(super) fn append<'o>(output: &'o mut Vec<u8>, message: &[u8], id: u16) -> &'o mut [u8] {
    output.extend_from_slice(&(message.len() as u16).to_be_bytes());
    let at = output.len();
    output.extend_from_slice(message);
    header::set_id(&mut output[at..], id);
    &mut output[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_whole_or_is_none() {
        assert_eq!(first_message(&[0, 2, 7, 8, 9]), Some(&[7, 8][..]));
        assert_eq!(first_message(&[0, 0, 9]), Some(&[][..]));
        for part in [&[][..], &[0], &[0, 1], &[1, 0, 5]] {
            assert_eq!(first_message(part), None, "{part:?}");
        }
    }

    #[test]
    fn messages_are_cut_out_and_the_rest_is_kept() {
        let mut found = Vec::new();
        let rest = messages(&[0, 1, 7, 0, 0, 0, 2, 8, 9, 0, 3, 1], |message| found.push(message.to_vec()));
        assert_eq!((found, rest), (vec![vec![7], vec![], vec![8, 9]], &[0, 3, 1][..]));
        let whole: Vec<&[u8]> = frames(&[0, 1, 7, 0, 0, 0, 2, 8, 9]).collect();
        assert_eq!(whole, [&[0, 1, 7][..], &[0, 0], &[0, 2, 8, 9]]);
    }

    #[test]
    fn a_query_follows_its_length() {
        let mut output = vec![1];
        append(&mut output, &[9, 9, 3, 4], 0x0102)[3] = 5;
        assert_eq!(output, [1, 0, 4, 1, 2, 3, 5]);
    }
}

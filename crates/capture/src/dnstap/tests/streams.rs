//! Frame Streams, whole and damaged.

use proptest::prelude::*;

use super::super::frames::{CONTROL_BYTES_MOST, FRAME_BYTES_MOST};
use super::*;

/// A control frame after its escape.
fn control(kind: u32, content_types: &[&[u8]]) -> Vec<u8> {
    let mut bytes = kind.to_be_bytes().to_vec();
    for content_type in content_types {
        bytes.extend_from_slice(&1_u32.to_be_bytes());
        bytes.extend_from_slice(&data(content_type));
    }
    [&[0_u8; 4][..], &data(&bytes)].concat()
}

/// Reads a damaged stream. Returns the number of events before the error, and the error's place and words.
fn damage(stream: &[u8]) -> (usize, u64, String) {
    let (seen, _, failed) = read_with(stream, &Settings::default());
    let Some(CaptureError::Damaged { offset, what }) = failed else { panic!("{failed:?}") };
    (seen.len(), offset, what)
}

#[test]
fn control_frames_are_those_of_the_library() {
    assert_eq!(control(2, &[b"protobuf:dnstap.Dnstap"]), START);
    assert_eq!(control(3, &[]), STOP);
}

#[test]
fn a_stream_that_was_recorded_of_a_socket() {
    let (dnstap, other): (&[u8], &[u8]) = (b"protobuf:dnstap.Dnstap", b"text:csv");
    let tap = frame(&client_query());
    let parts = [
        control(4, &[other, dnstap]),
        control(1, &[dnstap]),
        control(2, &[dnstap]),
        tap.clone(),
        control(3, &[]),
        control(5, &[]),
    ];
    assert_eq!(read(&parts.concat()).0.len(), 1);
    // START needs no type. Another stream may follow, and one may lack its end.
    let parts = [control(2, &[]), tap.clone(), control(3, &[]), START.to_vec(), tap.clone(), tap];
    assert_eq!(read(&parts.concat()).0.len(), 3);
    assert_eq!(read(&[START, STOP].concat()).0.len(), 0);
}

#[test]
fn a_stream_that_ends_within_a_frame_is_damaged_there() {
    let whole = stream(&[client_query(), client_response()]);
    let first = START.len() + frame(&client_query()).len();
    let stop = whole.len() - STOP.len();
    for length in 0..whole.len() {
        let cut = &whole[..length];
        if [START.len(), first, stop].contains(&length) {
            read(cut);
        } else {
            let begins = [0, START.len(), first, stop];
            let begin = begins.into_iter().rfind(|&begin| begin <= length).expect("the first frame");
            let (events, offset, _) = damage(cut);
            assert_eq!(
                (events, offset),
                (usize::from(length > first) + usize::from(length > stop), begin as u64)
            );
        }
    }
}

#[test]
fn the_longest_query_and_response_fit_one_frame() {
    let longest = |message: &[u8]| {
        let mut message = message.to_vec();
        message.resize(65_535, 0);
        Some(message)
    };
    let tap = Tap { query_message: longest(QUERY), response_message: longest(REPLY), ..client_response() };
    let (seen, counts) = read(&stream(&[tap, client_query()]));
    let lengths: Vec<usize> = seen
        .iter()
        .map(|seen| match seen {
            OwnedEvent::Message { bytes, .. } => bytes.len(),
            OwnedEvent::Closed { .. } => 0,
        })
        .collect();
    assert_eq!((lengths, skipped(&counts)), (vec![65_535, 65_535, QUERY.len()], vec![]));
}

#[test]
fn lengths_have_limits() {
    let most = data(&vec![0xff; FRAME_BYTES_MOST as usize]);
    let (seen, counts) = read(&[START, &most, STOP].concat());
    assert_eq!((seen.len(), skipped(&counts)), (0, vec![(Why::BadTap, 1)]));
    let tap = frame(&client_query());
    let place = (START.len() + tap.len()) as u64;
    let longer = data(&vec![0xff; FRAME_BYTES_MOST as usize + 1]);
    let (seen, counts) = read(&[START, &longer, &tap, STOP].concat());
    assert_eq!((seen.len(), skipped(&counts)), (1, vec![(Why::BadTap, 1)]), "one bad frame is not the end");
    for bytes in [FRAME_BYTES_MOST + 1, u32::MAX] {
        let (events, offset, what) = damage(&[START, &tap, &bytes.to_be_bytes(), &[0; 9]].concat());
        assert_eq!((events, offset), (1, place));
        assert!(what.starts_with("it ends within the frame that begins there"), "{what}");
    }
    let long = [&[0_u8; 4][..], &(CONTROL_BYTES_MOST + 1).to_be_bytes()].concat();
    assert_eq!(damage(&[START, &long].concat()).1, START.len() as u64);
}

#[test]
fn streams_of_something_else_are_damaged() {
    let tap = frame(&client_query());
    let damaged: [(Vec<u8>, usize); 9] = [
        (Vec::new(), 0),
        (tap.clone(), 0),
        (control(2, &[b"text:csv"]), 0),
        (control(9, &[]), 0),
        (control(5, &[]), STOP.len()),
        ([&[0_u8; 4][..], &data(&[0, 0, 0])].concat(), 0),
        ([&[0_u8; 4][..], &data(b"\0\0\0\x02\0\0\0\x07\0\0\0\0")].concat(), 0),
        ([&[0_u8; 4][..], &data(b"\0\0\0\x02\0\0\0\x01\0\0\0\x09short")].concat(), 0),
        ([START, STOP, &tap].concat(), START.len() + STOP.len()),
    ];
    for (stream, place) in damaged {
        let (events, offset, what) = damage(&stream);
        assert_eq!((events, offset), (0, place as u64), "{what}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is changed, the account adds up, and an error has a place in the stream.
    #[test]
    fn changed_streams_end_in_one_error_or_are_counted(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = stream(&[client_query(), client_response(), client_query()]);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes.truncate(cut.index(bytes.len() * 2).max(1));
        let (seen, counts, failed) = read_with(&bytes, &Settings::default());
        // A frame brings two messages at most, and one connection may end for it.
        prop_assert!(seen.len() as u64 <= 3 * counts.packets);
        if let Some(CaptureError::Damaged { offset, .. }) = failed {
            prop_assert!(offset <= bytes.len() as u64);
        } else {
            prop_assert!(failed.is_none());
        }
    }
}

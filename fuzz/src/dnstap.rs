//! The target for dnstap: any bytes as a stream, or as the frames of one.

use std::io::Cursor;

use kqps_capture::{CaptureError, Event, Kind, Reader, Settings, Transport};
use kqps_message::Header;

/// An escape and a START frame.
const START: &[u8] = b"\0\0\0\0\0\0\0\x22\0\0\0\x02\0\0\0\x01\0\0\0\x16protobuf:dnstap.Dnstap";

/// Bits of the first byte: the stream begins with START, and the bytes are frames, each after a byte with its length.
const STARTED: u8 = 1;
const FRAMES: u8 = 2;

/// Takes any bytes as dnstap. The first byte says how, see the constants of this module.
pub fn dnstap(bytes: &[u8]) {
    let Some((&choice, mut rest)) = bytes.split_first() else { return };
    let mut stream = if choice & STARTED != 0 { START.to_vec() } else { vec![0; 4] };
    if choice & FRAMES != 0 {
        while let Some((&length, behind)) = rest.split_first() {
            let (frame, behind) = behind.split_at(usize::from(length).min(behind.len()));
            stream.extend_from_slice(&(frame.len() as u32).to_be_bytes());
            stream.extend_from_slice(frame);
            rest = behind;
        }
    } else {
        stream.extend_from_slice(rest);
    }
    let length = stream.len() as u64;
    let mut reader = Reader::new(Cursor::new(stream), &Settings::default()).expect("it begins like dnstap");
    let mut messages = 0;
    let failed = loop {
        match reader.next() {
            Ok(None) => break None,
            Err(error) => break Some(error),
            Ok(Some(Event::Closed { .. })) => {}
            Ok(Some(Event::Message(message))) => {
                messages += 1;
                let header = Header::from_bytes(message.bytes).expect("a header");
                assert_eq!(header.is_reply(), message.kind == Kind::Response);
                assert!(header.opcode() == 0 && u16::try_from(message.bytes.len()).is_ok());
                assert_eq!(message.connection.is_none(), message.transport == Transport::Udp);
            }
        }
    };
    let counts = reader.counts();
    assert_eq!(counts.check(), Ok(()));
    assert_eq!(counts.queries + counts.responses, messages);
    assert!(counts.further <= counts.responses, "only a response brings its query");
    if let Some(error) = failed {
        let said = error.to_string();
        assert!(!said.contains(char::is_control), "{said}");
        let is_placed = matches!(error, CaptureError::Damaged { offset, .. } if offset <= length);
        // The first bytes may also be those of ERF.
        assert!(is_placed || matches!(error, CaptureError::Foreign { .. }), "{said}");
    }
}

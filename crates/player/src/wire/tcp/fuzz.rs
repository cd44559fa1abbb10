//! The reassembly of messages fed with arbitrary bytes, for the fuzz target. It panics if a property does not hold.

use std::io::Write as _;
use std::net::{Shutdown, TcpStream};

use kqps_kernel::tcp_client::{TcpClient, TcpRead};

use super::frame::append;
use super::layer::{Arrived, Buffers, Layer as _, Plain};

/// The whole messages of a stream, one after the other.
fn whole(mut stream: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let [high, low, rest @ ..] = stream {
        let length = usize::from(*high) << 8 | usize::from(*low);
        let Some((message, rest)) = rest.split_at_checked(length) else { break };
        found.push(message);
        stream = rest;
    }
    found
}

/// Feeds the player's end of a connection with arbitrary bytes in pieces, which its peer writes. The player must find the
/// same messages as in the whole stream, and must write each as it was read.
pub fn framing<'p>(
    (client, mut peer): (TcpClient, TcpStream),
    stream: &[u8],
    pieces: impl Iterator<Item = &'p [u8]>,
) {
    let (mut layer, mut buffers, mut heard) = (Plain::default(), Buffers::new(), Vec::new());
    let mut is_held = false;
    let mut read = || {
        let read = buffers.fill(layer.kept(), &client).expect("it is open");
        let TcpRead::Bytes { bytes, .. } = read else { return read == TcpRead::End };
        let hear = |arrived: Arrived<'_>| match arrived {
            Arrived::Message(message) => heard.push(message.to_vec()),
            Arrived::Wrong { .. } => unreachable!("nothing carries messages but TCP"),
        };
        // Every other read stands elsewhere, as the buffers of a ring do.
        is_held = !is_held;
        let taken = if is_held {
            let held = buffers.bytes[layer.kept().len()..bytes].to_vec();
            let (bytes, room) = buffers.join(layer.kept(), &held);
            layer.take(bytes, room, hear)
        } else {
            let Buffers { bytes: buffer, room } = &mut buffers;
            layer.take(&mut buffer[..bytes], room, hear)
        };
        taken.expect("nothing but TCP can fail");
        false
    };
    for piece in pieces {
        peer.write_all(piece).expect("the player reads");
        read();
    }
    peer.shutdown(Shutdown::Write).expect("it is open");
    while !read() {
        std::thread::yield_now();
    }
    let wanted = whole(stream);
    assert!(heard.iter().eq(wanted.iter()), "{heard:?} instead of {wanted:?}");
    for message in heard.iter().filter(|message| message.len() >= 2) {
        let mut written = Vec::new();
        append(&mut written, message, u16::from_be_bytes([message[0], message[1]]));
        assert_eq!(whole(&written), [message]);
    }
}

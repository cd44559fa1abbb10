//! Tapped packets of arbitrary bytes, for the fuzz target. It panics if a property does not hold.

use std::net::SocketAddr;

use kqps_kernel::tap::{Sample, Tapped};

use super::datagram::datagrams;
use super::pairs::Pairs;

/// Takes any bytes as packets of an interface. Each begins with a byte that says its direction and its length, and if it
/// holds several datagrams, with another one that says how long each is. The account of pairs adds up.
pub fn packets(mut bytes: &[u8]) {
    // The server is that of the first datagram.
    let mut pairs: Option<Pairs> = None;
    let mut stamped_ns = 0;
    while let Some((&choice, rest)) = bytes.split_first() {
        let (is_outgoing, is_joined) = (choice & 1 != 0, choice & 2 != 0);
        let length = usize::from(choice >> 2) * 4;
        let (segment, rest) = match rest.split_first() {
            Some((&segment, rest)) if is_joined => (Some(segment.into()), rest),
            _ => (None, rest),
        };
        let (packet, rest) = rest.split_at(length.min(rest.len()));
        bytes = rest;
        stamped_ns += 1_000;
        let packet = Tapped { is_outgoing, stamped_ns, bytes: packet, segment_bytes: segment };
        let mut payload = 0;
        for datagram in datagrams(&packet) {
            payload += datagram.payload.len();
            let server: SocketAddr = datagram.server;
            let pairs = pairs.get_or_insert_with(|| Pairs::new(vec![server], Sample::one_in(1)));
            pairs.take(&datagram, is_outgoing, stamped_ns);
        }
        assert!(payload <= packet.bytes.len(), "each byte is in one datagram at most");
    }
    if let Some(pairs) = pairs {
        assert_eq!(pairs.facts().contradiction(), None);
    }
}

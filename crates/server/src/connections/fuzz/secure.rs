//! A connection in TLS fed with arbitrary bytes: as they are, or as messages that a client seals.

use std::sync::OnceLock;

use kqps_tls::certificate::{KeyType, make};
use kqps_tls::client::server_name;
use kqps_tls::{Acceptor, Client, ClientSettings, Connector, Trust};

use super::rig::Rig;
use super::{Mirror, agree, reply_bytes, split};
use crate::connections::counts::End;
use crate::connections::stream::Stream;

/// Bits of the first byte: whether a client seals the bytes, and whether they follow its first message if it does not.
const SEALED: u8 = 1;
const AFTER_HELLO: u8 = 2;

/// The makers of the TLS of both ends.
fn makers() -> &'static (Connector, Acceptor) {
    static MAKERS: OnceLock<(Connector, Acceptor)> = OnceLock::new();
    MAKERS.get_or_init(|| {
        let made = make(KeyType::Ecdsa, &["fuzz.test".to_owned()]).expect("a certificate");
        let settings = ClientSettings::new(Trust::Anyone, false);
        let client = Client::new(&settings).expect("a client");
        let connector = client.connector(server_name("fuzz.test").expect("a name"), 0);
        (connector, Acceptor::new(&made.identity).expect("a server"))
    })
}

/// A client that has its first message to write, and its server.
fn rig() -> Rig<Mirror> {
    let (connector, acceptor) = makers();
    let mut outgoing = Vec::new();
    let tls = connector.connect(&mut outgoing).expect("a client has a first message");
    Rig::new((tls, outgoing), acceptor, Mirror, |stream| Stream::Tls(Box::new(stream)))
}

/// Feeds arbitrary bytes into a connection in TLS, in pieces whose length is the second byte. Bytes that no client
/// sealed are no query. Of bytes that a client seals every query must get all messages of its reply, and the counts
/// must agree.
pub fn secure_connection(bytes: &[u8]) {
    let Some((&[choice, piece], stream)) = bytes.split_first_chunk() else { return };
    let pieces = stream.chunks(usize::from(piece).max(1));
    if choice & SEALED == 0 {
        let mut rig = rig();
        if choice & AFTER_HELLO == 0 {
            rig.outgoing.clear();
        }
        for piece in pieces {
            rig.outgoing.extend_from_slice(piece);
            rig.go_on_until(|rig| rig.outgoing.is_empty());
        }
        rig.client = None;
        let end = rig.end();
        assert_eq!(rig.scratch.counts.received, 0, "no client sealed a query");
        assert!(matches!(end, End::Tls | End::Broken | End::Peer), "{end:?}");
        return;
    }
    let mut rig = rig();
    rig.listens = true;
    rig.go_on_until(|rig| rig.tls.is_established());
    for piece in pieces {
        // The connection may have ended, and then the client writes in vain.
        rig.tls.seal(piece, &mut rig.outgoing).expect("the handshake is complete");
        rig.go_on_until(|rig| rig.outgoing.is_empty());
    }
    rig.tls.close(&mut rig.outgoing);
    let end = rig.end();
    if split(stream).2 {
        rig.hear(reply_bytes(stream));
    }
    agree(stream, &rig.heard, end, &rig.scratch);
}

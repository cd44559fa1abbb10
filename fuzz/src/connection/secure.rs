//! A connection in TLS fed with arbitrary bytes: as they are, or as messages that a client seals.

use kqps_server::connections::End;
use kqps_server::connections::fuzz::Served;

use super::Mirror;
use super::rig::Rig;
use crate::feeding::pieces;
use crate::handshake::makers;

/// Bits of the first byte: whether a client seals the bytes, and whether they follow its first message if it does not.
const SEALED: u8 = 1;
const AFTER_HELLO: u8 = 2;

/// A client that has its first message to write, and its server.
fn rig() -> Rig {
    let (connector, acceptor) = makers();
    let mut outgoing = Vec::new();
    let tls = connector.connect(&mut outgoing).expect("a client has a first message");
    Rig::new((tls, outgoing), |socket| Served::over_tls(socket, acceptor, Mirror))
}

/// Feeds arbitrary bytes into a connection in TLS, in pieces whose length is the second byte. Bytes that no client
/// sealed are no query. Of bytes that a client seals every query must get all messages of its reply, and the counts
/// must agree.
pub fn secure_connection(bytes: &[u8]) {
    let Some((&[choice, length], stream)) = bytes.split_first_chunk() else { return };
    let (mut rig, pieces) = (rig(), pieces(stream, length));
    if choice & SEALED == 0 {
        if choice & AFTER_HELLO == 0 {
            rig.outgoing.clear();
        }
        for piece in pieces {
            rig.outgoing.extend_from_slice(piece);
            rig.go_on_until(|rig| rig.outgoing.is_empty());
        }
        rig.client = None;
        let end = rig.end();
        assert_eq!(rig.server.counts().received, 0, "no client sealed a query");
        assert!(matches!(end, End::Tls | End::Broken | End::Peer), "{end:?}");
        return;
    }
    rig.listens = true;
    rig.go_on_until(|rig| rig.tls.is_established());
    for piece in pieces {
        // The connection may have ended, and then the client writes in vain.
        rig.tls.seal(piece, &mut rig.outgoing).expect("the handshake is complete");
        rig.go_on_until(|rig| rig.outgoing.is_empty());
    }
    rig.finish(stream);
}

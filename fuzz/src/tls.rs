//! The targets for TLS: both ends of a connection, fed with arbitrary bytes.

use std::sync::OnceLock;

use kqps_tls::connection::Side;
use kqps_tls::fuzz::sealing::{SUITE, Sealing};
use kqps_tls::{Acceptor, Client, ClientSettings, ClientTls, Connector, ServerTls, Tls};

use crate::handshake::{connector, made, makers, settings, shake_hands};

/// Bits of the first byte: whether a handshake comes first, and whether the bytes are then messages that the other end
/// seals. If only the second is set, the bytes are what a client seals in its handshake. The rest is the length of pieces.
const AFTER_A_HANDSHAKE: u8 = 0x80;
const SEALED: u8 = 0x40;

/// Two ends, after their handshake if `is_established`.
fn ends(is_established: bool) -> (ClientTls, ServerTls) {
    let (connector, acceptor) = makers();
    if is_established {
        return shake_hands(connector, acceptor);
    }
    let client = connector.connect(&mut Vec::new()).expect("a client has a first message");
    (client, acceptor.accept().expect("a server waits"))
}

/// Feeds bytes in pieces. Returns the bytes of messages; `None` if TLS failed, after which it must take nothing more.
fn fed<S: Side>(tls: &mut Tls<S>, bytes: &[u8], piece: usize, outgoing: &mut Vec<u8>) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    for piece in bytes.chunks(piece.max(1)) {
        let mut records = [tls.kept(), piece].concat();
        match tls.open(&mut records, &mut plain, outgoing) {
            Ok(_) => assert!(tls.kept().len() <= records.len()),
            Err(failure) => {
                assert!(!failure.to_string().is_empty());
                assert!(tls.open(&mut [], &mut Vec::new(), outgoing).is_err());
                assert!(tls.seal(b"a message", outgoing).is_err());
                return None;
            }
        }
    }
    Some(plain)
}

/// Feeds one end, whose messages come from the other.
fn feed<S: Side, O: Side>(tls: &mut Tls<S>, other: &mut Tls<O>, choice: u8, bytes: &[u8]) {
    let (piece, mut outgoing) = (usize::from(choice & !(AFTER_A_HANDSHAKE | SEALED)), Vec::new());
    if choice & AFTER_A_HANDSHAKE != 0 && choice & SEALED != 0 {
        let mut sealed = Vec::new();
        for message in bytes.chunks(piece.max(1)) {
            other.seal(message, &mut sealed).expect("the handshake is complete");
        }
        assert_eq!(
            fed(tls, &sealed, 2 * piece + 1, &mut outgoing).as_deref(),
            Some(bytes),
            "messages arrive whole"
        );
        return;
    }
    let was_established = tls.is_established();
    let plain = fed(tls, bytes, piece, &mut outgoing);
    assert!(plain.is_none_or(|plain| plain.is_empty()), "nobody sealed a message");
    assert_eq!(tls.is_established(), was_established, "nobody has the keys of this end");
}

/// Feeds a client. The first byte says how; see the constants of this module.
pub fn client(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let (mut client, mut server) = ends(choice & AFTER_A_HANDSHAKE != 0);
    feed(&mut client, &mut server, choice, bytes);
}

/// Feeds a server likewise.
pub fn server(bytes: &[u8]) {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    if choice & (AFTER_A_HANDSHAKE | SEALED) == SEALED {
        return server_in_handshake(usize::from(choice & !SEALED), bytes);
    }
    let (mut client, mut server) = ends(choice & AFTER_A_HANDSHAKE != 0);
    feed(&mut server, &mut client, choice, bytes);
}

/// The meaning of two bytes of [`server_in_handshake`]: the first is the number of zeros behind a part, or one of
/// these, the second how many bytes follow. `AS_THEY_ARE` sends them without a seal, and `FINISHED` seals the last
/// message in parts of so many bytes.
const AS_THEY_ARE: u8 = 0xff;
const FINISHED: u8 = 0xfe;

/// A client that gets tickets for early data at a server, that server, and one that rejects early data.
fn early_makers() -> &'static (Connector, Acceptor, Acceptor) {
    static MAKERS: OnceLock<(Connector, Acceptor, Acceptor)> = OnceLock::new();
    MAKERS.get_or_init(|| {
        let settings = ClientSettings { suites: vec![SUITE.parse().expect("a suite")], ..settings(true) };
        let client = Client::new(&settings).expect("a client");
        let acceptor = || Acceptor::over_tcp(kqps_tls::ALPN, &made().identity, true).expect("a server");
        (connector(&client, 4), acceptor(), acceptor())
    })
}

/// Feeds a server whose client offered early data in vain, if `piece` is even, and then seals these parts of messages.
fn server_in_handshake(piece: usize, mut bytes: &[u8]) {
    let (connector, acceptor, forgetful) = early_makers();
    let is_early = piece.is_multiple_of(2);
    if is_early {
        shake_hands(connector, acceptor);
    }
    let (mut client, mut server) = Sealing::new(connector, forgetful, is_early);
    let (mut records, mut outgoing, mut is_finished) = (Vec::new(), Vec::new(), false);
    while let [first, length, rest @ ..] = bytes {
        let (part, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        match *first {
            AS_THEY_ARE => records.extend_from_slice(part),
            FINISHED => {
                is_finished = true;
                records.extend(client.seal_finished(part.len(), 0));
            }
            zeros => records.extend(client.seal(part, usize::from(zeros))),
        }
        bytes = rest;
    }
    let plain = fed(&mut server, &records, piece * piece, &mut outgoing);
    assert!(plain.is_none_or(|plain| plain.is_empty()), "nobody sealed a query");
    assert!(is_finished || !server.is_established(), "the last message is missing");
    server.close(&mut outgoing);
}

//! A connection of a server that counts: bytes, TLS, and frames of HTTP/2 (RFC 9113), of which only kinds matter.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use anyhow::{Result, anyhow};
use kqps_tls::ServerTls;

use super::{ConnectionCounts, Layer};

/// Bytes of one read.
const READ_BYTES: usize = 1 << 14;

/// The first bytes of a client (section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The first frame of a server, an empty SETTINGS (section 6.5).
const NO_SETTINGS: [u8; HEAD] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

/// Bytes before the payload of a frame (section 4.1).
const HEAD: usize = 9;

/// Kinds of frames (section 6).
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;

/// A connection that has not ended.
pub(super) struct Connection {
    socket: TcpStream,
    tls: Option<ServerTls>,
    http: Option<Frames>,
    /// Whether its handshake was counted.
    is_established: bool,
}

/// The frames that come.
#[derive(Default)]
struct Frames {
    has_opened: bool,
    /// Bytes that are no whole frame yet.
    rest: Vec<u8>,
}

impl Connection {
    /// A connection that was just accepted.
    pub(super) fn new(socket: TcpStream, layer: &Layer) -> Result<Self> {
        let (tls, http) = match layer {
            Layer::Plain => (None, None),
            Layer::Tls(acceptor) => (Some(acceptor), None),
            Layer::Http(acceptor) => (Some(acceptor), Some(Frames::default())),
        };
        let tls =
            tls.map(|acceptor| acceptor.accept().map_err(|failure| anyhow!("{failure}"))).transpose()?;
        Ok(Self { socket, tls, http, is_established: false })
    }

    /// Reads and counts what came. Returns whether the connection has ended.
    pub(super) fn read(&mut self, counts: &mut ConnectionCounts) -> bool {
        let mut buffer = [0; READ_BYTES];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return true,
                Ok(bytes) => {
                    counts.bytes += bytes as u64;
                    if self.take(&buffer[..bytes], counts).is_none() {
                        counts.broken += 1;
                        return true;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    counts.resets += u64::from(error.kind() == ErrorKind::ConnectionReset);
                    return true;
                }
            }
        }
    }

    /// Takes bytes that arrived; `None` if they are not understood.
    fn take(&mut self, bytes: &[u8], counts: &mut ConnectionCounts) -> Option<()> {
        let Some(tls) = &mut self.tls else { return Some(()) };
        let (mut plain, mut outgoing) = (Vec::new(), Vec::new());
        let mut records = [tls.kept(), bytes].concat();
        tls.open(&mut records, &mut plain, &mut outgoing).ok()?;
        counts.plain += plain.len() as u64;
        if tls.is_established() && !self.is_established {
            self.is_established = true;
            counts.handshakes += 1;
            if self.http.is_some() {
                tls.seal(&NO_SETTINGS, &mut outgoing).ok()?;
            }
        }
        // Only a handshake leaves, for which a new socket has room. A client that has gone shows at the next read.
        let _ = self.socket.write_all(&outgoing);
        match &mut self.http {
            Some(frames) => frames.take(&plain, counts),
            None => Some(()),
        }
    }
}

impl Frames {
    /// Counts the frames; `None` if the client speaks no HTTP/2.
    fn take(&mut self, bytes: &[u8], counts: &mut ConnectionCounts) -> Option<()> {
        self.rest.extend_from_slice(bytes);
        let mut at = 0;
        if !self.has_opened {
            if self.rest.len() < PREFACE.len() {
                return Some(());
            }
            self.has_opened = self.rest.starts_with(PREFACE);
            at = self.has_opened.then_some(PREFACE.len())?;
        }
        while let Some([l0, l1, l2, kind, ..]) = self.rest[at..].first_chunk::<HEAD>() {
            let end = at + HEAD + u32::from_be_bytes([0, *l0, *l1, *l2]) as usize;
            if end > self.rest.len() {
                break;
            }
            match *kind {
                HEADERS => counts.streams += 1,
                RST_STREAM => counts.stream_resets += 1,
                _ => {}
            }
            at = end;
        }
        self.rest.drain(..at);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_wherever_they_are_cut() {
        let frame =
            |kind: u8, payload: &[u8]| [&[0, 0, payload.len() as u8, kind, 0, 0, 0, 0, 1], payload].concat();
        let all = [PREFACE, &frame(4, &[]), &frame(HEADERS, b"abc"), &frame(RST_STREAM, &[0; 4])].concat();
        for cut in 0..=all.len() {
            let (mut frames, mut counts) = (Frames::default(), ConnectionCounts::default());
            for part in [&all[..cut], &all[cut..]] {
                frames.take(part, &mut counts).unwrap();
            }
            assert_eq!((counts.streams, counts.stream_resets), (1, 1), "{cut}");
        }
        assert_eq!(Frames::default().take(&[0; 24], &mut ConnectionCounts::default()), None);
    }
}

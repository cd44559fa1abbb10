//! A server of TLS that looks at one record at a time.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustls::{ServerConnection, StreamOwned};

use crate::stream::{query, reply};

/// A socket of which each read takes bytes of one record.
pub(crate) struct OneRecord {
    socket: TcpStream,
    /// Bytes of the present header, and of the present record, that were not read.
    header: Vec<u8>,
    left: usize,
}

impl OneRecord {
    pub(crate) fn new(socket: TcpStream) -> Self {
        Self { socket, header: Vec::new(), left: 0 }
    }
}

impl Read for OneRecord {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.header.is_empty() && self.left == 0 {
            let mut header = [0; 5];
            self.socket.read_exact(&mut header)?;
            self.left = usize::from(u16::from_be_bytes([header[3], header[4]]));
            self.header = header.to_vec();
        }
        if !self.header.is_empty() {
            let bytes = self.header.len().min(buffer.len());
            buffer[..bytes].copy_from_slice(&self.header[..bytes]);
            self.header.drain(..bytes);
            return Ok(bytes);
        }
        let most = self.left.min(buffer.len());
        let bytes = self.socket.read(&mut buffer[..most])?;
        self.left -= bytes;
        Ok(bytes)
    }
}

impl Write for OneRecord {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// Answers the first query of each record alone, and counts the records.
pub(crate) fn answer_first_of_each(
    mut stream: StreamOwned<ServerConnection, OneRecord>,
    records: &AtomicU64,
) {
    let mut record = vec![0; 1 << 14];
    while let Some(bytes) = stream.read(&mut record).ok().filter(|bytes| *bytes > 0) {
        records.fetch_add(1, Relaxed);
        let first = query(&mut &record[..bytes]).unwrap();
        if stream.write_all(&reply(first)).and_then(|()| stream.flush()).is_err() {
            return;
        }
    }
}

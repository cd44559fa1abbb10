//! One connection: the bytes that the kernel has not taken yet, and those of a reply that is not whole yet.

use std::io;
use std::net::{IpAddr, SocketAddr};

use kqps_kernel::tcp_client::{TcpClient, TcpRead};

/// The number of bytes of a message's length.
const LENGTH_BYTES: usize = 2;

/// A connection that is being made, or was made.
pub(super) struct Connection {
    pub(super) socket: TcpClient,
    /// Whether it was made.
    pub(super) is_open: bool,
    /// When the attempt began, nanoseconds of the monotonic clock.
    pub(super) began_ns: u64,
    /// Whether the kernel reports when there is room to write.
    pub(super) awaits_room: bool,
    /// The beginning of a reply.
    partial: Vec<u8>,
}

/// What a read found after the last whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing more has arrived.
    Nothing,
    /// There may be more.
    More,
    /// The peer closed its direction.
    End,
}

impl Connection {
    /// Begins to connect.
    pub(super) fn begin(to: SocketAddr, from: Option<IpAddr>, began_ns: u64) -> io::Result<Self> {
        let socket = TcpClient::connect(to, from)?;
        Ok(Self { socket, is_open: false, began_ns, awaits_room: true, partial: Vec::new() })
    }

    /// Reads once into `buffer`, and calls `each` for every whole reply, with the kernel's time of arrival of the last
    /// byte that was read.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        mut each: impl FnMut(&[u8], Option<u64>),
    ) -> io::Result<Rest> {
        let kept = self.partial.len();
        buffer[..kept].copy_from_slice(&self.partial);
        let (bytes, arrived_ns) = match self.socket.read(&mut buffer[kept..])? {
            TcpRead::Nothing => return Ok(Rest::Nothing),
            TcpRead::End => return Ok(Rest::End),
            TcpRead::Bytes { bytes, arrived_ns } => (bytes, arrived_ns),
        };
        let is_full = kept + bytes == buffer.len();
        let mut rest = &buffer[..kept + bytes];
        while let Some(reply) = first_message(rest) {
            each(reply, arrived_ns);
            rest = &rest[LENGTH_BYTES + reply.len()..];
        }
        self.partial.clear();
        self.partial.extend_from_slice(rest);
        Ok(if is_full { Rest::More } else { Rest::Nothing })
    }
}

/// The first message in these bytes, without its length; `None` if it is not whole.
fn first_message(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<LENGTH_BYTES>()?;
    rest.get(..usize::from(u16::from_be_bytes(*length)))
}

/// Appends a query with this ID after its length.
pub(super) fn append(output: &mut Vec<u8>, message: &[u8], id: u16) {
    output.extend_from_slice(&(message.len() as u16).to_be_bytes());
    let at = output.len();
    output.extend_from_slice(message);
    output[at..at + 2].copy_from_slice(&id.to_be_bytes());
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
    fn a_query_follows_its_length() {
        let mut output = vec![1];
        append(&mut output, &[9, 9, 3, 4], 0x0102);
        assert_eq!(output, [1, 0, 4, 1, 2, 3, 4]);
    }
}

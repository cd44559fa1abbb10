//! Replies on their way to a client, and the rule of when the client makes progress in reading them.

use std::io::{ErrorKind, Write};

use super::counts::End;
use super::frame;

/// Writing this many bytes counts as progress even if more are waiting. With a smaller number, a client that reads
/// just enough to hold its place could stay.
const PROGRESS_BYTES: usize = 16 * 1024;

/// The maximum number of written bytes that stay in memory before those that wait.
const WRITTEN_MOST: usize = 1 << 20;

/// The bytes that a connection has not written yet. While none wait, it keeps memory for at most `KEPT_BYTES`.
#[derive(Debug, Default)]
pub struct Output<const KEPT_BYTES: usize> {
    /// Bytes of which the first `written` are written. Empty if none wait.
    bytes: Vec<u8>,
    written: usize,
    /// Bytes that the client has taken since it last made progress.
    taken_bytes: usize,
}

impl<const KEPT_BYTES: usize> Output<KEPT_BYTES> {
    /// The number of bytes that wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Whether no bytes wait.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.written == self.bytes.len()
    }

    /// Why the connection ends if it makes no progress in time.
    pub fn end_in_time(&self) -> End {
        if self.is_empty() { End::Idle } else { End::Slow }
    }

    /// Queues a message after its length. Returns the message in its place, where it may be changed.
    #[inline]
    pub fn append(&mut self, message: &[u8]) -> &mut [u8] {
        frame::append(&mut self.bytes, message);
        let start = self.bytes.len() - message.len();
        &mut self.bytes[start..]
    }

    /// Queues bytes as they are: a part of a message with its length, which the other parts precede or follow.
    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes bytes while none wait, and queues those that the stream does not take now. Returns whether the client
    /// made progress.
    pub(super) fn write(&mut self, stream: &mut impl Write, bytes: &[u8]) -> Result<bool, End> {
        debug_assert!(self.is_empty(), "bytes leave in the order in which they came");
        let taken = pass(stream, bytes)?;
        self.bytes.extend_from_slice(&bytes[taken..]);
        Ok(self.makes_progress(taken))
    }

    /// Writes the bytes that wait, as far as the stream takes them. Returns whether the client made progress; it did
    /// if no bytes waited. If the stream is broken, none wait afterwards.
    pub fn push(&mut self, stream: &mut impl Write) -> Result<bool, End> {
        let taken = pass(stream, self.waiting()).inspect_err(|_| *self = Self::default())?;
        self.written += taken;
        if self.is_empty() {
            self.bytes.clear();
            self.bytes.shrink_to(KEPT_BYTES);
            self.written = 0;
        } else if self.written > WRITTEN_MOST {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
        Ok(self.makes_progress(taken))
    }

    /// The bytes that wait.
    pub(super) fn waiting(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    /// Whether the client makes progress by taking this many bytes.
    fn makes_progress(&mut self, taken: usize) -> bool {
        self.taken_bytes += taken;
        let makes_progress = self.is_empty() || self.taken_bytes >= PROGRESS_BYTES;
        if makes_progress {
            self.taken_bytes = 0;
        }
        makes_progress
    }
}

/// Passes bytes to the stream until it takes no more. Returns how many it took.
fn pass(stream: &mut impl Write, bytes: &[u8]) -> Result<usize, End> {
    let mut taken = 0;
    while taken < bytes.len() {
        match stream.write(&bytes[taken..]) {
            Ok(more) => taken += more,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(End::Broken),
        }
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// A client that takes as many bytes as it has room for.
    #[derive(Default)]
    struct Client {
        room: usize,
        is_broken: bool,
        taken: Vec<u8>,
    }

    impl Write for Client {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.is_broken {
                return Err(ErrorKind::BrokenPipe.into());
            }
            if self.room == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            let taken = bytes.len().min(self.room);
            self.room -= taken;
            self.taken.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_client_makes_progress_by_reading_much_or_all() {
        let (mut output, mut client) = (Output::<0>::default(), Client { room: 1, ..Client::default() });
        let many = vec![7; 40_000];
        assert_eq!(output.write(&mut client, &many), Ok(false));
        client.room = PROGRESS_BYTES - 2;
        assert_eq!(output.push(&mut client), Ok(false));
        assert_eq!(output.push(&mut client), Ok(false));
        client.room = 1;
        assert_eq!(output.push(&mut client), Ok(true));
        assert_eq!((output.len(), output.end_in_time()), (40_000 - PROGRESS_BYTES, End::Slow));
        // After progress, counting begins again.
        client.room = PROGRESS_BYTES - 1;
        assert_eq!(output.push(&mut client), Ok(false));
        client.room = 40_000;
        assert_eq!(output.push(&mut client), Ok(true));
        assert_eq!((output.len(), output.end_in_time()), (0, End::Idle));
        assert_eq!(output.write(&mut client, &[7; 3]), Ok(true));
        assert_eq!(client.taken.len(), 40_003);
    }

    #[test]
    fn messages_leave_whole_in_order_and_their_memory_is_freed() {
        let (mut output, mut client) = (Output::<16>::default(), Client::default());
        output.append(b"abc")[0] = b'x';
        client.room = 3;
        assert_eq!(output.push(&mut client), Ok(false));
        output.append(&[b'd'; 200]);
        client.room = 1000;
        assert_eq!(output.push(&mut client), Ok(true));
        assert_eq!(client.taken, [&b"\0\x03xbc\0\xc8"[..], &[b'd'; 200]].concat());
        assert!(output.is_empty() && output.bytes.capacity() < 200);
    }

    #[test]
    fn written_bytes_do_not_pile_up_before_those_that_wait() {
        let (mut output, mut client) = (Output::<0>::default(), Client::default());
        let message = vec![7; 60_000];
        for _ in 0..100 {
            output.append(&message);
            output.append(&message);
            client.room = 2 * 60_002 - usize::from(client.taken.is_empty());
            assert_eq!(output.push(&mut client), Ok(true));
            assert!(output.len() == 1 && output.bytes.len() <= WRITTEN_MOST + 3 * 60_002);
        }
        assert_eq!(client.taken.len(), 200 * 60_002 - 1);
    }

    #[test]
    fn a_broken_stream_leaves_nothing_behind() {
        let (mut output, mut client) = (Output::<0>::default(), Client { room: 1, ..Client::default() });
        output.append(b"abc");
        assert_eq!(output.push(&mut client), Ok(false));
        client.is_broken = true;
        assert_eq!(output.push(&mut client), Err(End::Broken));
        assert!(output.is_empty() && output.waiting().is_empty());
    }
}

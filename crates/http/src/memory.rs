//! The bytes of a connection in memory: HTTP/2 reads those that arrived, and appends those that must be sent. Neither
//! ever waits, so that one poll does all that can be done.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A buffer that is empty and larger than this gives its memory back.
const KEPT_BYTES: usize = 1 << 16;

#[derive(Default)]
struct Held {
    /// Bytes that arrived, of which the first `taken` were read.
    incoming: Vec<u8>,
    taken: usize,
    /// Bytes that must be sent.
    outgoing: Vec<u8>,
}

/// Both directions of a connection. Clones are the same connection. One thread uses it at a time, so that nothing waits
/// for the lock.
#[derive(Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<Held>>);

impl Memory {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds bytes that arrived.
    pub(crate) fn receive(&self, bytes: &[u8]) {
        self.held().incoming.extend_from_slice(bytes);
    }

    /// Whether bytes must be sent.
    pub(crate) fn has_outgoing(&self) -> bool {
        !self.held().outgoing.is_empty()
    }

    /// Hands the bytes that must be sent to `take`, and forgets them.
    pub(crate) fn take_outgoing<R>(&self, take: impl FnOnce(&[u8]) -> R) -> R {
        let mut held = self.held();
        let result = take(&held.outgoing);
        held.outgoing.clear();
        held.outgoing.shrink_to(KEPT_BYTES);
        result
    }
}

impl AsyncRead for Memory {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut held = self.held();
        let Held { incoming, taken, .. } = &mut *held;
        let waiting = &incoming[*taken..];
        if waiting.is_empty() {
            return Poll::Pending;
        }
        let bytes = waiting.len().min(buffer.remaining());
        buffer.put_slice(&waiting[..bytes]);
        *taken += bytes;
        if *taken == incoming.len() {
            incoming.clear();
            incoming.shrink_to(KEPT_BYTES);
            *taken = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Memory {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.held().outgoing.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut held = self.held();
        let before = held.outgoing.len();
        for part in parts {
            held.outgoing.extend_from_slice(part);
        }
        Poll::Ready(Ok(held.outgoing.len() - before))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

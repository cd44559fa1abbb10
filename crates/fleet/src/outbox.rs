//! The queue to the other side: a thread writes it, so that a pipe that nobody reads holds up that thread alone.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use kqps_kernel::clock;

use crate::message::LINE_MOST;

/// The interval at which a side shows that it lives.
const BEAT: Duration = Duration::from_secs(1);

/// The most bytes that wait to be written: one line of the longest, and another.
const QUEUE_MOST: usize = 2 * LINE_MOST;

/// The stack of a thread that moves bytes, in bytes.
pub(crate) const STACK: usize = 512 << 10;

/// Why bytes are not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// So many bytes wait already.
    Full(usize),
    /// Nothing can be written any more.
    Closed,
}

/// Something to write.
#[derive(Debug)]
enum Entry {
    Bytes(Vec<u8>),
    /// Bytes, and the place for the time at which they were about to be written.
    Stamped(Vec<u8>, Arc<AtomicU64>),
    Close,
}

/// The queue of a writing thread.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    sender: Sender<Entry>,
    facts: Arc<Facts>,
}

#[derive(Debug, Default)]
struct Facts {
    queued: AtomicUsize,
    is_broken: AtomicBool,
}

/// The end of the writing thread.
#[derive(Debug)]
pub(crate) struct Written(Receiver<()>);

impl Written {
    /// Waits until all that was sent before [`Outbox::close`] is written, or cannot be. Returns false after `within`.
    pub(crate) fn wait(&self, within: Duration) -> bool {
        !matches!(self.0.recv_timeout(within), Err(RecvTimeoutError::Timeout))
    }
}

impl Outbox {
    /// Starts the thread. It owns `to`, and writes `beat` each second in which it writes nothing else.
    pub(crate) fn start(
        to: impl Write + Send + 'static,
        beat: Option<&'static [u8]>,
    ) -> io::Result<(Self, Written)> {
        let (sender, receiver) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let facts = Arc::new(Facts::default());
        let of_thread = Arc::clone(&facts);
        let write = move || {
            write(&receiver, to, beat, &of_thread);
            // After the end is known, nothing can be queued.
            drop(receiver);
            drop(end);
        };
        thread::Builder::new().name("outbox".into()).stack_size(STACK).spawn(write)?;
        Ok((Self { sender, facts }, Written(ended)))
    }

    /// Queues bytes. Never waits.
    pub(crate) fn send(&self, bytes: Vec<u8>) -> Result<(), Unsent> {
        self.push(bytes.len(), Entry::Bytes(bytes))
    }

    /// Queues bytes. When they are about to be written, the time (`CLOCK_MONOTONIC`, nanoseconds) is put into `at_ns`.
    pub(crate) fn send_stamped(&self, bytes: Vec<u8>, at_ns: Arc<AtomicU64>) -> Result<(), Unsent> {
        self.push(bytes.len(), Entry::Stamped(bytes, at_ns))
    }

    fn push(&self, length: usize, entry: Entry) -> Result<(), Unsent> {
        let queued = self.queued();
        if queued.saturating_add(length) > QUEUE_MOST {
            return Err(Unsent::Full(queued));
        }
        self.facts.queued.fetch_add(length, SeqCst);
        self.sender.send(entry).map_err(|_| Unsent::Closed)
    }

    /// Ends the thread, and closes what it writes to, once all that waits is written.
    pub(crate) fn close(&self) {
        // A thread that ended has closed it.
        let _ = self.sender.send(Entry::Close);
    }

    /// Bytes that wait to be written.
    pub(crate) fn queued(&self) -> usize {
        self.facts.queued.load(SeqCst)
    }

    /// Whether writing failed.
    pub(crate) fn is_broken(&self) -> bool {
        self.facts.is_broken.load(SeqCst)
    }
}

fn write(receiver: &Receiver<Entry>, mut to: impl Write, beat: Option<&[u8]>, facts: &Facts) {
    loop {
        let entry = match beat {
            Some(_) => receiver.recv_timeout(BEAT),
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let bytes = match entry {
            Ok(Entry::Bytes(bytes)) => bytes,
            Ok(Entry::Stamped(bytes, at_ns)) => {
                at_ns.store(clock::now_ns(), SeqCst);
                bytes
            }
            Err(RecvTimeoutError::Timeout) => {
                if to.write_all(beat.unwrap_or_default()).is_err() {
                    break;
                }
                continue;
            }
            Ok(Entry::Close) | Err(RecvTimeoutError::Disconnected) => return,
        };
        let written = to.write_all(&bytes);
        facts.queued.fetch_sub(bytes.len(), SeqCst);
        if written.is_err() {
            break;
        }
    }
    facts.is_broken.store(true, SeqCst);
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn all_is_written_in_order_before_the_end() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (outbox, written) = Outbox::start(writer, None).unwrap();
        let at_ns = Arc::new(AtomicU64::new(0));
        let before_ns = clock::now_ns();
        outbox.send(b"one\n".to_vec()).unwrap();
        outbox.send_stamped(b"two\n".to_vec(), Arc::clone(&at_ns)).unwrap();
        outbox.close();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\n");
        assert!(written.wait(PATIENCE));
        assert!((before_ns..=clock::now_ns()).contains(&at_ns.load(SeqCst)));
        assert_eq!((outbox.queued(), outbox.is_broken()), (0, false));
        assert_eq!(outbox.send(vec![b'x']), Err(Unsent::Closed));
    }

    #[test]
    fn a_pipe_that_nobody_reads_holds_up_nobody() {
        let (reader, writer) = io::pipe().unwrap();
        let (outbox, written) = Outbox::start(writer, Some(b"beat\n")).unwrap();
        outbox.send(vec![0; LINE_MOST]).unwrap();
        outbox.send(vec![0; LINE_MOST]).unwrap();
        assert!(matches!(outbox.send(vec![0; LINE_MOST]), Err(Unsent::Full(_))));
        outbox.close();
        assert!(!written.wait(Duration::from_millis(20)));
        drop(reader);
        assert!(written.wait(PATIENCE));
        assert!(outbox.is_broken());
    }

    #[test]
    fn a_side_shows_that_it_lives() {
        let (mut reader, writer) = io::pipe().unwrap();
        let (outbox, written) = Outbox::start(writer, Some(b"beat\n")).unwrap();
        let mut beats = [0; 10];
        reader.read_exact(&mut beats).unwrap();
        assert_eq!(&beats, b"beat\nbeat\n");
        drop(outbox);
        assert!(written.wait(PATIENCE));
    }
}

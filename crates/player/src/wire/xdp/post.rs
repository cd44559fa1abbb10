//! Frames that came by the queue of one thread and belong to another. They travel in parcels, one for each look.

use std::sync::mpsc::{Receiver, Sender, channel};

/// The post of one thread.
pub(crate) struct Post {
    to: Vec<Sender<Parcel>>,
    inbox: Receiver<Parcel>,
    /// Frames that were not delivered yet, by thread.
    outgoing: Vec<Parcel>,
    has_outgoing: bool,
}

/// Frames, one after another.
#[derive(Default)]
struct Parcel {
    bytes: Vec<u8>,
    /// The length of each, and when it arrived: nanoseconds of the monotonic clock.
    frames: Vec<(usize, u64)>,
}

impl Post {
    /// The post of each of these many threads.
    pub(super) fn of_all(threads: usize) -> Vec<Self> {
        let (to, inboxes): (Vec<_>, Vec<_>) = (0..threads).map(|_| channel()).unzip();
        let post = |inbox| Self {
            to: to.clone(),
            inbox,
            outgoing: (0..threads).map(|_| Parcel::default()).collect(),
            has_outgoing: false,
        };
        inboxes.into_iter().map(post).collect()
    }

    /// Puts a frame for another thread into its parcel.
    pub(crate) fn add(&mut self, thread: usize, frame: &[u8], arrived_ns: u64) {
        let Some(parcel) = self.outgoing.get_mut(thread) else { return };
        parcel.bytes.extend_from_slice(frame);
        parcel.frames.push((frame.len(), arrived_ns));
        self.has_outgoing = true;
    }

    /// Delivers all parcels.
    pub(crate) fn deliver(&mut self) {
        if !std::mem::take(&mut self.has_outgoing) {
            return;
        }
        for (parcel, to) in self.outgoing.iter_mut().zip(&self.to) {
            if !parcel.frames.is_empty() {
                // A thread that is gone has no use for it.
                let _ = to.send(std::mem::take(parcel));
            }
        }
    }

    /// Calls `each` for every frame that other threads delivered, with its time. Returns whether there were any.
    pub(crate) fn each(&mut self, mut each: impl FnMut(&[u8], u64)) -> bool {
        let mut any = false;
        for parcel in self.inbox.try_iter() {
            any = true;
            let mut rest = &parcel.bytes[..];
            for (length, arrived_ns) in parcel.frames {
                let (frame, others) = rest.split_at(length);
                each(frame, arrived_ns);
                rest = others;
            }
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_reach_their_thread_in_order() {
        let mut all = Post::of_all(3);
        assert!(!all[1].each(|_, _| panic!("nothing was delivered")));
        for (number, frame) in [&b"one"[..], b"", b"three"].into_iter().enumerate() {
            all[0].add(1, frame, number as u64);
        }
        all[0].add(2, b"other", 9);
        assert!(!all[1].each(|_, _| panic!("nothing was delivered")));
        all[0].deliver();
        let mut seen = Vec::new();
        assert!(all[1].each(|frame, at_ns| seen.push((frame.to_vec(), at_ns))));
        assert_eq!(seen, [(b"one".to_vec(), 0), (Vec::new(), 1), (b"three".to_vec(), 2)]);
        assert!(all[2].each(|frame, _| assert_eq!(frame, b"other")));
        all[0].deliver();
        assert!(!all[1].each(|_, _| panic!("it was delivered twice")));
    }
}

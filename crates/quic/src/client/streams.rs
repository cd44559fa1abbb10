//! The queries of a connection by their streams. A client's streams are numbered in order (RFC 9000, section 2.1).

use std::collections::VecDeque;

use crate::frames::Frames;

/// The query of a stream that is not finished.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) key: u16,
    pub(super) handed_ns: u64,
    /// Bytes of the query that the connection has not taken.
    pub(super) unsent: Vec<u8>,
    pub(super) replies: Frames,
    /// Whether a reply came.
    pub(super) is_answered: bool,
}

impl Stream {
    pub(super) fn new(key: u16, handed_ns: u64) -> Self {
        Self { key, handed_ns, unsent: Vec::new(), replies: Frames::default(), is_answered: false }
    }
}

/// The streams from the first unfinished one on.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// The number of the first of `all`.
    first: u64,
    /// `None` for those that are finished.
    all: VecDeque<Option<Stream>>,
}

impl Streams {
    /// Adds the stream of this number, which follows those before it.
    #[inline]
    pub(super) fn push(&mut self, number: u64, stream: Stream) {
        if self.all.is_empty() {
            self.first = number;
        }
        debug_assert_eq!(number, self.first + self.all.len() as u64, "streams are opened in order");
        self.all.push_back(Some(stream));
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Stream> {
        let place = number.checked_sub(self.first)?;
        self.all.get_mut(usize::try_from(place).ok()?)?.as_mut()
    }

    /// Takes the stream of this number, which is finished.
    #[inline]
    pub(super) fn remove(&mut self, number: u64) -> Option<Stream> {
        let place = number.checked_sub(self.first)?;
        let stream = self.all.get_mut(usize::try_from(place).ok()?)?.take();
        self.skip_finished();
        stream
    }

    fn skip_finished(&mut self) {
        while let Some(None) = self.all.front() {
            self.all.pop_front();
            self.first += 1;
        }
    }

    /// Takes the first unfinished stream, with its number, if its query was handed before this time.
    pub(super) fn take_older(&mut self, before_ns: u64) -> Option<(u64, Stream)> {
        self.skip_finished();
        let is_older = self.all.front()?.as_ref().is_some_and(|stream| stream.handed_ns < before_ns);
        if !is_older {
            return None;
        }
        let number = self.first;
        Some((number, self.remove(number)?))
    }

    /// Takes all streams, in order. The next one has the number 0.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Stream> + use<> {
        std::mem::take(self).all.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_found_by_its_number_until_it_is_finished() {
        let mut streams = Streams::default();
        (0..4).for_each(|number| streams.push(number, Stream::new(number as u16 + 10, number)));
        assert_eq!(streams.remove(1).map(|stream| stream.key), Some(11));
        assert!(streams.get_mut(1).is_none() && streams.remove(1).is_none());
        assert_eq!(streams.get_mut(2).map(|stream| stream.key), Some(12));
        assert_eq!(streams.remove(0).map(|stream| stream.key), Some(10));
        assert_eq!((streams.first, streams.all.len()), (2, 2));
        assert_eq!(streams.take_older(3).map(|(number, stream)| (number, stream.key)), Some((2, 12)));
        assert!(streams.take_older(3).is_none(), "it was handed later");
        assert_eq!(streams.take_all().map(|stream| stream.key).collect::<Vec<_>>(), [13]);
        streams.push(0, Stream::new(1, 9));
        assert!(streams.get_mut(0).is_some());
    }
}

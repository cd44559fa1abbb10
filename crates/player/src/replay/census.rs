//! The census of a capture's window: how many queries came by each transport, and which clients asked in each slice.
//! One pass over the window counts both, unless the facts of the capture say them.

use kqps_dataset::{CaptureFacts, Captured, Dataset};

use super::TRANSPORTS;
use super::window::Window;

/// The queries and clients of the window.
#[derive(Debug)]
pub(crate) struct Census {
    /// The queries of one pass by the numbers of their transports.
    pub(crate) queries: [u64; TRANSPORTS.len()],
    /// The transports by which each client asks, slice by slice: a bit for each, by its number.
    pub(crate) asks: Box<[u8]>,
}

impl Census {
    /// Counts the queries and clients of a window.
    pub(crate) fn from_window(dataset: &Dataset, window: &Window, capture: &CaptureFacts) -> Self {
        let clients = capture.clients as usize;
        let whole = queries_of_all(dataset, window, capture);
        if let ([_], Some(queries)) = (&*window.slices, whole) {
            let mut carried = (0..TRANSPORTS.len()).filter(|number| queries[*number] > 0);
            if let (Some(number), None) = (carried.next(), carried.next()) {
                return Self { queries, asks: vec![1_u8 << number; clients].into() };
            }
        }
        let mut asks = vec![0_u8; clients * window.slices.len()];
        let mut queries = [0; TRANSPORTS.len()];
        each(dataset, window, |slice, captured| {
            let number = captured.carried.number();
            queries[number] += 1;
            asks[slice * clients + captured.client as usize] |= 1 << number;
        });
        Self { queries, asks: asks.into() }
    }

    /// Counts the queries of one pass by the transport that each client asks by now.
    pub(crate) fn count_again(&mut self, dataset: &Dataset, window: &Window, capture: &CaptureFacts) {
        self.queries = [0; TRANSPORTS.len()];
        each(dataset, window, |slice, captured| {
            let client = slice * capture.clients as usize + captured.client as usize;
            self.queries[self.asks[client].trailing_zeros() as usize] += 1;
        });
    }
}

/// The queries of one pass over a window by the numbers of their transports.
pub(crate) fn queries(dataset: &Dataset, window: &Window, capture: &CaptureFacts) -> [u64; TRANSPORTS.len()] {
    queries_of_all(dataset, window, capture).unwrap_or_else(|| {
        let mut queries = [0; TRANSPORTS.len()];
        each(dataset, window, |_, captured| queries[captured.carried.number()] += 1);
        queries
    })
}

/// The queries of one pass from the capture's facts; `None` unless the window is the whole capture.
fn queries_of_all(
    dataset: &Dataset,
    window: &Window,
    capture: &CaptureFacts,
) -> Option<[u64; TRANSPORTS.len()]> {
    let (first, last) = (window.slices.first()?, window.slices.last()?);
    let is_whole = first.first == dataset.first() && last.end == dataset.end();
    let count = |carried| capture.by_transport.get(&carried).copied().unwrap_or(0);
    is_whole.then(|| TRANSPORTS.map(count))
}

/// Calls `each` with every query of the window and the number of its slice.
fn each(dataset: &Dataset, window: &Window, mut each: impl FnMut(usize, Captured)) {
    for (number, slice) in window.slices.iter().enumerate() {
        let mut at = slice.first;
        while at < slice.end {
            each(number, dataset.captured(at));
            at = dataset.after(at);
        }
    }
}

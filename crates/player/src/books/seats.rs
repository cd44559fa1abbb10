//! The flows that carry the present connections of a capture's places. A place has a flow of its own at first. If a
//! connection begins there while the earlier one has open queries, because the server answers later than it did, the
//! place takes a spare flow, and the earlier flow is spare once it is empty.

use std::collections::VecDeque;

/// The places of one thread, and the flows that they share.
#[derive(Debug)]
pub(super) struct Seats {
    seats: Box<[Seat]>,
    uses: Box<[Use]>,
    /// The spare flows. The one that is spare for longest comes first.
    spare: VecDeque<u32>,
}

/// Where a place stands.
#[derive(Clone, Copy, Debug)]
struct Seat {
    flow: u32,
    /// The number of the captured connection that its last query belongs to; 0 if there was none.
    connection: u64,
}

/// The use of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// The connections of a place.
    Place,
    /// A connection whose place has gone on to another flow.
    Leaving,
    Spare,
}

/// How a query of a capture stands to the connection at its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// It follows earlier queries, or connections do not begin as captured.
    Follows,
    /// It begins a connection. An earlier one at this flow has no open query.
    Alone,
    /// It begins a connection, and the earlier one of its place has open queries at another flow.
    Beside {
        /// The flow of the earlier connection.
        left: usize,
    },
    /// It should begin a connection. The earlier one has open queries, and no flow is spare.
    Joins,
}

impl Seats {
    /// The first `places` of these flows are one of each place, and all others are spare.
    pub(super) fn new(places: usize, flows: usize) -> Self {
        let of = |flow: usize| if flow < places { Use::Place } else { Use::Spare };
        Self {
            seats: (0..places as u32).map(|flow| Seat { flow, connection: 0 }).collect(),
            uses: (0..flows).map(of).collect(),
            spare: (places as u32..flows as u32).collect(),
        }
    }

    /// The flow for a query of this place and captured connection. `is_busy` is whether a flow has open queries.
    #[inline]
    pub(super) fn find(
        &self,
        place: usize,
        connection: u64,
        is_busy: impl FnOnce(usize) -> bool,
    ) -> (usize, Start) {
        let seat = self.seats[place];
        let flow = seat.flow as usize;
        if seat.connection == connection {
            return (flow, Start::Follows);
        }
        if !is_busy(flow) {
            return (flow, Start::Alone);
        }
        match self.spare.front() {
            Some(spare) => (*spare as usize, Start::Beside { left: flow }),
            None => (flow, Start::Joins),
        }
    }

    /// Notes that a query takes the flow that [`Self::find`] returned for it.
    #[inline]
    pub(super) fn take(&mut self, place: usize, connection: u64, (flow, start): (usize, Start)) {
        if start == Start::Follows {
            return;
        }
        if let Start::Beside { left } = start {
            self.spare.pop_front();
            (self.uses[left], self.uses[flow]) = (Use::Leaving, Use::Place);
        }
        self.seats[place] = Seat { flow: flow as u32, connection };
    }

    /// Notes that a flow has neither a connection nor an open query.
    pub(super) fn emptied(&mut self, flow: usize) {
        if self.uses[flow] == Use::Leaving {
            self.uses[flow] = Use::Spare;
            self.spare.push_back(flow as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands a query of a place and connection over, with these flows busy.
    fn asked(seats: &mut Seats, place: usize, connection: u64, busy: &[usize]) -> (usize, Start) {
        let found = seats.find(place, connection, |flow| busy.contains(&flow));
        seats.take(place, connection, found);
        found
    }

    #[test]
    fn a_connection_that_begins_beside_a_busy_one_takes_a_spare_flow() {
        let mut seats = Seats::new(2, 3);
        assert_eq!(asked(&mut seats, 0, 1, &[]), (0, Start::Alone));
        assert_eq!(asked(&mut seats, 0, 1, &[0]), (0, Start::Follows));
        assert_eq!(asked(&mut seats, 1, 2, &[0]), (1, Start::Alone));
        assert_eq!(asked(&mut seats, 0, 3, &[0, 1]), (2, Start::Beside { left: 0 }));
        assert_eq!(asked(&mut seats, 0, 3, &[0, 1, 2]), (2, Start::Follows));
        assert_eq!(asked(&mut seats, 1, 4, &[0, 1, 2]), (1, Start::Joins), "no flow is spare");
        assert_eq!(asked(&mut seats, 1, 4, &[0, 1, 2]), (1, Start::Follows));
        // The connections of a place may end, and it keeps its flow.
        seats.emptied(2);
        seats.emptied(0);
        seats.emptied(0);
        assert_eq!(asked(&mut seats, 0, 5, &[]), (2, Start::Alone));
        assert_eq!(asked(&mut seats, 1, 6, &[1]), (0, Start::Beside { left: 1 }));
        assert!(seats.spare.is_empty());
    }

    #[test]
    fn a_query_that_is_not_handed_over_changes_nothing() {
        let mut seats = Seats::new(1, 2);
        asked(&mut seats, 0, 1, &[]);
        for _ in 0..2 {
            assert_eq!(seats.find(0, 2, |_| true), (1, Start::Beside { left: 0 }));
        }
        assert_eq!(asked(&mut seats, 0, 1, &[0]), (0, Start::Follows));
    }
}

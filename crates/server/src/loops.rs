//! The loops of the I/O models: ways to receive datagrams from sockets and to send replies. Each file contains its
//! whole loop, top to bottom. One `match` selects the loop, once per thread, before it starts. The loops share only
//! what surrounds them: [`Worker`] has the sockets, the answer, the counts, and the stop flag.
//!
//! A loop ends soon after its worker is stopped. The thread that stops it wakes the readers of all sockets,
//! which makes blocking calls and readiness calls return.

mod blocking;
mod epoll;
mod event;
mod mmsg;
mod poll;
mod segment;
mod select;
mod spin;
mod uring;
mod xdp;

use std::io;

use crate::answer::{Answer, QUERY_BYTES};
use crate::model::Model;
use crate::worker::Worker;

/// Room for one datagram: one byte more than the longest query, so that a longer query is recognised.
const BUFFER_BYTES: usize = QUERY_BYTES + 1;

/// Datagrams received from one socket before the others have their turn.
const TURNS: usize = 100;

/// The maximum number of datagrams that a worker receives from each socket before it checks whether to stop.
pub(crate) fn turn(model: Model) -> usize {
    match model {
        Model::Blocking | Model::Spin => 1,
        Model::Poll | Model::Select | Model::Epoll | Model::Event => TURNS,
        Model::Mmsg => mmsg::MESSAGES,
        Model::Segment => segment::DATAGRAMS,
        Model::Uring => uring::DATAGRAMS,
        Model::Xdp => xdp::FRAMES,
    }
}

/// Runs a worker's loop until it is stopped or cannot go on.
pub(crate) fn run(model: Model, worker: &mut Worker<impl Answer>) -> io::Result<()> {
    match model {
        Model::Blocking => blocking::run(worker),
        Model::Spin => spin::run(worker),
        Model::Poll => poll::run(worker),
        Model::Select => select::run(worker),
        Model::Epoll => epoll::run(worker),
        Model::Event => event::run(worker),
        Model::Mmsg => mmsg::run(worker),
        Model::Segment => segment::run(worker),
        Model::Uring => uring::run(worker),
        Model::Xdp => xdp::run(worker),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::UdpSocket;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::answer::{Answered, Query};
    use crate::counts::Counts;
    use crate::setup::ServerSetup;
    use crate::sockets::bind;
    use crate::worker::StopFlag;

    /// Stops its worker at the first query.
    struct Last(Arc<AtomicBool>);

    impl Answer for Last {
        const GROWS: bool = false;

        type Many = Infallible;

        fn answer(&mut self, query: Query<'_>) -> Answered<Infallible> {
            self.0.store(true, Ordering::Relaxed);
            Answered::One(query.bytes)
        }

        fn next(&mut self, many: &mut Infallible, _: &mut [u8]) -> Option<usize> {
            match *many {}
        }
    }

    #[test]
    fn a_worker_that_must_stop_ends_with_its_turn() {
        let is_here = |model: &Model| !model.needs_device() && model.available().is_ok();
        for model in Model::ALL.iter().copied().filter(is_here) {
            let sockets = if model.serves_many() { 2 } else { 1 };
            let setup = ServerSetup::small(vec!["127.0.0.1:0".parse().unwrap(); sockets], model);
            let mut bound = bind(&setup, false, &[]).unwrap();
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            for address in &bound.addresses.datagrams {
                for _ in 0..200 {
                    client.send_to(&[0; 12], address).unwrap();
                }
            }
            let (_news, reports) = io::pipe().unwrap();
            let flag = Arc::new(AtomicBool::new(false));
            let (endpoints, stop) = (bound.workers.remove(0).endpoints, StopFlag::new(flag.clone(), reports));
            let (answer, counts) = (Last(flag), Counts::default());
            let mut worker = Worker { endpoints, answer, counts, stop, queue: None };
            run(model, &mut worker).unwrap();
            let (received, most) = (worker.counts.received as usize, sockets * turn(model));
            // The kernel decides how many datagrams a message holds, and how many complete at a time.
            let is_exact = !matches!(model, Model::Segment | Model::Uring);
            assert!(
                received == most || !is_exact && (1..most).contains(&received),
                "{model:?}: {received} of {most}"
            );
        }
    }
}

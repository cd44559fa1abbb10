//! How long worker processes may take to stop. A worker checks only after it has answered what it received, and may
//! spin for every query.

use crate::loops;
use crate::service::Description;
use crate::setup::ServerSetup;

/// About the longest time of a round of arithmetic, nanoseconds.
const ROUND_NS: u64 = 5;

/// The time that a process may take besides its work, in nanoseconds.
const SPARE_NS: u64 = 10_000_000_000;

/// The time that a process may take to stop, in nanoseconds, if the workers share `cores` cores.
pub(super) fn patience_ns(setup: &ServerSetup, service: &Description, cores: usize) -> u64 {
    let work_ns = match service {
        Description::Echo { work_ns, rounds, lock_ns, .. } => work_ns + rounds * ROUND_NS + lock_ns,
        Description::Auth(_) => 0,
    };
    let turn = loops::turn(setup.io) * setup.listen.len().max(1);
    // Workers that share a core take as long as all their work together.
    let sharing = (setup.workers() as usize).div_ceil(cores);
    SPARE_NS + work_ns * (turn * sharing) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;

    /// The time in milliseconds for two processes that serve two addresses.
    fn patience_ms(model: Model, work_ns: u64, cores: usize) -> u64 {
        let listen = vec!["127.0.0.1:0".parse().unwrap(), "[::1]:0".parse().unwrap()];
        let setup = ServerSetup { processes: 2, ..ServerSetup::small(listen, model) };
        patience_ns(&setup, &Description::Echo { work_ns, rounds: 0, lock_ns: 0, connections: None }, cores)
            / 1_000_000
    }

    #[test]
    fn a_full_turn_of_the_longest_work_is_waited_for() {
        // 8 messages of 128 datagrams from each of two sockets take 20.48 s at 10 ms each.
        assert_eq!(patience_ms(Model::Segment, 10_000_000, 2), 30_480);
        assert_eq!(patience_ms(Model::Segment, 10_000_000, 1), 50_960);
        assert_eq!(patience_ms(Model::Mmsg, 10_000_000, 8), 11_280);
        assert_eq!(patience_ms(Model::Epoll, 1_000_000, 2), 10_200);
        assert_eq!(patience_ms(Model::Segment, 0, 1), 10_000);
    }
}

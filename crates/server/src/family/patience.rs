//! How long worker processes may take to stop. One looks up only when it has answered what it took, and may spin for
//! every query.

use crate::service::Service;
use crate::setup::Setup;

/// What a process may take beside its work, nanoseconds.
const SPARE_NS: u64 = 10_000_000_000;

/// How long a process may take to stop on so many cores, nanoseconds.
pub(super) fn patience_ns(setup: &Setup, service: &Service, cores: usize) -> u64 {
    let work_ns = match service {
        Service::Echo(echo) => echo.work_ns,
        Service::Auth(_) | Service::Front(_) => 0,
    };
    let turn = setup.io.turn() * setup.listen.len();
    // Those that share a core take as long as all of their work together.
    let sharing = (setup.workers() as usize).div_ceil(cores);
    SPARE_NS + work_ns * (turn * sharing) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::echo::Echo;
    use crate::io::Model;

    /// Milliseconds for two processes that serve two addresses.
    fn patience_ms(io: Model, work_ns: u64, cores: usize) -> u64 {
        let listen = vec!["127.0.0.1:0".parse().unwrap(), "[::1]:0".parse().unwrap()];
        let setup = Setup { processes: 2, ..Setup::small(listen, io) };
        patience_ns(&setup, &Service::Echo(Echo { work_ns }), cores) / 1_000_000
    }

    #[test]
    fn a_full_turn_of_the_longest_work_is_waited_for() {
        // 8 messages of 128 datagrams from each socket, 10 ms each, take 20.48 s.
        assert_eq!(patience_ms(Model::Segment, 10_000_000, 2), 30_480);
        assert_eq!(patience_ms(Model::Segment, 10_000_000, 1), 50_960);
        assert_eq!(patience_ms(Model::Mmsg, 10_000_000, 8), 11_280);
        assert_eq!(patience_ms(Model::Epoll, 1_000_000, 2), 10_200);
        assert_eq!(patience_ms(Model::Segment, 0, 1), 10_000);
    }
}

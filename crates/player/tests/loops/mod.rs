//! The I/O models over connections, and whether this host offers them.

use kqps_player::Io;
use kqps_skips::{Capability, skip};

/// Whether this host offers an I/O model. If not, the test is reported as skipped.
pub(crate) fn is_offered(io: Io) -> bool {
    let offered = kqps_player::offers(io);
    if let Err(reason) = &offered {
        skip(Capability::Uring, format!("{}: {reason}", io.word()));
    }
    offered.is_ok()
}

/// Makes a test of each function for each I/O model, which the function takes.
macro_rules! for_each_io {
    ($($test:ident),+ $(,)?) => {
        mod epoll {
            $(
                #[test]
                fn $test() {
                    super::$test(kqps_player::Io::Epoll);
                }
            )+
        }

        mod uring {
            $(
                #[test]
                fn $test() {
                    if crate::loops::is_offered(kqps_player::Io::Uring) {
                        super::$test(kqps_player::Io::Uring);
                    }
                }
            )+
        }
    };
}
pub(crate) use for_each_io;

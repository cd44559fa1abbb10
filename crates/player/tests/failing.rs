//! A thread that fails while the trial is under way ends it. The only test of its process, for whose limits it changes.

mod support;

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use kqps_dataset::Format;
use kqps_kernel::limits::raise_open_files;
use kqps_player::{Control, Io, LoadPlan, Plan, PlayError, Stop, play};
use support::{Queries, plan};

/// Lets this process have one open file from now on. Those that it has stay open.
fn limit_open_files() {
    let process = std::process::id().to_string();
    let done = Command::new("prlimit").args(["--pid", &process, "--nofile=1:"]).status().unwrap();
    assert!(done.success(), "prlimit (util-linux)");
}

#[test]
fn a_thread_that_fails_in_mid_trial_ends_it_with_its_error() {
    let queries = Queries::of("a.test A\n", Format::Auto);
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    // An hour, which nobody waits for.
    let hour = Duration::from_hours(1);
    let load = LoadPlan::Closed { outstanding: 2 };
    let plan = Plan {
        stop: Stop { after: Some(hour), passes: None },
        timeout: hour,
        drain: hour,
        lag_allowed: hour,
        sockets: 3,
        threads: 2,
        ..plan(silent.local_addr().unwrap(), load, Io::Mmsg)
    };
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Both threads are under way.
            for _ in 0..2 {
                silent.recv_from(&mut [0; 512]).unwrap();
            }
            // More files than a process may have open cannot be polled (poll(2), EINVAL): the thread with two sockets
            // fails, and the one with one does not.
            limit_open_files();
        });
        play(&plan, &queries.dataset, &Control::new(2)).unwrap_err()
    });
    raise_open_files().unwrap();
    let PlayError::Loop { io: "mmsg", error } = error else { panic!("{error}") };
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
}

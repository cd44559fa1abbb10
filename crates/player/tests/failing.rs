//! A thread that fails during the trial ends it. This test is alone in its process, because it changes the process's
//! limits.

mod support;

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use kqps_dataset::Format;
use kqps_kernel::limits::raise_open_files;
use kqps_player::{Control, Io, LoadPlan, Plan, PlayError, Stop, play};
use support::{Queries, no_subject, plan};

/// Limits this process to one open file. Files that are already open stay open.
fn limit_open_files() {
    let process = std::process::id().to_string();
    let done = Command::new("prlimit").args(["--pid", &process, "--nofile=1:"]).status().unwrap();
    assert!(done.success(), "prlimit (util-linux)");
}

#[test]
fn a_thread_that_fails_in_mid_trial_ends_it_with_its_error() {
    let queries = Queries::new("a.test A\n", Format::Auto);
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    // An hour; the trial ends long before.
    let hour = Duration::from_hours(1);
    let load = LoadPlan::Closed { outstanding: 2 };
    let plan = Plan {
        stop: Stop { after: Some(hour), passes: None },
        timeout: hour,
        drain: hour,
        lag_allowed: hour,
        threads: 2,
        ..plan(silent.local_addr().unwrap(), 3, load, Io::Mmsg)
    };
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Both threads are under way.
            for _ in 0..2 {
                silent.recv_from(&mut [0; 512]).unwrap();
            }
            // A process cannot poll more files than it may have open (poll(2), EINVAL). So the thread with two sockets
            // fails, and the thread with one socket does not.
            limit_open_files();
        });
        play(&plan, &queries.dataset, &Control::new(2), no_subject).unwrap_err()
    });
    raise_open_files().unwrap();
    let PlayError::Loop { io: "mmsg", error } = error else { panic!("{error}") };
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
}

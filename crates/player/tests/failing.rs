//! A thread that fails while the trial is under way ends it. The only test of its process, for whose limits it changes.

use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

use kqps_dataset::{Dataset, Options};
use kqps_kernel::limits::raise_open_files;
use kqps_player::{Control, Io, LoadPlan, Plan, PlayError, Stop, play};

/// Lets this process have one open file from now on. Those that it has stay open.
fn limit_open_files() {
    let process = std::process::id().to_string();
    let done = Command::new("prlimit").args(["--pid", &process, "--nofile=1:"]).status().unwrap();
    assert!(done.success(), "prlimit (util-linux)");
}

#[test]
fn a_thread_that_fails_in_mid_trial_ends_it_with_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queries");
    std::fs::write(&file, "a.test A\n").unwrap();
    let options = Options { cache_dir: Some(folder.path().join("cache")), ..Options::default() };
    let dataset = Dataset::open(&file, &options).unwrap();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    // An hour, which nobody waits for.
    let hour = Duration::from_hours(1);
    let plan = Plan {
        targets: vec![silent.local_addr().unwrap()],
        load: LoadPlan::Closed { outstanding: 2 },
        stop: Stop { after: Some(hour), passes: None },
        timeout: hour,
        drain: hour,
        lag_allowed: hour,
        coalesce: Duration::ZERO,
        burst: 32,
        sockets: 3,
        threads: 2,
        cpus: Vec::new(),
        own_cores: false,
        io: Io::Mmsg,
        buffer_bytes: None,
        local: None,
        local_port: None,
        seed: 1,
        subject_pid: None,
        subject_cpus: Vec::new(),
        drop_reasons: false,
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
        play(&plan, &dataset, &Control::new(2)).unwrap_err()
    });
    raise_open_files().unwrap();
    let PlayError::Loop { io: "mmsg", error } = error else { panic!("{error}") };
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{error}");
}

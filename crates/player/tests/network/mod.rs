//! Tests in a network namespace of their own.

use std::process::Command;

use kqps_kernel::namespace::enter_new_network;
use kqps_skips::{Capability, skip};

/// Calls `act` in a new network namespace that these lines of shell set up, if the host allows it.
pub(crate) fn in_own_network(setup: &str, act: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let done = scope.spawn(|| {
            if let Err(error) = enter_new_network() {
                skip(Capability::Networks, error);
                return;
            }
            let output = Command::new("sh").args(["-ec", setup]).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            act();
        });
        done.join().unwrap();
    });
}

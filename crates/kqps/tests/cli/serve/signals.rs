//! Signals that come to a server, to a worker process of it, or too early.

use std::process::{Command, Stdio};

use kqps_kernel::process::{Signal, signal};

use super::running::Running;
use super::sent::{flow, query, reply};

/// Has each query answered before the next is sent.
fn ask(server: &Running, queries: u16) {
    let flow = flow(server.addresses[0]);
    for id in 0..queries {
        flow.send(&query(id)).unwrap();
        let mut buffer = [0; 512];
        let bytes = flow.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..bytes], reply(id));
    }
}

#[test]
fn under_nohup_an_echo_goes_on_when_the_terminal_is_gone() {
    for processes in ["1", "2"] {
        let mut command = Command::new("nohup");
        command.args([env!("CARGO_BIN_EXE_kqps"), "serve", "echo", "--json", "--listen", "127.0.0.1:0"]);
        let server = Running::spawn(
            command.args(["--processes", processes]).stdin(Stdio::null()).stdout(Stdio::piped()),
        );
        signal(server.child.id(), Signal::HangUp).unwrap();
        server.processes().iter().for_each(|&child| signal(child, Signal::HangUp).unwrap());
        ask(&server, 1000);
        assert_eq!(server.stop(Signal::Terminate).answered, 1000);
    }
}

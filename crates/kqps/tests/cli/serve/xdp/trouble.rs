//! Servers whose device is down for a moment, or removed.

use std::time::{Duration, Instant};

use kqps_kernel::process::Signal;

use super::super::PATIENCE;
use super::super::sent::{query, reply};
use super::{PORT, Pair, ask};

/// Far fewer replies than these wait for a server that works for 1 ms at each, until the device is up again.
const OUTAGE: Duration = Duration::from_millis(400);
const SENT: u16 = 1000;

#[test]
fn a_device_that_is_down_for_a_moment_ends_no_server() {
    let Some(pair) = Pair::new(1) else { return };
    let server = pair.serve("echo", PORT, &["--io", "xdp", "--work", "1ms"]);
    let flow = pair.flow(PORT);
    (0..SENT).for_each(|id| assert_eq!(flow.send(&query(id)).unwrap(), query(id).len()));
    // The server answers, and most queries wait in its ring.
    assert_eq!(flow.recv(&mut [0; 512]).unwrap(), reply(0).len());
    pair.shell(true, "ip link set kqps0 down").unwrap();
    std::thread::sleep(OUTAGE);
    pair.shell(true, "ip link set kqps0 up").unwrap();
    let later = pair.flow(PORT);
    later.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let (begin, mut buffer) = (Instant::now(), [0; 512]);
    // The kernel of the near end may drop queries until it has noticed that the link is up.
    let bytes = loop {
        later.send(&query(SENT)).unwrap();
        if let Ok(bytes) = later.recv(&mut buffer) {
            break bytes;
        }
        assert!(begin.elapsed() < PATIENCE, "the server answers no more");
    };
    assert_eq!(buffer[..bytes], reply(SENT));
    let report = server.stop(Signal::Terminate);
    assert!(report.dropped["send-failed-ENETDOWN"] > 0, "{:?}", report.dropped);
    assert_eq!(report.received, report.answered + report.dropped.values().sum::<u64>());
    let xdp = report.xdp.unwrap();
    assert_eq!(xdp.unsettled(), 0, "{xdp:?}");
}

#[test]
fn a_device_that_is_removed_ends_the_server_with_that_reason() {
    let Some(pair) = Pair::new(1) else { return };
    let server = pair.serve("echo", PORT, &["--io", "xdp", "--for", "20s"]);
    assert_eq!(ask(&pair.flow(PORT), &query(1)), reply(1));
    pair.shell(true, "ip link del kqps0").unwrap();
    let (status, errors) = server.end();
    assert_eq!(status.code(), Some(1), "{errors}");
    assert!(errors.contains("worker 0 (xdp): the device is gone"), "{errors}");
}

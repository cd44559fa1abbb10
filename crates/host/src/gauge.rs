//! How fast cores are at this moment. On a rented host two virtual cores may share a physical one, or not, and that changes
//! every few seconds or minutes; it shows only where all cores that matter work at the same time. The work is what name
//! servers do most: system calls that send and receive small datagrams.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use kqps_kernel::{affinity, clock};
use kqps_observation::gauge::{CoreGauge, GaugeFacts};

/// How long it usually works.
pub const USUAL: Duration = Duration::from_millis(10);

/// A turn takes microseconds. One that takes longer than this, nanoseconds, is a core that stood still, not a slow one.
const STALL_NS: u64 = 500_000;

/// Bytes of a datagram: a small query.
const BYTES: usize = 40;

/// Works on all of these cores at the same time, for so long, as an ordinary thread on each that loses to others what a
/// name server would lose. Call it while the subject is idle. Fails where a core is not allowed here, and where the
/// loopback device is down.
pub fn read(cpus: &[u32], duration: Duration) -> io::Result<GaugeFacts> {
    let begin = Barrier::new(cpus.len());
    let work = |cpu: u32| {
        let prepared = affinity::pin_thread(cpu).and_then(|()| own_socket());
        begin.wait();
        prepared.and_then(|socket| turns(cpu, &socket, duration.as_nanos() as u64))
    };
    thread::scope(|scope| {
        let workers: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(move || work(cpu))).collect();
        let cores = workers.into_iter().map(|worker| {
            worker.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the gauge panicked")))
        });
        Ok(GaugeFacts { cores: cores.collect::<io::Result<_>>()? })
    })
}

/// A socket that sends to itself.
fn own_socket() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(socket.local_addr()?)?;
    // Over loopback a datagram has arrived when its sending is over; one that has not is no reason to wait for ever.
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    Ok(socket)
}

/// Sends and receives one datagram after another.
fn turns(cpu: u32, socket: &UdpSocket, duration_ns: u64) -> io::Result<CoreGauge> {
    let (mut turns, mut stalled_ns) = (0_u64, 0);
    let mut buffer = [0; BYTES];
    let began_ns = clock::now_ns();
    let mut now_ns = began_ns;
    while now_ns - began_ns < duration_ns {
        socket.send(&buffer)?;
        socket.recv(&mut buffer)?;
        let after_ns = clock::now_ns();
        let took_ns = after_ns - now_ns;
        if took_ns > STALL_NS {
            stalled_ns += took_ns;
        } else {
            turns += 1;
        }
        now_ns = after_ns;
    }
    let worked_ns = (now_ns - began_ns).saturating_sub(stalled_ns).max(1);
    Ok(CoreGauge {
        cpu,
        turns_per_s: turns as f64 / worked_ns as f64 * 1e9,
        stalled_s: stalled_ns as f64 / 1e9,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_core_is_gauged_and_one_that_does_not_exist_is_an_error() {
        let cpus = affinity::allowed().unwrap();
        let facts = read(&cpus, Duration::from_millis(2)).unwrap();
        assert_eq!(facts.cores.iter().map(|core| core.cpu).collect::<Vec<_>>(), cpus);
        // No socket is this fast; slower than this is no host on which anything is measured, standstills apart.
        let is_sane =
            |core: &CoreGauge| core.turns_per_s < 1e8 && (core.turns_per_s > 0.0 || core.stalled_s > 0.0);
        assert!(facts.cores.iter().all(is_sane), "{facts:?}");
        let error = read(&[cpus[0], 4_000], Duration::from_millis(2)).unwrap_err();
        assert!(error.to_string().contains("4000"), "{error}");
    }
}

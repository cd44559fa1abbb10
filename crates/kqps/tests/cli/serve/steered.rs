//! `kqps serve echo --steer cpu`: a packet, or a new connection, goes to the worker on the core that received it.

use std::net::SocketAddr;

use kqps_kernel::affinity;
use kqps_kernel::process::{Signal, signal};
use kqps_server::Report;
use kqps_skips::{Capability, skip};

use super::connections::addresses;
use super::running::Running;
use super::sent::{ROUNDS, Sent, wait_until_read};
use crate::auth::dns::{A, ask_by, connect, query};
use crate::load::encrypted;

/// Starts steered workers on these cores, plays `flows` flows from each core at this address, and stops the
/// server. Returns its counts.
fn played(flags: &[&str], cpus: &str, asked: &str, flows: &[(u32, usize)]) -> Report {
    let steered = ["--sockets", "reuseport", "--steer", "cpu", "--cpus", cpus];
    let server = Running::start(&[&steered, flags].concat());
    let to = SocketAddr::new(asked.parse().unwrap(), server.addresses[0].port());
    for &(cpu, flows) in flows {
        let play = move || {
            affinity::pin_thread(cpu).unwrap();
            Sent::default().play(to, flows);
        };
        std::thread::spawn(play).join().unwrap();
    }
    wait_until_read(to.port());
    server.stop(Signal::Terminate)
}

#[test]
fn a_flow_stays_on_its_core() {
    let cpus = affinity::allowed().unwrap();
    if cpus.len() < 2 {
        return skip(Capability::Cores, "one core only");
    }
    // The second core first: the order of the list counts, not the cores' numbers.
    let list = format!("{},{}", cpus[1], cpus[0]);
    for (listen, asked) in [("127.0.0.1:0", "127.0.0.1"), ("0.0.0.0:0", "127.0.0.2")] {
        for reply in ["same", "own"] {
            let flags = ["--threads", "2", "--listen", listen, "--reply", reply];
            let report = played(&flags, &list, asked, &[(cpus[0], 20), (cpus[1], 10)]);
            let by_core: Vec<_> = report.workers.iter().map(|worker| (worker.cpu, worker.answered)).collect();
            let each = u64::from(ROUNDS);
            assert_eq!(by_core, [(Some(cpus[1]), 10 * each), (Some(cpus[0]), 20 * each)]);
        }
    }
}

#[test]
fn where_cores_have_several_workers_none_of_them_starves() {
    const FLOWS: usize = 40;
    let cpus: Vec<u32> = affinity::allowed().unwrap().into_iter().take(2).collect();
    let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
    let flows: Vec<(u32, usize)> = cpus.iter().map(|&cpu| (cpu, FLOWS)).collect();
    for (listen, asked) in [("127.0.0.1:0", "127.0.0.1"), ("[::]:0", "::1")] {
        for workers in [["--threads", "4"], ["--processes", "4"]] {
            let flags = [&workers[..], &["--listen", listen]].concat();
            let report = played(&flags, &list.join(","), asked, &flows);
            let of_core = |cpu| report.workers.iter().filter(move |worker| worker.cpu == Some(cpu));
            for &cpu in &cpus {
                assert_eq!(of_core(cpu).count(), 4 / cpus.len());
                let answered: u64 = of_core(cpu).map(|worker| worker.answered).sum();
                assert_eq!(answered, FLOWS as u64 * u64::from(ROUNDS), "on core {cpu}");
                // Each flow has one worker.
                let whole = |count: u64| count > 0 && count.is_multiple_of(u64::from(ROUNDS));
                assert!(of_core(cpu).all(|worker| whole(worker.answered)), "{:?}", report.workers);
            }
        }
    }
}

/// A server over this transport whose two processes have a core each, with its URL and the issuer of its certificate.
fn of_two_processes(scheme: &str, cpus: &[u32]) -> (Running, String, String) {
    let list = format!("{},{}", cpus[0], cpus[1]);
    encrypted::server(scheme, &["--processes", "2", "--cpus", &list, "--steer", "cpu"])
}

/// Suspends the process of the other core while `play` plays from each core of the list. A query that reached that
/// process would get no answer.
fn alone(server: &Running, cpus: &[u32], mut play: impl FnMut(u32)) {
    for (at, cpu) in cpus.iter().enumerate() {
        let other = server.processes()[1 - at];
        signal(other, Signal::Stop).unwrap();
        play(*cpu);
        signal(other, Signal::Continue).unwrap();
    }
}

#[test]
fn a_connection_goes_to_the_worker_on_the_core_that_it_came_in_on() {
    const CONNECTIONS: u64 = 20;
    let cpus = affinity::allowed().unwrap();
    if cpus.len() < 2 {
        return skip(Capability::Cores, "one core only");
    }
    let (server, _, _) = of_two_processes("tcp", &cpus[..2]);
    let to = addresses(&server, "tcp")[0];
    alone(&server, &cpus[..2], |cpu| {
        let ask = move || {
            affinity::pin_thread(cpu).unwrap();
            for id in 0..CONNECTIONS {
                ask_by(&mut connect(to), &query(id as u16, "www.auth.test", A));
            }
        };
        std::thread::spawn(ask).join().unwrap();
    });
    assert_eq!(server.stop(Signal::Terminate).tcp.unwrap().connections, 2 * CONNECTIONS);
    for scheme in ["tls", "https", "quic"] {
        let (server, url, ca) = of_two_processes(scheme, &cpus[..2]);
        alone(&server, &cpus[..2], |cpu| {
            let trial =
                encrypted::played(&url, &["--ca", &ca, "-c", "8", "--cpus", &cpu.to_string(), "-t", "10s"]);
            let made = trial.connections.as_ref().unwrap();
            assert_eq!((trial.accounts.correct, made.attempts, made.established), (1000, 8, 8), "{scheme}");
        });
        server.stop(Signal::Terminate);
    }
}

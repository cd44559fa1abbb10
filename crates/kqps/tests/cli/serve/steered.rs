//! `kqps serve echo --steer cpu`: a packet goes to the worker on the core that received it.

use std::net::SocketAddr;

use kqps_kernel::affinity;
use kqps_kernel::process::Signal;
use kqps_server::Report;
use kqps_skips::{Capability, skip};

use super::running::Running;
use super::sent::{ROUNDS, Sent, wait_until_read};

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

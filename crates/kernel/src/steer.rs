//! Steering packets to the worker on the core where they came in.

use std::io;
use std::os::fd::AsRawFd;

use crate::sys::{check, set_option};
use crate::udp::UdpSocket;

/// Chooses among the sockets of an `SO_REUSEPORT` group by the core that takes a packet in: a core in `cpus`
/// gets the socket of the same place in that list, any other core its number modulo the group's size. The
/// socket is any of the group; places are those of binding. (`SO_ATTACH_REUSEPORT_CBPF`, socket(7).)
pub fn by_cpu(socket: &UdpSocket, cpus: &[u32], group: u32) -> io::Result<()> {
    let mut program = program(cpus, group);
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the filter is live and as long as told; the kernel copies it.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const filter).cast(),
            length,
        )
    })
    .map(drop)
}

/// Prefers this socket of its `SO_REUSEPORT` group for packets that this core takes in
/// (`SO_INCOMING_CPU`, socket(7)).
pub fn incoming_cpu(socket: &UdpSocket, cpu: u32) -> io::Result<()> {
    set_option(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_INCOMING_CPU, cpu as libc::c_int)
}

/// The classic BPF program: load the core's number, compare it with each in the list, else take the modulus.
fn program(cpus: &[u32], group: u32) -> Vec<libc::sock_filter> {
    let step = |code: u32, jump_if_not: u8, value: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: jump_if_not,
        k: value,
    };
    let core = (libc::SKF_AD_OFF + libc::SKF_AD_CPU) as u32;
    let mut program = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, core)];
    for (&cpu, place) in cpus.iter().zip(0..group) {
        program.push(step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, cpu));
        program.push(step(libc::BPF_RET | libc::BPF_K, 0, place));
    }
    program.push(step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, 0, group));
    program.push(step(libc::BPF_RET | libc::BPF_A, 0, 0));
    program
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::{allowed, pin_thread};
    use crate::udp::{Peer, UdpOptions, Wait};

    const GROUP: u32 = 3;

    fn group() -> Vec<UdpSocket> {
        let options = UdpOptions { reuse_port: true, ..UdpOptions::default() };
        let first = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let address = first.local_addr().unwrap();
        let mut group = vec![first];
        group.extend((1..GROUP).map(|_| UdpSocket::bind(address, &options).unwrap()));
        group
    }

    /// Sends from one core, over many source ports, and says which sockets of the group got something.
    fn takers(group: &[UdpSocket], cpu: u32) -> Vec<usize> {
        let peer = Peer { address: group[0].local_addr().unwrap().into(), asked: None };
        std::thread::spawn(move || {
            pin_thread(cpu).unwrap();
            for _ in 0..20 {
                let from = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
                from.send(b"x", &peer).unwrap();
            }
        })
        .join()
        .unwrap();
        let got = |socket: &UdpSocket| socket.recv(&mut [0; 8], &mut Peer::default(), Wait::No).unwrap();
        (0..group.len()).filter(|&index| std::iter::from_fn(|| got(&group[index])).count() > 0).collect()
    }

    #[test]
    fn every_core_has_its_socket() {
        let cpus = allowed().unwrap();
        let group = group();
        // The first core is listed in the last place, the others are not listed.
        let listed = [u32::MAX, u32::MAX - 1, cpus[0]];
        by_cpu(&group[0], &listed, GROUP).unwrap();
        assert_eq!(takers(&group, cpus[0]), [2]);
        for &cpu in &cpus[1..] {
            assert_eq!(takers(&group, cpu), [(cpu % GROUP) as usize]);
        }
    }

    #[test]
    fn a_socket_can_ask_for_a_core() {
        let cpu = *allowed().unwrap().last().unwrap();
        let group = group();
        incoming_cpu(&group[1], cpu).unwrap();
        assert_eq!(takers(&group, cpu), [1]);
    }
}

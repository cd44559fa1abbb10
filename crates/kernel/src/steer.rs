//! Steering packets to the worker on the core that received them.

use std::borrow::Borrow;
use std::io;
use std::os::fd::AsRawFd;

use crate::sys::{check, set_option};
use crate::udp::UdpSocket;

/// Steers each packet to a socket of the core that received it. The sockets form an `SO_REUSEPORT` group in the
/// order in which they were bound, and belong to the cores of `cpus` in turn, beginning again after the last core.
/// If a core has several sockets, each flow keeps to one of them. A BPF program steers or, if the kernel accepts
/// none, the preference of each socket. No core may appear twice.
pub fn to_cores(group: &[impl Borrow<UdpSocket>], cpus: &[u32]) -> io::Result<()> {
    let Some(first) = group.first() else { return Ok(()) };
    by_cpu(first.borrow(), cpus, group.len() as u32).or_else(|_| {
        let mut each = group.iter().zip(cpus.iter().cycle());
        each.try_for_each(|(socket, &cpu)| incoming_cpu(socket.borrow(), cpu))
    })
}

/// Attaches a program that selects a socket of the group (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)). A core that is not
/// in the list uses the socket whose index is the core's number modulo the size of the group.
pub(crate) fn by_cpu(socket: &UdpSocket, cpus: &[u32], group: u32) -> io::Result<()> {
    let mut program = program(cpus, group, socket.local_addr()?.is_ipv6());
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the filter is live and `len` is its length; the kernel copies it.
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

/// Makes the kernel prefer this socket of its `SO_REUSEPORT` group for packets that this core receives
/// (`SO_INCOMING_CPU`, socket(7)). Among several such sockets the kernel selects one by flow.
pub(crate) fn incoming_cpu(socket: &UdpSocket, cpu: u32) -> io::Result<()> {
    set_option(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_INCOMING_CPU, cpu as libc::c_int)
}

/// The classic BPF program: load the core's number, compare it with each core of the list, else take the modulus.
fn program(cpus: &[u32], group: u32, is_ipv6: bool) -> Vec<libc::sock_filter> {
    let cpus = &cpus[..cpus.len().min(group as usize)];
    let mut program = vec![load(libc::BPF_W, libc::SKF_AD_OFF + libc::SKF_AD_CPU)];
    for (&cpu, place) in cpus.iter().zip(0..) {
        let found = place_of_core(place, cpus.len() as u32, group, is_ipv6);
        let mut compare = step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, cpu);
        compare.jf = found.len() as u8;
        program.push(compare);
        program.extend(found);
    }
    program.push(step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, group));
    program.push(step(libc::BPF_RET | libc::BPF_A, 0));
    program
}

/// Returns from the program with a socket of the core at index `place` of the list. The sockets of this core have
/// the indices `place`, `place` + `cores`, and so on. A hash of the flow selects one, so that one worker receives
/// the whole flow.
fn place_of_core(place: u32, cores: u32, group: u32, is_ipv6: bool) -> Vec<libc::sock_filter> {
    let sockets = (group - place).div_ceil(cores);
    if sockets == 1 {
        return vec![step(libc::BPF_RET | libc::BPF_K, place)];
    }
    // The last four bytes of the source address, and the source port behind an IP header without options (RFC 791,
    // section 3.1; RFC 8200, section 3; RFC 768). With options, other bytes of the packet are hashed, and the result
    // is still valid.
    let (address, port) = if is_ipv6 { (20, 40) } else { (12, 20) };
    vec![
        load(libc::BPF_W, libc::SKF_NET_OFF + address),
        step(libc::BPF_MISC | libc::BPF_TAX, 0),
        load(libc::BPF_H, libc::SKF_NET_OFF + port),
        step(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X, 0),
        // Multiplication by the golden ratio spreads consecutive ports and addresses over all sockets.
        step(libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K, 0x9e37_79b1),
        step(libc::BPF_ALU | libc::BPF_RSH | libc::BPF_K, 16),
        step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, sockets),
        step(libc::BPF_ALU | libc::BPF_MUL | libc::BPF_K, cores),
        step(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_K, place),
        step(libc::BPF_RET | libc::BPF_A, 0),
    ]
}

/// Loads a value at this offset of the packet, or one of the kernel's values about the packet.
fn load(size: u32, at: libc::c_int) -> libc::sock_filter {
    step(libc::BPF_LD | libc::BPF_ABS | size, at as u32)
}

fn step(code: u32, value: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k: value }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use super::*;
    use crate::affinity::{allowed, pin_thread};
    use crate::udp::{Peer, UdpOptions, Wait};

    const GROUP: u32 = 3;

    fn group(ip: IpAddr) -> Vec<UdpSocket> {
        let options = UdpOptions { reuse_port: true, ..UdpOptions::default() };
        let first = UdpSocket::bind((ip, 0).into(), &options).unwrap();
        let address = first.local_addr().unwrap();
        let mut group = vec![first];
        group.extend((1..GROUP).map(|_| UdpSocket::bind(address, &options).unwrap()));
        group
    }

    fn group_of_ipv4() -> Vec<UdpSocket> {
        group(Ipv4Addr::LOCALHOST.into())
    }

    /// Sends two datagrams from each of `flows` flows on one core. Returns the sockets of the group that received
    /// any.
    fn takers_of(flows: usize, group: &[UdpSocket], cpu: u32) -> Vec<usize> {
        let to = group[0].local_addr().unwrap();
        let peer = Peer { address: to.into(), asked: None };
        std::thread::spawn(move || {
            pin_thread(cpu).unwrap();
            for _ in 0..flows {
                let from = UdpSocket::bind((to.ip(), 0).into(), &UdpOptions::default()).unwrap();
                for _ in 0..2 {
                    from.send(b"x", &peer).unwrap();
                }
            }
        })
        .join()
        .unwrap();
        let got = |socket: &UdpSocket| socket.recv(&mut [0; 8], &mut Peer::default(), Wait::No).unwrap();
        (0..group.len()).filter(|&index| std::iter::from_fn(|| got(&group[index])).count() > 0).collect()
    }

    fn takers(group: &[UdpSocket], cpu: u32) -> Vec<usize> {
        takers_of(20, group, cpu)
    }

    #[test]
    fn every_core_has_its_socket() {
        let cpus = allowed().unwrap();
        let group = group_of_ipv4();
        // The first core is last in the list; the other cores are not in it.
        let listed = [u32::MAX, u32::MAX - 1, cpus[0]];
        to_cores(&group, &listed).unwrap();
        assert_eq!(takers(&group, cpus[0]), [2]);
        for &cpu in &cpus[1..] {
            assert_eq!(takers(&group, cpu), [(cpu % GROUP) as usize]);
        }
    }

    #[test]
    fn the_sockets_of_one_core_share_its_flows() {
        let cpu = allowed().unwrap()[0];
        for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            let group = group(ip);
            to_cores(&group, &[cpu]).unwrap();
            // The chance that one of three gets no flow is one in ten thousand million.
            assert_eq!(takers_of(60, &group, cpu), [0, 1, 2], "{ip}");
            assert_eq!(takers_of(1, &group, cpu).len(), 1, "{ip}");
            to_cores(&group, &[cpu, u32::MAX]).unwrap();
            assert_eq!(takers_of(60, &group, cpu), [0, 2], "{ip}");
            to_cores(&group, &[u32::MAX, cpu]).unwrap();
            assert_eq!(takers_of(60, &group, cpu), [1], "{ip}");
            to_cores(&group, &[u32::MAX, u32::MAX - 1, cpu, u32::MAX - 2]).unwrap();
            assert_eq!(takers_of(60, &group, cpu), [2], "{ip}");
        }
    }

    #[test]
    fn where_no_program_is_taken_each_socket_prefers_its_core() {
        let cpu = *allowed().unwrap().last().unwrap();
        for (cpus, wanted) in [([u32::MAX >> 1, cpu], vec![1]), ([cpu, u32::MAX >> 1], vec![0, 2])] {
            let group = group_of_ipv4();
            // A socket whose filter is locked accepts no other (socket(7)).
            set_option(group[0].as_raw_fd(), libc::SOL_SOCKET, libc::SO_LOCK_FILTER, 1).unwrap();
            assert_eq!(by_cpu(&group[0], &cpus, GROUP).unwrap_err().raw_os_error(), Some(libc::EPERM));
            to_cores(&group, &cpus).unwrap();
            assert_eq!(takers_of(60, &group, cpu), wanted, "{cpus:?}");
        }
    }
}

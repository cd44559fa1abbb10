//! Steering packets and new connections to the worker on the core that received them, and packets of QUIC to the worker
//! that has their connection.

use std::io;
use std::os::fd::{AsFd, AsRawFd as _};

use rustix::net::sockopt::set_socket_incoming_cpu;
use socket2::SockRef;

use crate::sys::check;

/// The index that a program returns to leave the choice to the kernel; no group has it.
const NONE_OF_THEM: u32 = u32::MAX;

/// Steers each packet, or each new connection of TCP, to a socket of the core that received it. The sockets form an
/// `SO_REUSEPORT` group in the order in which they were bound, or began to listen, and belong to the cores of `cpus` in
/// turn, beginning again after the last core. If a core has several sockets, each flow keeps to one of them. A BPF
/// program steers or, if the kernel accepts none, the preference of each socket. No core may appear twice.
pub fn to_cores(group: &[impl AsFd], cpus: &[u32]) -> io::Result<()> {
    let Some(first) = group.first() else { return Ok(()) };
    by_cpu(first, cpus, group.len() as u32).or_else(|_| {
        let mut each = group.iter().zip(cpus.iter().cycle());
        each.try_for_each(|(socket, &cpu)| incoming_cpu(socket, cpu))
    })
}

/// Steers each packet of QUIC to the socket that its destination connection ID names: the first two bytes of an ID of
/// `id_bytes` bytes, in network byte order, are the index of a socket of the group. All IDs of packets with a short
/// header are taken for such IDs. Packets with another ID, which are a client's first, go to a socket of the core that
/// received them as with [`to_cores`], or without `cpus` to the one that the kernel chooses by addresses and ports.
///
/// # Errors
///
/// If the kernel accepts no program for the group.
pub fn to_owners(group: &[impl AsFd], id_bytes: u8, cpus: Option<&[u32]>) -> io::Result<()> {
    let Some(first) = group.first() else { return Ok(()) };
    let sockets = group.len() as u32;
    let mut program = by_id(id_bytes, sockets);
    match cpus {
        Some(cpus) => program.extend(by_core(cpus, sockets, is_ipv6(first)?)),
        None => program.push(step(libc::BPF_RET | libc::BPF_K, NONE_OF_THEM)),
    }
    attach(first, &mut program)
}

fn is_ipv6(socket: &impl AsFd) -> io::Result<bool> {
    Ok(SockRef::from(socket).local_addr()?.is_ipv6())
}

/// Attaches a program that selects a socket of the group by the core. A core that is not in the list uses the socket
/// whose index is the core's number modulo the size of the group.
pub(crate) fn by_cpu(socket: &impl AsFd, cpus: &[u32], group: u32) -> io::Result<()> {
    attach(socket, &mut by_core(cpus, group, is_ipv6(socket)?))
}

/// Attaches a program that selects a socket of the group (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)).
fn attach(socket: &impl AsFd, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
    // SAFETY: the filter is live and `len` is its length; the kernel copies it.
    check(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
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
pub(crate) fn incoming_cpu(socket: &impl AsFd, cpu: u32) -> io::Result<()> {
    Ok(set_socket_incoming_cpu(socket, cpu)?)
}

/// The beginning of a classic BPF program: return the index in a connection ID of this length, or go on behind it. The
/// offsets are those in a packet of QUIC, where the program begins to see a datagram (RFC 8999, section 5).
fn by_id(id_bytes: u8, group: u32) -> Vec<libc::sock_filter> {
    const LONG_HEADER: u32 = 0x80;
    let jump = |code: u32, value: u32, jt: u8, jf: u8| libc::sock_filter {
        code: (libc::BPF_JMP | code) as u16,
        jt,
        jf,
        k: value,
    };
    vec![
        load(libc::BPF_B, 0),
        jump(libc::BPF_JSET | libc::BPF_K, LONG_HEADER, 0, 4),
        load(libc::BPF_B, 5),
        jump(libc::BPF_JEQ | libc::BPF_K, id_bytes.into(), 0, 5),
        load(libc::BPF_H, 6),
        jump(libc::BPF_JA, 1, 0, 0),
        load(libc::BPF_H, 1),
        jump(libc::BPF_JGE | libc::BPF_K, group, 1, 0),
        step(libc::BPF_RET | libc::BPF_A, 0),
    ]
}

/// A classic BPF program: load the core's number, compare it with each core of the list, else take the modulus.
fn by_core(cpus: &[u32], group: u32, is_ipv6: bool) -> Vec<libc::sock_filter> {
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
    use crate::sys::set_option;
    use crate::tcp;
    use crate::udp::{Peer, UdpOptions, UdpSocket, Wait};

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
    fn new_connections_are_steered_too() {
        let cpus = allowed().unwrap();
        for ip in [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()] {
            let group = tcp::listen((ip, 0).into(), 3).unwrap();
            let to = group[0].local_addr().unwrap();
            for listener in &group {
                listener.set_nonblocking(true).unwrap();
            }
            to_cores(&group, &[u32::MAX, cpus[0], u32::MAX - 1]).unwrap();
            let cpu = cpus[0];
            let connect = move || {
                pin_thread(cpu).unwrap();
                (0..20).map(|_| std::net::TcpStream::connect(to).unwrap()).collect::<Vec<_>>()
            };
            let _open = std::thread::spawn(connect).join().unwrap();
            let accepted =
                |listener: &std::net::TcpListener| std::iter::from_fn(|| listener.accept().ok()).count();
            let counts: Vec<usize> = group.iter().map(accepted).collect();
            assert_eq!(counts, [0, 20, 0], "{ip}");
        }
    }

    /// A packet with a long header and one with a short header, with this connection ID.
    fn packets(id: &[u8]) -> [Vec<u8>; 2] {
        let long = [&[0xe0, 0, 0, 0, 1, id.len() as u8], id, &[0; 20]].concat();
        [long, [&[0x40], id, &[0; 20]].concat()]
    }

    /// The number of datagrams that each socket of the group received from a flow of these.
    fn received(group: &[UdpSocket], cpu: u32, datagrams: Vec<Vec<u8>>) -> Vec<usize> {
        let to = group[0].local_addr().unwrap();
        let send = move || {
            pin_thread(cpu).unwrap();
            let from = UdpSocket::bind((to.ip(), 0).into(), &UdpOptions::default()).unwrap();
            let peer = Peer { address: to.into(), asked: None };
            for datagram in &datagrams {
                from.send(datagram, &peer).unwrap();
            }
        };
        std::thread::spawn(send).join().unwrap();
        let got = |socket: &UdpSocket| socket.recv(&mut [0; 64], &mut Peer::default(), Wait::No).unwrap();
        group.iter().map(|socket| std::iter::from_fn(|| got(socket)).count()).collect()
    }

    #[test]
    fn a_connection_id_names_the_socket_on_whatever_core_and_from_whatever_port() {
        const ID_BYTES: u8 = 7;
        let cpus = allowed().unwrap();
        for steered in [Some(&cpus[..1]), None] {
            let group = group_of_ipv4();
            to_owners(&group, ID_BYTES, steered).unwrap();
            for number in 0..3 {
                let id = [0, number, 0xff, 0, 0, 0, 0];
                for &cpu in &cpus {
                    let mut expected = [0; 3];
                    expected[usize::from(number)] = 2;
                    assert_eq!(received(&group, cpu, packets(&id).into()), expected, "{steered:?} {cpu}");
                }
            }
            // An ID of a client, and one of a server that has more sockets. A flow has one socket.
            let [first, _] = packets(&[0, 2, 0, 0, 0, 0, 0, 0]);
            let [foreign, short] = packets(&[0, 3, 0, 0, 0, 0, 0]);
            let mut counts = received(&group, cpus[0], vec![first, foreign, short]);
            counts.sort_unstable();
            assert_eq!(counts, [0, 0, 3], "{steered:?}");
        }
        let group = group_of_ipv4();
        to_owners(&group, ID_BYTES, Some(&[u32::MAX, cpus[0]])).unwrap();
        let [first, _] = packets(&[1; 8]);
        assert_eq!(received(&group, cpus[0], vec![first]), [0, 1, 0], "it goes to the core's socket");
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

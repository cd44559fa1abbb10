//! The sockets of all workers, bound before any worker starts.
//!
//! A separate reply socket must send from the address to which the query was sent. So it is bound to the same
//! address and port, but must not receive queries. Two things keep queries away from it. It shares the port by
//! `SO_REUSEADDR` alone, so it is not in the group over which `SO_REUSEPORT` distributes packets. And it is
//! connected to its own address, so the kernel passes it over for packets from other addresses (net/ipv4/udp.c,
//! `compute_score`). A connected socket can still send to any address that a call names.

mod quic;
mod unix;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;

use kqps_kernel::tcp::{self, ListenOptions};
use kqps_kernel::{UdpOptions, UdpSocket, steer};
use kqps_tls::{Acceptor, Identity, TlsError};

use crate::frames::Queue;
use crate::setup::{Listen, Listeners, Reach, Reply, ServerSetup, Sockets, TlsSetup};

pub use unix::{SocketFile, listen as listen_unix};

/// An address that a worker serves, with its sockets.
#[derive(Clone, Debug)]
pub struct Endpoint {
    /// The socket on which queries arrive.
    pub receiver: Arc<UdpSocket>,
    /// The socket that sends replies; often the same as `receiver`.
    pub sender: Arc<UdpSocket>,
}

/// The core and the sockets of one worker.
#[derive(Debug)]
pub struct WorkerSockets {
    /// The core to which the worker is pinned; `None` if it is not pinned.
    pub cpu: Option<u32>,
    /// The addresses at which the worker takes datagrams; none if the server takes connections alone.
    pub endpoints: Vec<Endpoint>,
    /// The sockets of its own that accept connections: those of QUIC, and others if workers do not share them.
    pub listeners: Vec<ListeningSocket>,
    /// Its queue of a device, if frames pass the kernel.
    pub queue: Option<Queue>,
}

/// The addresses of a server, with the ports that the kernel chose.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// The addresses at which the server takes datagrams, each once.
    pub datagrams: Vec<SocketAddr>,
    /// The addresses at which it accepts connections by TCP alone.
    pub tcp: Vec<SocketAddr>,
    /// The addresses at which it accepts connections in TLS.
    pub tls: Vec<SocketAddr>,
    /// The addresses at which it accepts connections by HTTP in TLS.
    pub https: Vec<SocketAddr>,
    /// The addresses at which it accepts connections over QUIC.
    pub quic: Vec<SocketAddr>,
}

/// All sockets of a server.
#[derive(Debug)]
pub struct Bound {
    /// The addresses of the sockets.
    pub addresses: Addresses,
    /// The sockets of each worker.
    pub workers: Vec<WorkerSockets>,
    /// Every receiving socket once.
    pub receivers: Vec<Arc<UdpSocket>>,
    /// The sockets that accept connections and that no worker has alone, at the same addresses and at Unix sockets.
    pub listeners: Vec<ListeningSocket>,
    /// The files of the Unix sockets.
    pub files: Vec<SocketFile>,
}

impl Bound {
    /// Forbids fragmentation of replies.
    pub(crate) fn never_fragment(&self) -> io::Result<()> {
        let endpoints = self.workers.iter().flat_map(|worker| &worker.endpoints);
        endpoints.map(|endpoint| &endpoint.sender).try_for_each(|sender| sender.never_fragment())
    }
}

/// A socket that accepts connections.
#[derive(Debug)]
pub enum ListeningSocket {
    /// A TCP socket, for clients of any host.
    Tcp(TcpListener),
    /// A TCP socket whose connections are in TLS.
    Tls(TcpListener, Acceptor),
    /// A TCP socket whose connections are by HTTP in TLS.
    Https(TcpListener, Acceptor),
    /// A Unix socket, for processes of this host.
    Unix(UnixListener),
    /// A UDP socket for connections over QUIC.
    Quic(QuicSocket),
}

/// A UDP socket for connections over QUIC.
#[derive(Clone, Debug)]
pub struct QuicSocket {
    /// The socket.
    pub socket: Arc<UdpSocket>,
    /// The TLS of its connections.
    pub acceptor: Acceptor,
    /// Its index among the sockets of its address, by which connection IDs name it.
    pub number: u16,
}

impl ListeningSocket {
    /// A second descriptor of the same socket.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(socket) => Self::Tcp(socket.try_clone()?),
            Self::Tls(socket, acceptor) => Self::Tls(socket.try_clone()?, acceptor.clone()),
            Self::Https(socket, acceptor) => Self::Https(socket.try_clone()?, acceptor.clone()),
            Self::Unix(socket) => Self::Unix(socket.try_clone()?),
            Self::Quic(socket) => Self::Quic(socket.clone()),
        })
    }

    /// Whether a thread apart serves its connections: those of QUIC.
    pub fn needs_own_thread(&self) -> bool {
        matches!(self, Self::Quic(..))
    }

    /// The socket of QUIC; `None` if it is of another kind.
    pub(crate) fn quic(&self) -> Option<QuicSocket> {
        match self {
            Self::Quic(socket) => Some(socket.clone()),
            Self::Tcp(_) | Self::Tls(..) | Self::Https(..) | Self::Unix(_) => None,
        }
    }
}

impl AsFd for ListeningSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) | Self::Tls(socket, _) | Self::Https(socket, _) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
            Self::Quic(socket) => socket.socket.as_fd(),
        }
    }
}

/// The TLS of a server's connections. All sockets of a transport in one process share the key of its tickets.
pub(crate) struct Acceptors {
    pub(crate) tls: Acceptor,
    pub(crate) https: Acceptor,
    pub(crate) quic: Acceptor,
}

impl Acceptors {
    pub(crate) fn new(identity: &Identity, early_data: bool) -> Result<Self, TlsError> {
        Ok(Self {
            tls: Acceptor::over_tcp(kqps_tls::ALPN, identity, early_data)?,
            https: Acceptor::over_tcp(kqps_http::ALPN, identity, early_data)?,
            quic: Acceptor::over_quic(identity, early_data)?,
        })
    }
}

/// The server could not listen on an address or at the path of a Unix socket.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {place}: {reason}")]
pub struct BindError {
    place: String,
    reason: String,
}

/// How often to try another port if a free UDP port is taken for TCP.
const PORTS_TRIED: usize = 20;

/// Binds all sockets of a setup, with TCP sockets beside those of datagrams if requested, and Unix sockets.
pub fn bind(setup: &ServerSetup, with_tcp: bool, unix: &[PathBuf]) -> Result<Bound, BindError> {
    let worker = |number| {
        let (endpoints, listeners) = (Vec::new(), Vec::new());
        WorkerSockets { cpu: setup.cpu(number), endpoints, listeners, queue: None }
    };
    let workers = (0..setup.workers()).map(worker).collect();
    let (addresses, receivers, listeners, files) = (Addresses::default(), Vec::new(), Vec::new(), Vec::new());
    let mut bound = Bound { addresses, workers, receivers, listeners, files };
    for &Listen { address, with_tcp: may_have_tcp } in &setup.listen {
        let with_tcp = with_tcp && may_have_tcp;
        let mut add = |address, workers: &mut [WorkerSockets]| -> io::Result<()> {
            let (receivers, listeners) = open(setup, address, workers.len(), with_tcp)?;
            bound.addresses.datagrams.push(receivers[0].local_addr()?);
            for (index, worker) in workers.iter_mut().enumerate() {
                let receiver = receivers[index % receivers.len()].clone();
                let sender = match setup.reply {
                    Reply::Same => receiver.clone(),
                    Reply::Own => Arc::new(sender(setup, receiver.local_addr()?)?),
                };
                worker.endpoints.push(Endpoint { receiver, sender });
            }
            bound.receivers.extend(receivers);
            let listeners = listeners.into_iter().map(ListeningSocket::Tcp);
            distribute(setup.listeners, listeners, &mut bound.listeners, workers);
            Ok(())
        };
        if setup.sockets == Sockets::PortEach {
            for (worker, address) in bound.workers.iter_mut().zip(ports_of(address)) {
                let address = address?;
                add(address, std::slice::from_mut(worker)).map_err(|error| refused(address, &error))?;
            }
        } else {
            add(address, &mut bound.workers).map_err(|error| refused(address, &error))?;
        }
    }
    let over_tcp = open_tcp(setup, ListeningSocket::Tcp);
    bound.addresses.tcp = listen_apart(&setup.tcp, setup.listeners, &mut bound, over_tcp)?;
    if let Some(tls) = &setup.tls {
        bind_tls(setup, tls, &mut bound)?;
    }
    for path in unix {
        let (listener, file) = unix::listen(path)?;
        bound.listeners.push(ListeningSocket::Unix(listener));
        bound.files.push(file);
    }
    Ok(bound)
}

/// Adds the sockets at which connections in TLS are accepted, those by HTTP in TLS, and those over QUIC.
fn bind_tls(setup: &ServerSetup, tls: &TlsSetup, bound: &mut Bound) -> Result<(), BindError> {
    let unfit =
        |error: TlsError| BindError { place: "the addresses of TLS".to_owned(), reason: error.to_string() };
    let Acceptors { tls: of_tls, https: of_https, quic: of_quic } =
        Acceptors::new(&tls.identity, tls.early_data).map_err(unfit)?;
    let over_tls = open_tcp(setup, |socket| ListeningSocket::Tls(socket, of_tls.clone()));
    bound.addresses.tls = listen_apart(&tls.listen, setup.listeners, bound, over_tls)?;
    let over_https = open_tcp(setup, |socket| ListeningSocket::Https(socket, of_https.clone()));
    bound.addresses.https = listen_apart(&tls.https, setup.listeners, bound, over_https)?;
    let over_quic = |address, count| quic::open(setup, address, count, &of_quic);
    bound.addresses.quic = listen_apart(&tls.quic, tls.quic_listeners, bound, over_quic)?;
    Ok(())
}

/// Opens the sockets of these addresses for connections alone, and hands them to workers in this way. `open` opens the
/// given number at an address, and returns the address with its port. Returns all addresses with their ports.
fn listen_apart(
    addresses: &[SocketAddr],
    how: Listeners,
    bound: &mut Bound,
    open: impl Fn(SocketAddr, usize) -> io::Result<(SocketAddr, Vec<ListeningSocket>)>,
) -> Result<Vec<SocketAddr>, BindError> {
    let mut listening = Vec::new();
    for &address in addresses {
        let mut add =
            |address, shared: &mut Vec<_>, workers: &mut [WorkerSockets]| -> Result<(), BindError> {
                let count = if how == Listeners::ReusePort { workers.len() } else { 1 };
                let opened = open(address, count);
                let (with_port, listeners) = opened.map_err(|error| refused(address, &error))?;
                listening.push(with_port);
                distribute(how, listeners, shared, workers);
                Ok(())
            };
        if how == Listeners::PortEach {
            for (worker, address) in bound.workers.iter_mut().zip(ports_of(address)) {
                add(address?, &mut bound.listeners, std::slice::from_mut(worker))?;
            }
        } else {
            add(address, &mut bound.listeners, &mut bound.workers)?;
        }
    }
    Ok(listening)
}

/// Opens TCP sockets for [`listen_apart`], of which `of` makes sockets for connections.
fn open_tcp(
    setup: &ServerSetup,
    of: impl Fn(TcpListener) -> ListeningSocket,
) -> impl Fn(SocketAddr, usize) -> io::Result<(SocketAddr, Vec<ListeningSocket>)> {
    move |address, count| {
        let sockets = listen_tcp(setup, address, count)?;
        Ok((sockets[0].local_addr()?, sockets.into_iter().map(&of).collect()))
    }
}

/// Opens the TCP sockets of an address: one for each of these workers if they have their own, or else one.
fn listen_tcp(setup: &ServerSetup, address: SocketAddr, workers: usize) -> io::Result<Vec<TcpListener>> {
    let count = if setup.listeners == Listeners::ReusePort { workers } else { 1 };
    let free_bind = setup.reach == Reach::Routed;
    let options = ListenOptions { free_bind, loopback: setup.reach == Reach::Loopback };
    let listeners = tcp::listen_with(address, count, options)?;
    if setup.steer && count > 1 {
        steer::to_cores(&listeners, &setup.cpus)?;
    }
    Ok(listeners)
}

/// Hands the listening sockets of one address to all workers together, or one to each.
fn distribute(
    how: Listeners,
    listeners: impl IntoIterator<Item = ListeningSocket>,
    shared: &mut Vec<ListeningSocket>,
    workers: &mut [WorkerSockets],
) {
    match how {
        Listeners::Shared => shared.extend(listeners),
        Listeners::ReusePort | Listeners::PortEach => {
            workers.iter_mut().zip(listeners).for_each(|(worker, own)| worker.listeners.push(own));
        }
    }
}

/// The error for an address on which the server cannot listen, in words.
pub fn refused(address: SocketAddr, error: &io::Error) -> BindError {
    let reason = match error.kind() {
        io::ErrorKind::AddrInUse => "another program listens there; choose another --listen".to_owned(),
        io::ErrorKind::PermissionDenied => format!("{error}; ports below 1024 need CAP_NET_BIND_SERVICE"),
        io::ErrorKind::AddrNotAvailable => "this host has no such address".to_owned(),
        _ => error.to_string(),
    };
    BindError { place: address.to_string(), reason }
}

/// The addresses of workers with a port each. Port 0 stays 0, and each worker gets a free port.
fn ports_of(address: SocketAddr) -> impl Iterator<Item = Result<SocketAddr, BindError>> {
    (0..=u16::MAX).map(move |worker| -> Result<SocketAddr, BindError> {
        let port = match address.port() {
            0 => 0,
            port => port.checked_add(worker).ok_or_else(|| BindError {
                place: address.to_string(),
                reason: format!("worker {worker} would need a port above 65535"),
            })?,
        };
        Ok(SocketAddr::new(address.ip(), port))
    })
}

/// Opens the receiving sockets of an address, and those that accept connections there. A port that the kernel
/// chooses is free for both.
fn open(
    setup: &ServerSetup,
    address: SocketAddr,
    workers: usize,
    with_tcp: bool,
) -> io::Result<(Vec<Arc<UdpSocket>>, Vec<TcpListener>)> {
    let mut tries = if address.port() == 0 { PORTS_TRIED } else { 1 };
    loop {
        let receivers = receivers(setup, address, workers)?;
        if !with_tcp {
            return Ok((receivers, Vec::new()));
        }
        match listen_tcp(setup, receivers[0].local_addr()?, workers) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries > 1 => tries -= 1,
            listeners => return Ok((receivers, listeners?)),
        }
    }
}

/// Binds one socket for all of `workers` workers, or one for each.
fn receivers(setup: &ServerSetup, address: SocketAddr, workers: usize) -> io::Result<Vec<Arc<UdpSocket>>> {
    let (group, own) = (setup.sockets == Sockets::ReusePort, setup.reply == Reply::Own);
    // The first socket is bound alone: a port in use is an error, even if its owner would share it.
    let first = UdpSocket::bind(address, &options(setup, address))?;
    first.share_port(group, own)?;
    let address = first.local_addr()?;
    let mut receivers = vec![Arc::new(first)];
    if group {
        let options = UdpOptions { reuse_port: true, reuse_address: own, ..options(setup, address) };
        for _ in 1..workers {
            receivers.push(Arc::new(UdpSocket::bind(address, &options)?));
        }
        if setup.steer && workers > 1 {
            steer::to_cores(&receivers, &setup.cpus)?;
        }
    }
    Ok(receivers)
}

fn options(setup: &ServerSetup, address: SocketAddr) -> UdpOptions {
    UdpOptions {
        recv_buffer: Some(setup.buffer_bytes),
        send_buffer: Some(setup.buffer_bytes),
        gro: setup.io.takes_segments(),
        pktinfo: address.ip().is_unspecified(),
        timestamps: setup.arrivals,
        free_bind: setup.reach == Reach::Routed,
        loopback: setup.reach == Reach::Loopback,
        ..UdpOptions::default()
    }
}

/// A socket that sends from this address and receives nothing: see the head of this file.
fn sender(setup: &ServerSetup, address: SocketAddr) -> io::Result<UdpSocket> {
    let options = UdpOptions { reuse_address: true, gro: false, ..options(setup, address) };
    let sender = UdpSocket::bind(address, &options)?;
    let itself = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => (Ipv4Addr::LOCALHOST, address.port()).into(),
        IpAddr::V6(ip) if ip.is_unspecified() => (Ipv6Addr::LOCALHOST, address.port()).into(),
        _ => address,
    };
    sender.connect(itself)?;
    Ok(sender)
}

//! Options of every reference server: addresses, I/O model, workers.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use kqps_server::setup::Listen;
use kqps_server::{Model, ServerSetup, setup};

use super::tls::{Tls, TlsArgs};
use crate::exit::bad_input;
use crate::value::{List, cores, parse_buffer_size, parse_duration, parse_list, parse_listen, parse_within};

#[derive(clap::Args)]
#[command(next_help_heading = "Sockets and workers")]
pub(super) struct Serving {
    /// Listen here: ADDR:PORT, or with udp://, tcp://, tls://, https:// or quic:// before it (repeatable)
    ///
    /// Without a scheme the server takes datagrams, and connections by TCP if it accepts any. With udp:// it takes
    /// datagrams alone, and with the other schemes such connections alone. Port 0 picks a free one. The usual port of
    /// HTTPS is 443, and of QUIC 853.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:5300", value_parser = parse_place)]
    listen: Vec<Place>,

    /// Receive and send datagrams by this I/O model
    #[arg(long, value_name = "MODEL", default_value = "mmsg", value_parser = PossibleValuesParser::new(Model::ALL.map(Model::name)))]
    io: String,

    /// With --io xdp, the device whose frames pass the kernel (default: the one with the addresses)
    ///
    /// It must be named if the server listens at 0.0.0.0 or [::], or at an address that another device has. Loopback
    /// has no frames.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,

    /// Worker processes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_within::<u32>(1..=1024))]
    processes: u32,

    /// Worker threads in each process
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_within::<u32>(1..=1024))]
    threads: u32,

    /// Which sockets the workers have
    #[arg(long, value_enum, default_value = "shared")]
    sockets: Sockets,

    /// Which TCP sockets accept connections
    #[arg(long, value_enum, default_value = "shared")]
    listeners: Listeners,

    /// Which socket a reply leaves by
    #[arg(long, value_enum, default_value = "same")]
    reply: Reply,

    /// Pin the workers to these cores, one by one, such as 0,2-5
    #[arg(long, value_name = "LIST", value_parser = parse_list)]
    cpus: Option<List>,

    /// Which worker a flow goes to (needs --sockets reuseport and --cpus)
    #[arg(long, value_enum)]
    steer: Option<Steer>,

    /// Size of each socket's receive buffer, and of its send buffer
    ///
    /// The kernel doubles it for its own data about each packet: `ss -m` shows the doubled size. With --io xdp each
    /// worker also has a frame of 2 KiB for each 256 bytes of it.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = parse_buffer_size)]
    buffer: u64,

    /// Stop this long after the server can answer
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration, help_heading = "Output and end")]
    pub(super) time: Option<Duration>,

    /// Print JSON lines: one when the server can answer, one with its counts
    #[arg(long, help_heading = "Output and end")]
    pub(super) json: bool,
}

/// An address to listen at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// For datagrams, and for connections by TCP if the server accepts any.
    Plain(SocketAddr),
    Udp(SocketAddr),
    Tcp(SocketAddr),
    Tls(SocketAddr),
    Https(SocketAddr),
    Quic(SocketAddr),
}

impl Place {
    fn address(self) -> SocketAddr {
        match self {
            Self::Plain(address)
            | Self::Udp(address)
            | Self::Tcp(address)
            | Self::Tls(address)
            | Self::Https(address)
            | Self::Quic(address) => address,
        }
    }

    /// The address if it is for datagrams.
    fn of_datagrams(self) -> Option<Listen> {
        match self {
            Self::Plain(address) => Some(Listen { address, with_tcp: true }),
            Self::Udp(address) => Some(Listen { address, with_tcp: false }),
            Self::Tcp(_) | Self::Tls(_) | Self::Https(_) | Self::Quic(_) => None,
        }
    }
}

/// Parses an address of `--listen`.
fn parse_place(text: &str) -> Result<Place, String> {
    match text.split_once("://") {
        None => parse_listen(text).map(Place::Plain),
        Some(("udp", address)) => parse_listen(address).map(Place::Udp),
        Some(("tcp", address)) => parse_listen(address).map(Place::Tcp),
        Some(("tls", address)) => parse_listen(address).map(Place::Tls),
        Some(("https", address)) => parse_with_port(address, kqps_http::PORT).map(Place::Https),
        Some(("quic", address)) => parse_with_port(address, kqps_quic::PORT).map(Place::Quic),
        Some(_) => {
            let plain = "udp://ADDR:PORT, tcp://ADDR:PORT";
            let encrypted = "tls://ADDR:PORT, https://ADDR[:PORT] or quic://ADDR[:PORT]";
            Err(format!("expected ADDR:PORT, {plain}, {encrypted}"))
        }
    }
}

/// Parses an address, which has the usual port unless it has another one.
fn parse_with_port(text: &str, usual: u16) -> Result<SocketAddr, String> {
    let bracketed = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let ip = bracketed.map_or_else(|| text.parse().ok(), |v6| v6.parse().ok().map(IpAddr::V6));
    match ip {
        Some(ip) => Ok(SocketAddr::new(ip, usual)),
        None => parse_listen(text),
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Sockets {
    /// All workers share one socket
    Shared,
    /// Each worker has a socket of its own on the same port
    Reuseport,
    /// Each worker has a port of its own, from that of --listen on
    PortEach,
}

#[derive(Clone, Copy, ValueEnum)]
enum Listeners {
    /// All workers share one, and a thread of each process serves its connections
    Shared,
    /// Each worker has one of its own on the same port, with a thread on the worker's core
    Reuseport,
}

#[derive(Clone, Copy, ValueEnum)]
enum Reply {
    /// The socket of its query
    Same,
    /// A socket of the worker's own
    Own,
}

#[derive(Clone, Copy, ValueEnum)]
enum Steer {
    /// The worker on the core that receives the packet
    Cpu,
}

impl Serving {
    /// The flags that give a server encrypted connections, as messages name them.
    const ENCRYPTED: &str = "--listen tls://ADDR:PORT, https://ADDR[:PORT] or quic://ADDR[:PORT]";

    /// The flags that give a server connections at addresses of their own, as messages name them.
    pub(super) const CONNECTED: &str =
        "--listen tcp://ADDR:PORT, tls://ADDR:PORT, https://ADDR[:PORT] or quic://ADDR[:PORT]";

    /// Whether an address for TLS was given, with HTTP or without it, or one for QUIC.
    fn has_tls(&self) -> bool {
        let is_encrypted = |place: &Place| matches!(place, Place::Tls(_) | Place::Https(_) | Place::Quic(_));
        self.listen.iter().any(is_encrypted)
    }

    /// Whether an address for connections alone was given.
    pub(super) fn has_connections(&self) -> bool {
        self.listen.iter().any(|place| place.of_datagrams().is_none())
    }

    /// The addresses of some places.
    fn addresses(&self, has: impl Fn(Place) -> bool) -> Vec<SocketAddr> {
        self.listen.iter().filter(|place| has(**place)).map(|place| place.address()).collect()
    }

    /// The addresses for connections by TCP alone.
    fn tcp_addresses(&self) -> Vec<SocketAddr> {
        self.addresses(|place| matches!(place, Place::Tcp(_)))
    }

    /// The addresses for datagrams.
    fn datagram_addresses(&self) -> Vec<Listen> {
        self.listen.iter().filter_map(|place| place.of_datagrams()).collect()
    }

    /// TLS, HTTPS and QUIC at the addresses for them, if there are any. `args` are the flags of a server that can have
    /// them.
    pub(super) fn tls(&self, args: Option<&TlsArgs>) -> anyhow::Result<Option<Tls>> {
        let tls = self.addresses(|place| matches!(place, Place::Tls(_)));
        let https = self.addresses(|place| matches!(place, Place::Https(_)));
        let quic = self.addresses(|place| matches!(place, Place::Quic(_)));
        let Some(args) = args else {
            let why =
                "--listen tls://, https:// and quic://: a front takes no connections in TLS or over QUIC";
            if self.has_tls() {
                return Err(bad_input(why));
            }
            if self.has_connections() {
                let why = "--listen tcp://: a front takes connections by TCP where it takes datagrams";
                return Err(bad_input(why));
            }
            return Ok(None);
        };
        if self.has_tls() {
            return args.at(tls, https, quic).map(Some);
        }
        match args.given() {
            Some(flag) => {
                let needs = format!("it needs {}", Self::ENCRYPTED);
                Err(bad_input(format!("{flag} is about TLS: {needs}")))
            }
            None => Ok(None),
        }
    }

    pub(super) fn setup(&self, tls: Option<&Tls>) -> anyhow::Result<ServerSetup> {
        if self.steer.is_some() && !matches!(self.sockets, Sockets::Reuseport) {
            return Err(bad_input("--steer chooses among sockets on one port: it needs --sockets reuseport"));
        }
        self.check_ports()?;
        Ok(ServerSetup {
            listen: self.datagram_addresses(),
            tcp: self.tcp_addresses(),
            tls: tls.and_then(|tls| tls.setup.clone()),
            quic: tls.and_then(|tls| tls.quic.clone()),
            io: self.io.parse().map_err(bad_input)?,
            device: self.device.clone(),
            processes: self.processes,
            threads: self.threads,
            sockets: match self.sockets {
                Sockets::Shared => setup::Sockets::Shared,
                Sockets::Reuseport => setup::Sockets::ReusePort,
                Sockets::PortEach => setup::Sockets::PortEach,
            },
            listeners: match self.listeners {
                Listeners::Shared => setup::Listeners::Shared,
                Listeners::Reuseport => setup::Listeners::ReusePort,
            },
            reply: match self.reply {
                Reply::Same => setup::Reply::Same,
                Reply::Own => setup::Reply::Own,
            },
            cpus: cores(self.cpus.as_ref())?,
            buffer_bytes: usize::try_from(self.buffer)?,
            steer: self.steer.is_some(),
        })
    }

    /// Checks the ports of all addresses for datagrams: none is above 65535, and no two addresses share one.
    fn check_ports(&self) -> anyhow::Result<()> {
        let ports = match self.sockets {
            Sockets::PortEach => self.processes * self.threads,
            Sockets::Shared | Sockets::Reuseport => 1,
        };
        // Addresses with port 0 cannot collide: the kernel chooses free ports.
        let addresses = self.datagram_addresses().into_iter().map(|listen| listen.address);
        let named: Vec<SocketAddr> = addresses.filter(|address| address.port() > 0).collect();
        for (at, &address) in named.iter().enumerate() {
            let last = u32::from(address.port()) + ports - 1;
            if last > u32::from(u16::MAX) {
                return Err(bad_input(format!(
                    "--listen {address}: {ports} workers with a port each would need ports up to {last}, and there \
                     are none above 65535"
                )));
            }
            if named[..at].contains(&address) {
                return Err(bad_input(format!("--listen {address} is given twice")));
            }
            if let Some((other, port)) = named[..at].iter().find_map(|&other| meet(other, address, ports)) {
                return Err(bad_input(format!(
                    "--listen {other} and --listen {address} would both take port {port}"
                )));
            }
        }
        Ok(())
    }
}

/// Whether two addresses, each with `ports` consecutive ports, have a port in common. Returns the other
/// address and the first common port.
fn meet(other: SocketAddr, address: SocketAddr, ports: u32) -> Option<(SocketAddr, u16)> {
    let is_same_family = other.is_ipv4() == address.is_ipv4();
    let is_any = other.ip().is_unspecified() || address.ip().is_unspecified();
    let mut moved = other;
    moved.set_port(address.port());
    let is_same_place = is_same_family && is_any || moved == address;
    let is_near = u32::from(other.port().abs_diff(address.port())) < ports;
    (is_same_place && is_near).then(|| (other, other.port().max(address.port())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_has_a_scheme_or_is_plain() {
        let address: SocketAddr = "127.0.0.1:853".parse().unwrap();
        assert_eq!(parse_place("127.0.0.1:853"), Ok(Place::Plain(address)));
        assert_eq!(parse_place("udp://127.0.0.1:853"), Ok(Place::Udp(address)));
        assert_eq!(parse_place("tcp://127.0.0.1:853"), Ok(Place::Tcp(address)));
        assert_eq!(parse_place("tls://127.0.0.1:853"), Ok(Place::Tls(address)));
        let usual: SocketAddr = "127.0.0.1:443".parse().unwrap();
        assert_eq!(parse_place("https://127.0.0.1"), Ok(Place::Https(usual)));
        assert_eq!(parse_place("https://127.0.0.1:853"), Ok(Place::Https(address)));
        assert_eq!(parse_place("https://[::1]"), Ok(Place::Https("[::1]:443".parse().unwrap())));
        assert!(parse_place("https://127.0.0.1:443/dns-query").unwrap_err().contains("ADDR:PORT"));
        for url in ["quic://127.0.0.1:853", "quic://127.0.0.1"] {
            assert_eq!(parse_place(url), Ok(Place::Quic(address)), "{url}");
        }
        assert_eq!(parse_place("quic://[::1]"), Ok(Place::Quic("[::1]:853".parse().unwrap())));
        assert!(parse_place("gopher://127.0.0.1:853").unwrap_err().contains("tls://"));
        assert!(parse_place("tls://127.0.0.1").unwrap_err().contains("ADDR:PORT"));
    }
}

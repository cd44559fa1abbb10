//! Options of every reference server: addresses, I/O model, workers.

use std::net::SocketAddr;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use kqps_catalogue::choice::Transport;
use kqps_server::{Model, ServerSetup, setup};

use super::place::{Place, Ports, check_ports, parse_place};
use super::tls::{Tls, TlsArgs};
use crate::exit::bad_input;
use crate::value::{List, cores, parse_buffer_size, parse_duration, parse_list, parse_within};

/// The size of buffers without `--buffer`, in bytes.
const BUFFER_BYTES: u64 = 1 << 20;

#[derive(clap::Args)]
#[command(next_help_heading = "Sockets and workers")]
pub(super) struct Serving {
    /// Listen here: ADDR:PORT, or with udp://, tcp://, tls://, https:// or quic:// before it (repeatable)
    ///
    /// Without a scheme the server takes datagrams, and connections by TCP if it accepts any. With udp:// it takes
    /// datagrams alone, and with the other schemes such connections alone. Port 0 picks a free one. After a scheme the
    /// port may be left out: it is then 53 for UDP and TCP, 853 for TLS and QUIC, and 443 for HTTPS.
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:5300", value_parser = parse_place)]
    listen: Vec<Place>,

    /// Receive and send datagrams by this I/O model (default: mmsg)
    ///
    /// Connections have an I/O of their own, and so have QUIC and the sockets to other servers.
    #[arg(long, value_name = "MODEL", value_parser = PossibleValuesParser::new(Model::NAMES))]
    io: Option<String>,

    /// With --io xdp, the device whose frames bypass the kernel (default: the one with the addresses)
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

    /// Sockets that take datagrams (default: shared)
    #[arg(long, value_enum)]
    sockets: Option<Sockets>,

    /// Sockets that accept connections, by TCP as well as over QUIC
    ///
    /// The default is shared if the server takes datagrams too, and reuseport if it takes connections alone. Over QUIC it is
    /// reuseport in any case; processes cannot share a socket of QUIC.
    #[arg(long, value_enum)]
    listeners: Option<Listeners>,

    /// The socket that the reply to a datagram leaves by (default: same)
    #[arg(long, value_enum)]
    reply: Option<Reply>,

    /// Pin the workers to these cores, one by one, such as 0,2-5
    #[arg(long, value_name = "LIST", value_parser = parse_list)]
    cpus: Option<List>,

    /// The worker that a flow goes to (needs --cpus, and --sockets reuseport or --listeners reuseport)
    ///
    /// With --sockets reuseport it acts on datagrams, and with --listeners reuseport on new connections. A connection stays
    /// with its worker, also one over QUIC.
    #[arg(long, value_enum)]
    steer: Option<Steer>,

    /// Size of the receive buffer, and of the send buffer, of each socket for datagrams and QUIC (default: 1MiB)
    ///
    /// The kernel doubles it for its own data about each packet: `ss -m` shows the doubled size. With --io xdp each
    /// worker also has a frame of 2 KiB for each 256 bytes of it.
    #[arg(long, value_name = "SIZE", value_parser = parse_buffer_size)]
    buffer: Option<u64>,

    /// Stop this long after the server can answer
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration, help_heading = "Output and end")]
    pub(super) time: Option<Duration>,

    /// Print JSON lines: one when the server can answer, one with its counts
    #[arg(long, help_heading = "Output and end")]
    pub(super) json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sockets {
    /// All workers share one socket
    Shared,
    /// Each worker has a socket of its own on the same port
    Reuseport,
    /// Each worker has a port of its own, from that of --listen on
    PortEach,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Listeners {
    /// All workers accept from one socket
    Shared,
    /// Each worker accepts from a socket of its own on the same port
    Reuseport,
    /// Each worker accepts from a socket of its own on a port of its own, from that of --listen on
    PortEach,
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
    const ENCRYPTED: &str = "--listen tls://ADDR[:PORT], https://ADDR[:PORT] or quic://ADDR[:PORT]";

    /// The flags that give a server connections at addresses of their own, as messages name them.
    pub(super) const CONNECTED: &str =
        "--listen tcp://ADDR[:PORT], tls://ADDR[:PORT], https://ADDR[:PORT] or quic://ADDR[:PORT]";

    /// Whether an address for TLS was given, with HTTP or without it, or one for QUIC.
    fn has_tls(&self) -> bool {
        let is_encrypted = |place: &Place| place.transport.is_some_and(Transport::is_encrypted);
        self.listen.iter().any(is_encrypted)
    }

    /// Whether an address for connections alone was given.
    pub(super) fn has_connections(&self) -> bool {
        self.listen.iter().any(|place| place.of_datagrams().is_none())
    }

    /// Whether the server accepts connections at any address. `with_tcp` says whether it does at those without a
    /// scheme.
    pub(super) fn accepts(&self, with_tcp: bool) -> bool {
        with_tcp && self.has_plain() || self.has_connections()
    }

    /// Whether an address without a scheme was given.
    pub(super) fn has_plain(&self) -> bool {
        self.listen.iter().any(|place| place.transport.is_none())
    }

    /// Whether an I/O model was given, though no address for datagrams.
    pub(super) fn has_io_in_vain(&self) -> bool {
        self.io.is_some() && !self.has_datagrams()
    }

    /// Whether an address for datagrams was given.
    fn has_datagrams(&self) -> bool {
        self.listen.iter().any(|place| place.of_datagrams().is_some())
    }

    /// The addresses for a transport alone.
    fn addresses(&self, transport: Transport) -> Vec<SocketAddr> {
        let over = self.listen.iter().filter(|place| place.is_over(transport));
        over.map(|place| place.address).collect()
    }

    /// TLS, HTTPS and QUIC at the addresses for them, if there are any. `args` are the flags of a server that can have
    /// them.
    pub(super) fn tls(&self, args: Option<&TlsArgs>) -> anyhow::Result<Option<Tls>> {
        let tls = self.addresses(Transport::Tls);
        let https = self.addresses(Transport::Https);
        let quic = self.addresses(Transport::Quic);
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
            return args.at(tls, https, quic, self.listeners_of_quic()).map(Some);
        }
        match args.given() {
            Some(flag) => {
                let needs = format!("it needs {}", Self::ENCRYPTED);
                Err(bad_input(format!("{flag} is about TLS: {needs}")))
            }
            None => Ok(None),
        }
    }

    /// The sockets that accept connections by TCP.
    fn listeners_of_tcp(&self) -> setup::Listeners {
        let usual = if self.has_datagrams() { setup::Listeners::Shared } else { setup::Listeners::ReusePort };
        self.listeners.map_or(usual, Listeners::setup)
    }

    /// The sockets that accept connections over QUIC.
    fn listeners_of_quic(&self) -> setup::Listeners {
        self.listeners.map_or(setup::Listeners::ReusePort, Listeners::setup)
    }

    /// The setup of a server. `with_tcp` says whether it accepts connections at addresses without a scheme.
    pub(super) fn setup(&self, tls: Option<&Tls>, with_tcp: bool) -> anyhow::Result<ServerSetup> {
        self.check_flags()?;
        self.check_listeners(with_tcp)?;
        self.check_steer()?;
        check_ports(&self.listen, with_tcp, self.ports()).map_err(bad_input)?;
        Ok(ServerSetup {
            listen: self.listen.iter().filter_map(|place| place.of_datagrams()).collect(),
            tcp: self.addresses(Transport::Tcp),
            tls: tls.map(|tls| tls.setup.clone()),
            io: self.io.as_deref().map_or(Ok(Model::Mmsg), str::parse).map_err(bad_input)?,
            device: self.device.clone(),
            processes: self.processes,
            threads: self.threads,
            sockets: match self.sockets {
                None | Some(Sockets::Shared) => setup::Sockets::Shared,
                Some(Sockets::Reuseport) => setup::Sockets::ReusePort,
                Some(Sockets::PortEach) => setup::Sockets::PortEach,
            },
            listeners: self.listeners_of_tcp(),
            reply: match self.reply {
                None | Some(Reply::Same) => setup::Reply::Same,
                Some(Reply::Own) => setup::Reply::Own,
            },
            cpus: cores(self.cpus.as_ref())?,
            buffer_bytes: usize::try_from(self.buffer.unwrap_or(BUFFER_BYTES))?,
            steer: self.steer.is_some(),
            reach: setup::Reach::Host,
            arrivals: false,
        })
    }

    /// The consecutive ports of each address.
    fn ports(&self) -> Ports {
        let workers = self.processes * self.threads;
        Ports {
            datagrams: if self.sockets == Some(Sockets::PortEach) { workers } else { 1 },
            connections: if self.listeners == Some(Listeners::PortEach) { workers } else { 1 },
        }
    }

    /// Checks that no flag was given that would have no effect.
    fn check_flags(&self) -> anyhow::Result<()> {
        let given = [
            ("--io", self.io.is_some()),
            ("--device", self.device.is_some()),
            ("--sockets", self.sockets.is_some()),
            ("--reply", self.reply.is_some()),
        ];
        for (flag, is_given) in given {
            self.check_of_datagrams(flag, is_given)?;
        }
        let has_quic = self.listen.iter().any(|place| place.is_over(Transport::Quic));
        if self.buffer.is_some() && !(self.has_datagrams() || has_quic) {
            let why = "the kernel sizes the buffers of connections by TCP, so leave it out";
            return Err(bad_input(format!("--buffer is about datagrams and QUIC: {why}")));
        }
        Ok(())
    }

    /// Checks that a flag about datagrams has datagrams, if it was given.
    pub(super) fn check_of_datagrams(&self, flag: &str, is_given: bool) -> anyhow::Result<()> {
        if !is_given || self.has_datagrams() {
            return Ok(());
        }
        let advice = match flag {
            "--sockets" => "use --listeners, which is about connections",
            _ => "leave it out, or add --listen ADDR:PORT or udp://ADDR[:PORT]",
        };
        let why = format!("{flag} is about datagrams, and this server takes connections alone: {advice}");
        Err(bad_input(why))
    }

    /// Checks that `--no-tcp` has addresses at which the server would accept connections.
    pub(super) fn check_no_tcp(&self, is_given: bool) -> anyhow::Result<()> {
        if is_given && !self.has_plain() && self.has_connections() {
            let why = "it is about addresses without a scheme, and there are none: leave it out";
            return Err(bad_input(format!("--no-tcp: {why}")));
        }
        Ok(())
    }

    /// Checks that a flag about connections, if one was given, has some. `others` names the flags, each with a comma
    /// behind it, that give the server connections as well.
    pub(super) fn check_connected(
        &self,
        given: Option<&str>,
        no_tcp: bool,
        others: &str,
    ) -> anyhow::Result<()> {
        let Some(flag) = given.filter(|_| !self.accepts(!no_tcp)) else { return Ok(()) };
        let needs = if no_tcp { "with --no-tcp it needs " } else { "it needs --listen ADDR:PORT, " };
        Err(bad_input(format!("{flag} is about connections: {needs}{others}or {}", Self::CONNECTED)))
    }

    /// Checks that `--listeners` has connections, and the ports that they need.
    fn check_listeners(&self, with_tcp: bool) -> anyhow::Result<()> {
        let Some(listeners) = self.listeners else { return Ok(()) };
        if !self.accepts(with_tcp) {
            return Err(bad_input("--listeners is about connections, and this server accepts none"));
        }
        let has_ports = self.sockets == Some(Sockets::PortEach);
        if listeners == Listeners::PortEach && with_tcp && self.has_plain() && !has_ports {
            let why = "TCP has the ports of the datagrams beside it, so it needs --sockets port-each";
            return Err(bad_input(format!("--listeners port-each: {why}")));
        }
        Ok(())
    }

    /// Checks that `--steer` has sockets to choose from: for datagrams, and for the connections of other addresses.
    fn check_steer(&self) -> anyhow::Result<()> {
        if self.steer.is_none() {
            return Ok(());
        }
        let has = |places: fn(&Place) -> bool| self.listen.iter().any(places);
        let is_apart = |place: &Place| {
            matches!(place.transport, Some(Transport::Tcp | Transport::Tls | Transport::Https))
        };
        let lacks_listeners = has(is_apart) && self.listeners_of_tcp() != setup::Listeners::ReusePort
            || has(|place| place.is_over(Transport::Quic))
                && self.listeners_of_quic() != setup::Listeners::ReusePort;
        let needs = if self.has_datagrams() && self.sockets != Some(Sockets::Reuseport) {
            "--sockets reuseport"
        } else if lacks_listeners {
            "--listeners reuseport"
        } else {
            return Ok(());
        };
        Err(bad_input(format!("--steer chooses among sockets on one port: it needs {needs}")))
    }
}

impl Listeners {
    fn setup(self) -> setup::Listeners {
        match self {
            Self::Shared => setup::Listeners::Shared,
            Self::Reuseport => setup::Listeners::ReusePort,
            Self::PortEach => setup::Listeners::PortEach,
        }
    }
}

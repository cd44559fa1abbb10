//! The flags of connections to servers that run already, which `kqps run` and `kqps compare` share.

use std::path::PathBuf;
use std::time::Duration;

use kqps_lab::player_setup::{PlayerSetup, WireSetup};
use kqps_lab::running_server::RunningServer;
use kqps_observation::factors::{
    CloseChoice, CongestionChoice, KeyChoice, MethodChoice, PlayerFactors, SourceChoice, TrustChoice,
};
use kqps_observation::trial::Transport;
use kqps_observation::{Cell, Factors};
use kqps_player::plan::CONNECTIONS_MOST;
use kqps_player::{Io, Sources};
use kqps_quic::Congestion;
use kqps_tls::certificate::KeyType;
use kqps_tls::client::server_name;
use kqps_tls::{Group, Suite};

use crate::exit::bad_input;
use crate::load::{check_sources, issuers};
use crate::value::{parse_timeout, parse_within};

/// The longest timeout. Every trial that loses queries waits that long at its end, and for connections at its start.
pub(super) const TIMEOUT_MOST: Duration = Duration::from_secs(10);

/// The use of connections that the user asks for. The comments are the help text.
#[derive(clap::Args, Clone, Default)]
#[allow(clippy::doc_markdown)] // the comments are the help text
#[command(next_help_heading = "Connections to a server that runs already")]
#[group(id = "connections_to_targets", multiple = true)]
pub(crate) struct TargetFlags {
    /// Play at a --target from this address, or from those of a prefix in turn, such as 127.1.0.0/16
    ///
    /// Over UDP too. A connection needs a port of its own. An address has some 28,000 of them, and some 24,700 if
    /// connections are closed and opened again.
    #[arg(short = 'a', long, value_name = "ADDR[/PREFIX]", value_parser = parse_sources)]
    local: Option<SourceChoice>,

    /// Play at a --target by: auto (the default), plain, mmsg, gso or uring; on connections auto, epoll or uring
    ///
    /// Over QUIC there is one way.
    #[arg(long, value_name = "HOW")]
    io: Option<Io>,

    /// Have at most this many connections open at once to a --target, except over UDP (default: 8)
    ///
    /// With --queries-per-connection 0 or 1 the default is 500.
    #[arg(long, value_name = "COUNT", value_parser = parse_within::<u32>(1..=CONNECTIONS_MOST as u64))]
    connections: Option<u32>,

    /// Close each connection to a --target after this many queries, except over UDP (default: keep it)
    ///
    /// With 0 the load is connections and no queries, as in `kqps load`.
    #[arg(long, value_name = "COUNT", value_parser = parse_within::<u32>(0..=1_000_000_000))]
    queries_per_connection: Option<u32>,

    /// Have at most this many queries outstanding on a connection to a --target (default: 65536)
    #[arg(long, value_name = "COUNT", value_parser = parse_within::<u32>(1..=65_536))]
    outstanding_per_connection: Option<u32>,

    /// Give up a connection to a --target that is not made after this time (default: the timeout)
    #[arg(long, value_name = "DURATION", value_parser = parse_timeout)]
    connect_timeout: Option<Duration>,

    /// Close connections to a --target with: fin (the default) or rst; not over QUIC
    #[arg(long, value_name = "HOW", value_parser = parse_close)]
    close: Option<CloseChoice>,

    /// Accept certificates of a --target from the issuers in this file (default: those that this host trusts)
    ///
    /// The file is PEM, and the run keeps a copy of it. The certificate must be valid and name the server.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Accept any certificate of a --target: kqps then does not know which server it measures
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,

    /// The name of each --target in its certificate and in requests of HTTPS (default: the target as typed)
    #[arg(long, value_name = "NAME")]
    server_name: Option<String>,

    /// Resume sessions of earlier connections to a --target: yes (the default) or no
    #[arg(long, value_name = "WHETHER", value_parser = parse_yes)]
    tls_resume: Option<bool>,

    /// Offer a --target this cipher suite alone, such as TLS_AES_128_GCM_SHA256
    #[arg(long, value_name = "SUITE", value_parser = parse_suite)]
    tls_suite: Option<String>,

    /// Offer a --target this group for the exchange of keys alone, such as x25519
    #[arg(long, value_name = "GROUP", value_parser = parse_group)]
    tls_group: Option<String>,

    /// Accept a certificate of a --target with a key of this type alone: ecdsa or rsa (default: any)
    #[arg(long, value_name = "TYPE", value_parser = parse_key)]
    tls_certificate: Option<KeyChoice>,

    /// Send queries with the first packets of a resumed connection to a --target (0-RTT)
    #[arg(long)]
    early_data: bool,

    /// Put queries to a --target that leave together into one TLS record; not over QUIC
    #[arg(long)]
    tls_packing: bool,

    /// Ask a --target over HTTPS by: post (the default) or get
    #[arg(long, value_name = "METHOD", value_parser = parse_method)]
    http_method: Option<MethodChoice>,

    /// Limit the bytes on their way to a --target over QUIC by: fixed (the default) or cubic
    ///
    /// A fixed window never fills.
    #[arg(long, value_name = "HOW")]
    congestion: Option<Congestion>,
}

fn parse_sources(text: &str) -> Result<SourceChoice, String> {
    let read = text.parse::<Sources>().map_err(|error| error.to_string());
    read.and_then(|_| SourceChoice::of_prefix(text).ok_or_else(|| "expected ADDR or ADDR/PREFIX".into()))
}

fn parse_close(text: &str) -> Result<CloseChoice, String> {
    match text {
        "fin" => Ok(CloseChoice::Fin),
        "rst" => Ok(CloseChoice::Rst),
        _ => Err("expected fin or rst".into()),
    }
}

fn parse_yes(text: &str) -> Result<bool, String> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err("expected yes or no".into()),
    }
}

fn parse_key(text: &str) -> Result<KeyChoice, String> {
    text.parse::<KeyType>().map(|key| match key {
        KeyType::Ecdsa => KeyChoice::Ecdsa,
        KeyType::Rsa => KeyChoice::Rsa,
    })
}

fn parse_method(text: &str) -> Result<MethodChoice, String> {
    match text {
        "post" => Ok(MethodChoice::Post),
        "get" => Ok(MethodChoice::Get),
        _ => Err("expected post or get".into()),
    }
}

fn parse_suite(text: &str) -> Result<String, String> {
    text.parse::<Suite>().map(|suite| suite.to_string())
}

fn parse_group(text: &str) -> Result<String, String> {
    text.parse::<Group>().map(|group| group.to_string())
}

/// The topic of a flag.
#[derive(Clone, Copy)]
enum About {
    Any,
    Io(Io),
    Connections,
    Tcp,
    Tls,
    Records,
    Https,
    Quic,
}

impl About {
    /// Whether a flag about it has an effect over a transport.
    fn is_for(self, transport: Transport) -> bool {
        match self {
            Self::Any => true,
            Self::Io(io) => Io::over(transport).contains(&io),
            Self::Connections => transport.has_connections(),
            Self::Tcp => transport.has_connections() && transport != Transport::Quic,
            Self::Tls => transport.is_encrypted(),
            Self::Records => transport.is_encrypted() && transport != Transport::Quic,
            Self::Https => transport == Transport::Https,
            Self::Quic => transport == Transport::Quic,
        }
    }

    /// Why a flag is refused if no server is played at over such a transport.
    fn refusal(self, flag: &str) -> String {
        match self {
            Self::Any => {
                format!(
                    "{flag} is for servers that run already, such as udp://127.0.0.1:5300; a subject has it as a \
                     setting: 'knot player.sources=127.1.0.0/16'"
                )
            }
            Self::Io(io) => {
                let over = Transport::ALL.into_iter().filter(|one| Io::over(*one).contains(&io));
                let over: Vec<&str> = over.map(Transport::word).collect();
                format!("{flag} {} is for servers over {} that run already", io.name(), over.join(", "))
            }
            Self::Connections | Self::Tcp => {
                let which = if matches!(self, Self::Tcp) { ", except QUIC," } else { "" };
                format!(
                    "flags such as {flag} are for servers over connections{which} that run already, such as \
                     tcp://127.0.0.1:5300; a subject has them as settings: 'knot player.transport=tcp \
                     player.connections=64'"
                )
            }
            Self::Tls => format!(
                "{flag} is for servers over tls, https or quic that run already, such as tls://127.0.0.1:8853; \
                 a subject that kqps starts gets a certificate of the run"
            ),
            Self::Records => {
                format!(
                    "{flag} is for servers over tls or https that run already, such as tls://127.0.0.1:8853"
                )
            }
            Self::Https => {
                format!("{flag} is for servers over https that run already, such as https://127.0.0.1:8443")
            }
            Self::Quic => {
                format!("{flag} is for servers over quic that run already, such as quic://127.0.0.1:8853")
            }
        }
    }
}

impl TargetFlags {
    /// All flags, and whether the user gave them.
    fn flags(&self) -> [(About, &'static str, bool); 18] {
        [
            (About::Any, "-a", self.local.is_some()),
            (About::Io(self.io.unwrap_or_default()), "--io", self.io.is_some()),
            (About::Connections, "--connections", self.connections.is_some()),
            (About::Connections, "--queries-per-connection", self.queries_per_connection.is_some()),
            (About::Connections, "--outstanding-per-connection", self.outstanding_per_connection.is_some()),
            (About::Connections, "--connect-timeout", self.connect_timeout.is_some()),
            (About::Tcp, "--close", self.close.is_some()),
            (About::Tls, "--ca", self.ca.is_some()),
            (About::Tls, "--insecure", self.insecure),
            (About::Tls, "--server-name", self.server_name.is_some()),
            (About::Tls, "--tls-resume", self.tls_resume.is_some()),
            (About::Tls, "--tls-suite", self.tls_suite.is_some()),
            (About::Tls, "--tls-group", self.tls_group.is_some()),
            (About::Tls, "--tls-certificate", self.tls_certificate.is_some()),
            (About::Tls, "--early-data", self.early_data),
            (About::Records, "--tls-packing", self.tls_packing),
            (About::Https, "--http-method", self.http_method.is_some()),
            (About::Quic, "--congestion", self.congestion.is_some()),
        ]
    }

    /// Refuses flags that have no effect at any of these servers, and flags that contradict each other.
    pub(crate) fn check(&self, running: &[RunningServer]) -> anyhow::Result<()> {
        let has = |about: About| running.iter().any(|one| about.is_for(one.factors.transport()));
        let vain = self.flags().into_iter().find(|(about, _, is_given)| *is_given && !has(*about));
        if let Some((about, flag, _)) = vain {
            return Err(bad_input(about.refusal(flag)));
        }
        if self.early_data && self.tls_resume == Some(false) {
            return Err(bad_input(
                "--early-data needs tickets of earlier connections: leave --tls-resume no out",
            ));
        }
        if self.io == Some(Io::Xdp) {
            return Err(bad_input(
                "--io xdp: the echo that a run starts beside a server is reached over loopback, which has no frames; \
                 play past the kernel by kqps load or kqps find",
            ));
        }
        if let Some(given) = self.connect_timeout.filter(|given| *given > TIMEOUT_MOST) {
            let (given_s, most_s) = (given.as_secs_f64(), TIMEOUT_MOST.as_secs());
            return Err(bad_input(format!("--connect-timeout {given_s}s: expected {most_s}s at most")));
        }
        running.iter().try_for_each(|one| self.check_local(one))
    }

    /// Checks that the source addresses belong to this host and to the family of a server.
    fn check_local(&self, server: &RunningServer) -> anyhow::Result<()> {
        let Some(local) = self.local else { return Ok(()) };
        let target = server.target.address;
        if local.is_ipv6() != target.is_ipv6() {
            return Err(bad_input(format!("-a and the target {target} are of different families")));
        }
        let flows = match PlayerSetup::from_cell(&server.cell(&Cell::default())).wire {
            WireSetup::Udp { sockets, .. } => sockets,
            WireSetup::Connected(setup) => setup.connections,
        };
        let sources: Sources = local.word().parse().map_err(bad_input)?;
        check_sources(&sources, flows as usize)
    }

    /// The settings of the player for a server over this transport, whose URL has this name or address and this path.
    pub(super) fn factors(&self, transport: Transport, typed: &str, path: &str) -> anyhow::Result<Factors> {
        let mut factors = Factors::default();
        let io = self.io.filter(|io| *io != Io::Auto && About::Io(*io).is_for(transport));
        let of_all = PlayerFactors {
            io: io.map(|io| io.name().to_owned()),
            sources: self.local,
            ..PlayerFactors::default()
        };
        if !transport.has_connections() {
            factors.set_player(of_all);
            return Ok(factors);
        }
        let mut player = PlayerFactors {
            transport: Some(transport),
            connect_timeout_s: self.connect_timeout.map(|timeout| timeout.as_secs_f64()),
            connections: self.connections,
            queries_per_connection: self.queries_per_connection,
            outstanding_per_connection: self.outstanding_per_connection,
            close: self.close.filter(|_| About::Tcp.is_for(transport)),
            ..of_all
        };
        if transport.is_encrypted() {
            let name = self.server_name.as_deref().unwrap_or(typed);
            server_name(name).map_err(|error| bad_input(format!("--server-name: {error}")))?;
            let is_https = transport == Transport::Https;
            player = PlayerFactors {
                resume: self.tls_resume,
                tls_suite: self.tls_suite.clone(),
                tls_group: self.tls_group.clone(),
                tls_trust: Some(self.trust()),
                tls_name: Some(name.to_owned()),
                http_method: self.http_method.filter(|_| is_https),
                http_path: is_https.then(|| path.to_owned()),
                tls_certificate: self.tls_certificate,
                early_data: self.early_data.then_some(true),
                tls_packing: Some(true).filter(|_| self.tls_packing && About::Records.is_for(transport)),
                congestion: self.congestion(transport),
                ..player
            };
        }
        factors.set_player(player);
        Ok(factors)
    }

    fn congestion(&self, transport: Transport) -> Option<CongestionChoice> {
        let named = self.congestion.filter(|_| About::Quic.is_for(transport));
        named.map(|congestion| match congestion {
            Congestion::Fixed => CongestionChoice::Fixed,
            Congestion::Cubic => CongestionChoice::Cubic,
        })
    }

    fn trust(&self) -> TrustChoice {
        match &self.ca {
            _ if self.insecure => TrustChoice::Anyone,
            Some(_) => TrustChoice::Ca,
            None => TrustChoice::System,
        }
    }

    /// The issuers that the user names, as PEM.
    pub(crate) fn issuers(&self) -> anyhow::Result<Option<String>> {
        self.ca.as_deref().map(issuers).transpose()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use kqps_observation::Target;

    use super::*;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        connections: TargetFlags,
    }

    fn typed(flags: &[&str]) -> TargetFlags {
        let words = ["kqps"].into_iter().chain(flags.iter().copied());
        Typed::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).connections
    }

    fn server(transport: Transport, flags: &[&str]) -> RunningServer {
        let factors = typed(flags).factors(transport, "127.0.0.1", "/dns-query").unwrap();
        let target = Target { address: ([127, 0, 0, 1], 53).into(), on_this_host: true };
        RunningServer { name: "server".into(), target, factors: Box::new(factors) }
    }

    #[test]
    fn each_transport_has_the_settings_that_are_for_it() {
        let flags = [
            "--queries-per-connection=0",
            "--outstanding-per-connection=9",
            "--close=rst",
            "--tls-resume=no",
            "--tls-suite=TLS_AES_128_GCM_SHA256",
            "--tls-group=x25519",
            "--http-method=get",
            "--connect-timeout=2s",
            "--congestion=cubic",
            "--io=uring",
            "-a127.9.0.0/16",
        ];
        for (transport, has_close, has_tls, has_http) in [
            (Transport::Tcp, true, false, false),
            (Transport::Tls, true, true, false),
            (Transport::Https, true, true, true),
            (Transport::Quic, false, true, false),
        ] {
            let server = server(transport, &flags);
            let word = |name: &str| server.factors.word(name);
            assert_eq!(word("player.queries_per_connection"), Some("0"), "{transport:?}");
            assert_eq!(word("player.outstanding_per_connection"), Some("9"));
            assert_eq!(word("player.close"), Some("rst").filter(|_| has_close));
            assert_eq!(word("player.resume"), Some("false").filter(|_| has_tls));
            assert_eq!(word("player.tls_suite"), Some("TLS_AES_128_GCM_SHA256").filter(|_| has_tls));
            assert_eq!(word("player.tls_group"), Some("x25519").filter(|_| has_tls));
            assert_eq!(word("player.http_method"), Some("get").filter(|_| has_http));
            assert_eq!(word("player.early_data"), None);
            assert_eq!(word("player.connect_timeout_s"), Some("2"));
            let is_quic = transport == Transport::Quic;
            assert_eq!(word("player.congestion"), Some("cubic").filter(|_| is_quic));
            assert_eq!(word("player.io"), Some("uring").filter(|_| !is_quic));
            assert_eq!(word("player.sources"), Some("127.9.0.0/16"));
        }
        let udp = server(Transport::Udp, &["--io=mmsg", "-a127.0.0.9", "--connect-timeout=2s"]);
        let words = [("player.io", "mmsg"), ("player.sources", "127.0.0.9/32")];
        assert_eq!(udp.factors.words(), &words.map(|(name, word)| (name.into(), word.into())).into());
        for transport in [Transport::Tls, Transport::Https, Transport::Quic] {
            let early = server(transport, &["--early-data", "--tls-certificate=rsa"]);
            assert_eq!(early.factors.word("player.early_data"), Some("true"));
            assert_eq!(early.factors.word("player.tls_certificate"), Some("rsa"));
        }
        assert_eq!(server(Transport::Udp, &[]).factors.transport(), Transport::Udp);
    }

    #[test]
    fn flags_without_effect_are_refused() {
        let servers = [Transport::Udp, Transport::Tcp, Transport::Quic].map(|one| server(one, &[]));
        let [udp, tcp, quic] = &servers;
        let refusal = |flags: &[&str], running: &[RunningServer]| {
            typed(flags).check(running).err().map(|error| error.to_string()).unwrap_or_default()
        };
        for (flag, running, why) in [
            ("--outstanding-per-connection=9", udp, "--outstanding-per-connection are for servers over"),
            ("--close=rst", quic, "--close are for servers over connections, except QUIC,"),
            ("--tls-resume=no", tcp, "--tls-resume is for servers over tls"),
            ("--http-method=get", quic, "--http-method is for servers over https"),
            ("--early-data", tcp, "--early-data is for servers over tls, https or quic"),
            ("--tls-packing", quic, "--tls-packing is for servers over tls or https"),
            ("--congestion=cubic", tcp, "--congestion is for servers over quic"),
            ("--connect-timeout=2s", udp, "--connect-timeout are for servers over connections that run"),
            ("--connect-timeout=11s", tcp, "--connect-timeout 11s: expected 10s at most"),
            ("--io=epoll", udp, "--io epoll is for servers over tcp, tls, https"),
            ("--io=uring", quic, "--io uring is for servers over udp, tcp, tls, https"),
            ("--io=xdp", tcp, "play past the kernel by kqps load"),
            ("-a::1", udp, "-a and the target 127.0.0.1:53 are of different families"),
            ("-a192.0.2.77", tcp, "this host has no address 192.0.2.77"),
        ] {
            let refused = refusal(&[flag], std::slice::from_ref(running));
            assert!(refused.contains(why), "{flag}: {refused}");
        }
        assert_eq!(refusal(&["--close=rst", "--early-data", "--tls-resume=yes"], &servers), "");
        let contradiction = refusal(&["--early-data", "--tls-resume=no"], &servers);
        assert!(contradiction.contains("leave --tls-resume no out"), "{contradiction}");
        assert!(!refusal(&["--connections=2"], &[]).is_empty(), "there is no such server");
        assert!(refusal(&["-a127.0.0.9"], &[]).contains("'knot player.sources=127.1.0.0/16'"));
        assert_eq!(refusal(&["--io=epoll", "-a127.0.0.9", "--congestion=cubic"], &servers), "");
        assert!(Typed::try_parse_from(["kqps", "--tls-group=x2551"]).is_err());
    }
}

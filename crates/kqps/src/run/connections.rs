//! The flags of connections to servers that run already, which `kqps run` and `kqps compare` share.

use std::path::PathBuf;

use kqps_lab::running_server::RunningServer;
use kqps_observation::Factors;
use kqps_observation::factors::{CloseChoice, MethodChoice, PlayerFactors, TrustChoice};
use kqps_observation::trial::Transport;
use kqps_player::plan::CONNECTIONS_MOST;
use kqps_tls::client::server_name;
use kqps_tls::{Group, Suite};

use crate::exit::bad_input;
use crate::load::issuers;
use crate::value::parse_within;

/// The use of connections that the user asks for. The comments are the help text.
#[derive(clap::Args, Clone, Default)]
#[allow(clippy::doc_markdown)] // the comments are the help text
#[command(next_help_heading = "Connections to a --target")]
#[group(id = "connections_to_targets", multiple = true)]
pub(crate) struct ConnectionUse {
    /// Have at most this many connections open at once to a --target, except over UDP (default: 8, or 500 with
    /// --queries-per-connection 0 or 1)
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

    /// The name of each --target in its certificate, if it has one (default: the target as typed)
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

    /// Ask a --target over HTTPS by: post (the default) or get
    #[arg(long, value_name = "METHOD", value_parser = parse_method)]
    http_method: Option<MethodChoice>,

    /// Send queries with the first packets of a resumed connection to a --target over QUIC (0-RTT)
    #[arg(long)]
    early_data: bool,
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

/// What a flag is about.
#[derive(Clone, Copy)]
enum About {
    Connections,
    Tcp,
    Tls,
    Https,
    Quic,
}

impl About {
    /// Whether a flag about it has an effect over a transport.
    fn is_for(self, transport: Transport) -> bool {
        match self {
            Self::Connections => transport.has_connections(),
            Self::Tcp => transport.has_connections() && transport != Transport::Quic,
            Self::Tls => transport.is_encrypted(),
            Self::Https => transport == Transport::Https,
            Self::Quic => transport == Transport::Quic,
        }
    }

    /// Why a flag is refused if no server is played at over such a transport.
    fn refusal(self, flag: &str) -> String {
        match self {
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
            Self::Https => {
                format!("{flag} is for servers over https that run already, such as https://127.0.0.1:8443")
            }
            Self::Quic => {
                format!("{flag} is for servers over quic that run already, such as quic://127.0.0.1:8853")
            }
        }
    }
}

impl ConnectionUse {
    /// All flags, and whether the user gave them.
    fn flags(&self) -> [(About, &'static str, bool); 12] {
        [
            (About::Connections, "--connections", self.connections.is_some()),
            (About::Connections, "--queries-per-connection", self.queries_per_connection.is_some()),
            (About::Connections, "--outstanding-per-connection", self.outstanding_per_connection.is_some()),
            (About::Tcp, "--close", self.close.is_some()),
            (About::Tls, "--ca", self.ca.is_some()),
            (About::Tls, "--insecure", self.insecure),
            (About::Tls, "--server-name", self.server_name.is_some()),
            (About::Tls, "--tls-resume", self.tls_resume.is_some()),
            (About::Tls, "--tls-suite", self.tls_suite.is_some()),
            (About::Tls, "--tls-group", self.tls_group.is_some()),
            (About::Https, "--http-method", self.http_method.is_some()),
            (About::Quic, "--early-data", self.early_data),
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
        Ok(())
    }

    /// The settings of the player for a server over this transport, whose URL has this name or address and this path.
    pub(super) fn factors(&self, transport: Transport, typed: &str, path: &str) -> anyhow::Result<Factors> {
        let mut factors = Factors::default();
        if !transport.has_connections() {
            return Ok(factors);
        }
        let mut player = PlayerFactors {
            transport: Some(transport),
            connections: self.connections,
            queries_per_connection: self.queries_per_connection,
            outstanding_per_connection: self.outstanding_per_connection,
            close: self.close.filter(|_| About::Tcp.is_for(transport)),
            ..PlayerFactors::default()
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
                early_data: (self.early_data && transport == Transport::Quic).then_some(true),
                ..player
            };
        }
        factors.set_player(player);
        Ok(factors)
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
        connections: ConnectionUse,
    }

    fn typed(flags: &[&str]) -> ConnectionUse {
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
        }
        let early = server(Transport::Quic, &["--early-data"]);
        assert_eq!(early.factors.word("player.early_data"), Some("true"));
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
            ("--early-data", tcp, "--early-data is for servers over quic"),
        ] {
            let refused = refusal(&[flag], std::slice::from_ref(running));
            assert!(refused.contains(why), "{flag}: {refused}");
        }
        assert_eq!(refusal(&["--close=rst", "--early-data", "--tls-resume=yes"], &servers), "");
        let contradiction = refusal(&["--early-data", "--tls-resume=no"], &servers);
        assert!(contradiction.contains("leave --tls-resume no out"), "{contradiction}");
        assert!(!refusal(&["--connections=2"], &[]).is_empty(), "there is no such server");
        assert!(Typed::try_parse_from(["kqps", "--tls-group=x2551"]).is_err());
    }
}

//! The flags of connections to servers that run already, which `kqps run` and `kqps compare` share.

use std::time::Duration;

use clap::{ArgGroup, ArgMatches, Args, Command, FromArgMatches};
use kqps_catalogue::choice::{Io, Transport};
use kqps_catalogue::factors::{Factors, SourceChoice};
use kqps_catalogue::name;
use kqps_catalogue::setting::Over;
use kqps_lab::running_server::RunningServer;
use kqps_observation::Cell;
use kqps_player::Sources;
use kqps_testbed::player_setup::PlayerSetup;
use kqps_tls::client::server_name;

use crate::exit::bad_input;
use crate::load::{check_sources, issuers};
use crate::setting_flags::{SettingFlags, arguments, typed};

/// The longest timeout. Every trial that loses queries waits that long at its end, and for connections at its start.
pub(super) const TIMEOUT_MOST: Duration = Duration::from_secs(10);

/// The use of connections that the user asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct TargetFlags(SettingFlags);

/// The heading of the flags in the help.
const HEADING: &str = "Connections to a server that runs already";

/// The group of the flags, with which others conflict.
const GROUP: &str = "connections_to_targets";

impl Args for TargetFlags {
    fn augment_args(command: Command) -> Command {
        let arguments = arguments(|_| true, |_| HEADING).into_iter().map(|argument| argument.group(GROUP));
        command.args(arguments).group(ArgGroup::new(GROUP).multiple(true))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for TargetFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(SettingFlags::read(matches, |_| true)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Why a flag is refused if no server is played at over a transport that it is for.
fn refusal(over: Over, flag: &str, word: &str) -> String {
    match over {
        Over::Every | Over::Udp => format!(
            "{flag} is for servers that run already, such as udp://127.0.0.1:5300; a subject has it as a setting: 'knot \
             player.sources=127.1.0.0/16'"
        ),
        Over::Io => {
            let is_for = |transport: &Transport| over.has_effect(word, *transport);
            let transports = Transport::ALL.into_iter().filter(is_for).map(Transport::word);
            let transports = transports.collect::<Vec<_>>().join(", ");
            format!("{flag} {word} is for servers over {transports} that run already")
        }
        Over::Connections | Over::Tcp => {
            let which = if over == Over::Tcp { ", except QUIC," } else { "" };
            format!(
                "flags such as {flag} are for servers over connections{which} that run already, such as \
                 tcp://127.0.0.1:5300; a subject has them as settings: 'knot player.transport=tcp \
                 player.connections=64'"
            )
        }
        Over::Encrypted => format!(
            "{flag} is for servers over tls, https or quic that run already, such as tls://127.0.0.1:8853; \
             a subject that kqps starts gets a certificate of the run"
        ),
        Over::Records => {
            format!("{flag} is for servers over tls or https that run already, such as tls://127.0.0.1:8853")
        }
        Over::Https => {
            format!("{flag} is for servers over https that run already, such as https://127.0.0.1:8443")
        }
        Over::Quic => {
            format!("{flag} is for servers over quic that run already, such as quic://127.0.0.1:8853")
        }
    }
}

impl TargetFlags {
    /// Refuses flags that have no effect at any of these servers, and flags that contradict each other.
    pub(crate) fn check(&self, running: &[RunningServer]) -> anyhow::Result<()> {
        let has_effect =
            |over: Over, word: &str| running.iter().any(|one| over.has_effect(word, one.factors.transport()));
        if let Some((over, flag, word)) = self.0.given().find(|(over, _, word)| !has_effect(*over, word)) {
            return Err(bad_input(refusal(over, &typed(&flag), word)));
        }
        self.0.check_early_data("--tls-resume")?;
        if self.0.word(name::PLAYER_IO) == Some(Io::Xdp.word()) {
            return Err(bad_input(
                "--io xdp: the echo that a run starts beside a server is reached over loopback, which has no frames; \
                 play past the kernel by kqps load or kqps find",
            ));
        }
        let connect_timeout_s = self.0.word(name::PLAYER_CONNECT_TIMEOUT).and_then(|word| word.parse().ok());
        if let Some(given_s) = connect_timeout_s.filter(|given_s: &f64| *given_s > TIMEOUT_MOST.as_secs_f64())
        {
            let most_s = TIMEOUT_MOST.as_secs();
            return Err(bad_input(format!("--connect-timeout {given_s}s: expected {most_s}s at most")));
        }
        running.iter().try_for_each(|one| self.check_local(one))
    }

    /// Checks that the source addresses belong to this host and to the family of a server.
    fn check_local(&self, server: &RunningServer) -> anyhow::Result<()> {
        let Some(local) = self.0.word(name::PLAYER_SOURCES) else { return Ok(()) };
        let target = server.target.address;
        if SourceChoice::from_prefix(local).is_some_and(SourceChoice::is_ipv6) != target.is_ipv6() {
            return Err(bad_input(format!("-a and the target {target} are of different families")));
        }
        let places = PlayerSetup::from_cell(&server.cell(&Cell::default())).places();
        let sources: Sources = local.parse().map_err(bad_input)?;
        check_sources(&sources, places as usize)
    }

    /// The settings of the player for a server over this transport, whose URL has this name or address and this path.
    pub(super) fn factors(&self, transport: Transport, typed: &str, path: &str) -> anyhow::Result<Factors> {
        let mut factors = self.0.factors(transport).map_err(bad_input)?;
        if factors.word(name::PLAYER_IO) == Some(Io::Auto.word()) {
            factors = factors.filtered(|name| name != name::PLAYER_IO);
        }
        let mut player = factors.player().clone();
        if transport.is_encrypted() {
            let name = self.0.server_name.as_deref().unwrap_or(typed);
            server_name(name).map_err(|error| bad_input(format!("--server-name: {error}")))?;
            (player.tls_name, player.tls_trust) = (Some(name.to_owned()), Some(self.0.trust()));
            player.http_path = (transport == Transport::Https).then(|| path.to_owned());
        }
        factors.set_player(player);
        Ok(factors)
    }

    /// The issuers that the user names, as PEM.
    pub(crate) fn issuers(&self) -> anyhow::Result<Option<String>> {
        self.0.ca.as_deref().map(issuers).transpose()
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

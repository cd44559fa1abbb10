//! Flags that say which messages of a capture belong to the server. All commands with captures share them.

use std::net::IpAddr;

use kqps_capture::Settings;
use kqps_dataset::{CaptureOptions, Client};

use crate::value::{PORTS, parse_within};

/// The flags that choose the servers in a capture. The comments are the help text.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Captures")]
pub(crate) struct CapturedArgs {
    /// The servers' port in a capture (repeatable; default: 53)
    #[arg(long, value_name = "PORT", value_parser = parse_within::<u16>(PORTS))]
    captured_port: Vec<u16>,

    /// Take queries to this server alone, of several in a capture (repeatable; default: any)
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    captured_server: Vec<IpAddr>,
}

fn parse_address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| "expected an address, such as 192.0.2.53 or 2001:db8::53".into())
}

impl CapturedArgs {
    /// The settings of a reader with these flags.
    pub(crate) fn settings(&self) -> Settings {
        let usual = Settings::default();
        let ports = if self.captured_port.is_empty() { usual.ports } else { self.captured_port.clone() };
        Settings { ports, servers: self.captured_server.clone(), ..usual }
    }

    /// The options of a dataset with these flags.
    pub(crate) fn options(&self, client: Client) -> CaptureOptions {
        let Settings { ports, servers, .. } = self.settings();
        CaptureOptions { ports, servers, client }
    }

    /// The first of the flags that the user gave.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--captured-port", !self.captured_port.is_empty()),
            ("--captured-server", !self.captured_server.is_empty()),
        ];
        given.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag))
    }
}

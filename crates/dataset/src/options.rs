//! How a query file or a capture is read.

use std::net::IpAddr;
use std::path::PathBuf;

use kqps_message::Edns;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use crate::additions::Additions;

/// How to read a query file or a capture.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Text, binary or capture.
    pub format: Format,
    /// Whether to give an OPT record to every query that has none.
    pub edns: bool,
    /// Whether to give an OPT record with the DO flag to every query.
    pub dnssec: bool,
    /// Whether to skip and count bad lines and messages; otherwise the first is an error. Bad messages of a capture are
    /// always skipped and counted.
    pub skip_bad: bool,
    /// The folder of encoded datasets; `None` for the user's cache directory.
    pub cache_dir: Option<PathBuf>,
    /// How a capture is read.
    pub capture: CaptureOptions,
    /// Additions to every query of a file beside EDNS. A capture gets none of them.
    pub additions: Additions,
}

impl Options {
    /// The OPT record that every query gets.
    pub(crate) fn every_query(&self) -> Option<Edns> {
        let usual = Edns::default();
        let udp_payload_bytes = self.additions.udp_payload_bytes.unwrap_or(usual.udp_payload_bytes);
        let is_wanted = self.edns || self.dnssec || !self.additions.edns_options.is_empty();
        is_wanted.then_some(Edns { dnssec_ok: self.dnssec, udp_payload_bytes, ..usual })
    }

    /// The options that change the encoded form.
    pub(crate) fn shape(&self) -> Vec<u8> {
        let CaptureOptions { ports, servers, client } = &self.capture;
        let mut shape = vec![
            self.format.number(),
            self.edns.into(),
            self.dnssec.into(),
            self.skip_bad.into(),
            client.number(),
        ];
        // The order of ports and servers does not matter. Their number separates them.
        let mut ports = ports.clone();
        ports.sort_unstable();
        ports.dedup();
        shape.extend_from_slice(&(ports.len() as u64).to_le_bytes());
        shape.extend(ports.iter().flat_map(|port| port.to_le_bytes()));
        let mut servers = servers.clone();
        servers.sort_unstable();
        servers.dedup();
        for server in servers {
            match server {
                IpAddr::V4(address) => shape.extend_from_slice(&address.octets()),
                IpAddr::V6(address) => shape.extend_from_slice(&address.octets()),
            }
            shape.push(if server.is_ipv4() { 4 } else { 6 });
        }
        self.additions.shape(&mut shape);
        shape
    }
}

/// The format of a query file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// A capture if the first bytes are those of one, compressed or not. Otherwise binary if the first byte is below 9,
    /// and text if it is not: no line of text begins with such a byte, and every length below 2304 does.
    #[default]
    Auto,
    /// Lines of `name type [further columns]`.
    Text,
    /// Lines of `name type`. What follows is not read, as by dnsperf.
    Plain,
    /// 16-bit big-endian lengths and messages.
    Binary,
    /// Lengths and messages as in [`Self::Binary`]. Every message of two bytes or more is sent as it is, whatever its
    /// bytes are.
    AnyBytes,
    /// Dynamic updates (RFC 2136) in the text form of dnsperf: a zone, prerequisites and changes, and `send`.
    Updates,
    /// Packets or messages with their times: pcap, pcapng or dnstap, plain or compressed.
    Capture,
}

/// How to read a capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaptureOptions {
    /// The ports of servers.
    pub ports: Vec<u16>,
    /// The servers whose queries are taken; empty for all.
    pub servers: Vec<IpAddr>,
    /// How clients are distinguished.
    pub client: Client,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        Self { ports: vec![53], servers: Vec::new(), client: Client::default() }
    }
}

/// How clients of a capture are distinguished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown)]
pub enum Client {
    /// A source address.
    #[default]
    Address,
    /// A source address with a source port.
    AddressAndPort,
}

impl Format {
    fn number(self) -> u8 {
        self as u8
    }
}

impl Client {
    fn number(self) -> u8 {
        self as u8
    }

    /// The word in flags and records.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The error for a word that distinguishes no clients.
fn unknown(_: &str) -> String {
    "expected address or address-and-port".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(change: impl FnOnce(&mut CaptureOptions)) -> Vec<u8> {
        let mut options = Options::default();
        change(&mut options.capture);
        options.shape()
    }

    #[test]
    fn words_are_typed_as_they_are_stored() {
        let clients = [Client::Address, Client::AddressAndPort];
        assert_eq!(clients.map(Client::name), ["address", "address-and-port"]);
        for client in clients {
            assert_eq!(client.name().parse(), Ok(client));
            assert_eq!(serde_json::to_value(client).unwrap(), client.name());
        }
        assert_eq!("port".parse::<Client>().unwrap_err(), "expected address or address-and-port");
    }

    #[test]
    fn options_that_read_a_capture_otherwise_have_another_shape() {
        let server: IpAddr = "192.0.2.1".parse().expect("an address");
        let shapes = [
            shape(|_| ()),
            shape(|capture| capture.ports = vec![53, 5353]),
            shape(|capture| capture.ports.clear()),
            shape(|capture| capture.servers = vec![server]),
            shape(|capture| capture.client = Client::AddressAndPort),
        ];
        for (at, one) in shapes.iter().enumerate() {
            assert!(shapes[..at].iter().all(|other| other != one), "{at}");
        }
        assert_eq!(shapes[1], shape(|capture| capture.ports = vec![5353, 53, 53]), "the same ports");
    }
}

//! A command that shows what it measures: its process, its addresses, and what it serves there.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStderr};

/// A process that ends with its test, also if that fails.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads what a command prints on stderr, up to the address at which it shows itself. Returns the address, and what it
/// read.
pub(crate) fn shown_at(stderr: &mut BufReader<ChildStderr>, path: &str) -> (SocketAddr, String) {
    let mut said = String::new();
    loop {
        let begin = said.len();
        assert!(stderr.read_line(&mut said).unwrap() > 0, "it says no address: {said}");
        let url = said[begin..].trim_end().split_once("http://").map(|(_, url)| url);
        if let Some(address) = url.and_then(|url| url.strip_suffix(path)) {
            return (address.parse().unwrap(), said);
        }
    }
}

/// A server's answer to these bytes: its head and its body.
pub(crate) fn answer(address: SocketAddr, bytes: &[u8]) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bytes).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    (head.to_owned(), body.to_owned())
}

pub(crate) fn get(address: SocketAddr, path: &str) -> (String, String) {
    answer(address, format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text, */*;q=0.1\r\n\r\n"
    ).as_bytes())
}

/// The values of a text of `/metrics` by their names with labels.
pub(crate) type Values = BTreeMap<String, f64>;

/// Reads a text of `/metrics`.
pub(crate) fn values_of(text: &str) -> Values {
    assert!(text.ends_with("# EOF\n"), "{text}");
    let values = text.lines().filter(|line| !line.starts_with('#'));
    values
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

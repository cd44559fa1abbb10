//! What a measurement shows of itself while it goes on: on a terminal, to Prometheus, and as a page.

// The page is looked at as in the tests of reports.
#[expect(dead_code, reason = "the tests of reports use the rest of it")]
#[path = "../../../report/tests/support/browser.rs"]
mod browser;
mod page;
mod pty;
mod scraped;
mod terminal;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::ChildStderr;
use std::time::Duration;

/// The longest wait for anything. It is far above the need, so that only a hang ends a test.
const PATIENCE: Duration = Duration::from_mins(2);

/// Reads what a command prints on stderr, up to the address at which it shows itself.
fn shown_at(stderr: &mut BufReader<ChildStderr>, path: &str) -> SocketAddr {
    let mut line = String::new();
    while stderr.read_line(&mut line).unwrap() > 0 {
        let url = line.trim_end().split_once("http://").map(|(_, url)| url);
        if let Some(address) = url.and_then(|url| url.strip_suffix(path)) {
            return address.parse().unwrap();
        }
        line.clear();
    }
    panic!("it says no address");
}

/// What a server answers to these bytes: its head and its body.
fn answer(address: SocketAddr, bytes: &[u8]) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(bytes).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    (head.to_owned(), body.to_owned())
}

fn get(address: SocketAddr, path: &str) -> (String, String) {
    answer(address, format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
}

//! A command line of dnsperf, typed, and its errors in dnsperf's words.

mod long;
pub(super) mod value;

use std::fmt;
use std::time::Duration;

use kqps_observation::trial::Transport;
use kqps_player::{Prefix, TsigKey};
use kqps_testbed::words::counted;

use super::getopt::{Letters, Part, split};
use super::usage::{LONG, USAGE};
use crate::load::per_query::{EdnsOption, KeyFault, parse_key};
use long::Suppressed;
use value::{port, seconds, six_decimals, whole};

/// The queries of a thread that may be outstanding: one to each ID.
const IDS: u64 = 1 << 16;

const LETTERS: Letters = Letters { with_value: "fmspaxdcTnlbtEyqQSO", alone: "eDuBvWjhH" };

/// The request of a command line.
#[derive(Debug)]
pub(super) enum Parsed {
    Run(Box<Command>),
    /// A single help text.
    Help(&'static str),
    /// All of them, as `--help` asks other commands of kqps.
    LongHelp,
}

/// Settings of the measurement, and of its output.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(clippy::struct_excessive_bools)] // each is a flag of its own
pub(super) struct Command {
    /// The word of an address family.
    pub(super) family: &'static str,
    pub(super) mode: Transport,
    pub(super) server: String,
    pub(super) port: Option<u16>,
    pub(super) local_address: Option<String>,
    pub(super) local_port: u16,
    pub(super) file: Option<String>,
    pub(super) clients: u64,
    pub(super) threads: u64,
    pub(super) runs: Option<u64>,
    pub(super) limit: Option<Duration>,
    pub(super) buffer_kib: Option<u64>,
    pub(super) timeout: Duration,
    pub(super) edns: bool,
    pub(super) edns_option: Option<EdnsOption>,
    pub(super) dnssec: bool,
    pub(super) tsig: Option<TsigKey>,
    pub(super) outstanding: u64,
    pub(super) rate_qps: Option<u64>,
    pub(super) interval: Option<Duration>,
    pub(super) updates: bool,
    pub(super) binary: bool,
    pub(super) verbose: bool,
    pub(super) log_to_stdout: bool,
    /// Whether results are JSON.
    pub(super) json: bool,
    pub(super) doh_uri: String,
    pub(super) doh_by_post: bool,
    pub(super) tls_sni: Option<String>,
    pub(super) queries_per_connection: Option<u32>,
    pub(super) suppressed: Suppressed,
    pub(super) verbose_intervals: bool,
    pub(super) latency_histogram: bool,
    /// Random labels before names, which dnsperf does not have.
    pub(super) prefix: Option<Prefix>,
}

/// An error of a command line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    message: String,
    /// The usage that follows.
    usage: Option<&'static str>,
}

impl Fault {
    /// An error after which dnsperf prints its usage.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), usage: Some(USAGE) }
    }

    pub(super) fn alone(message: impl Into<String>) -> Self {
        Self { message: message.into(), usage: None }
    }

    /// The error of another program's command line. Its usage follows where dnsperf's would.
    pub(super) fn of_program(self, usage: &'static str) -> Self {
        Self { usage: self.usage.map(|_| usage), ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{}", self.message)?;
        out.write_str(self.usage.unwrap_or_default())
    }
}

impl std::error::Error for Fault {}

/// Reads a command line.
pub(super) fn parse(words: &[String]) -> Result<Parsed, Fault> {
    let mut command = Command::new();
    for part in split(words, LETTERS) {
        match part {
            Part::Flag('h') => return Ok(Parsed::Help(USAGE)),
            Part::Flag('H') => return Ok(Parsed::Help(LONG)),
            Part::LongHelp => return Ok(Parsed::LongHelp),
            Part::Flag(letter) => command.flag(letter),
            Part::Value(letter, value) => command.value(letter, &value)?,
            Part::Unknown(letter) => {
                return Err(Fault::usage(format!("dnsperf: invalid option -- '{letter}'")));
            }
            Part::NoValue(letter) => {
                return Err(Fault::usage(format!("dnsperf: option requires an argument -- '{letter}'")));
            }
            Part::Word(word) => return Err(Fault::usage(format!("unexpected argument {word}"))),
        }
    }
    let other = command.edns || command.dnssec || command.edns_option.is_some() || command.updates;
    if command.binary && (other || command.tsig.is_some()) {
        return Err(Fault::alone("-B is mutually exclusive with -D, -e, -E, -u, -y"));
    }
    if command.prefix.is_some() && (command.binary || command.updates) {
        return Err(Fault::alone("-O prefix is mutually exclusive with -B, -u"));
    }
    Ok(Parsed::Run(Box::new(command)))
}

impl Command {
    /// The command of a line without flags.
    pub(super) fn new() -> Self {
        Self {
            family: "any",
            server: "127.0.0.1".into(),
            clients: 1,
            threads: 1,
            timeout: Duration::from_secs(5),
            outstanding: 100,
            doh_uri: "https://localhost/dns-query".into(),
            ..Self::default()
        }
    }

    pub(super) fn flag(&mut self, letter: char) {
        match letter {
            'e' => self.edns = true,
            'D' => self.dnssec = true,
            'u' => self.updates = true,
            'B' => self.binary = true,
            'v' => self.verbose = true,
            'j' => self.json = true,
            _ => self.log_to_stdout = true,
        }
    }

    pub(super) fn value(&mut self, letter: char, value: &str) -> Result<(), Fault> {
        match letter {
            'f' => self.family = family(value)?,
            'm' => self.mode = mode(value)?,
            's' => value.clone_into(&mut self.server),
            'p' => self.port = Some(port("port", value)?).filter(|port| *port > 0),
            'a' => self.local_address = Some(value.to_owned()),
            'x' => self.local_port = port("local_port", value)?,
            'd' => self.file = Some(value.to_owned()),
            'c' => self.clients = whole("clients", value)?,
            'T' => self.threads = whole("threads", value)?,
            'n' => self.runs = Some(whole("maxruns", value)?),
            'l' => self.limit = Some(seconds("timelimit", value)?).filter(|limit| !limit.is_zero()),
            'b' => self.buffer_kib = Some(whole("buffer_size", value)?),
            't' => self.timeout = seconds("timeout", value)?,
            'E' => self.edns_option = Some(edns_option(value)?),
            'y' => self.tsig = Some(key(value)?),
            'q' => self.outstanding = whole("num_queries", value)?,
            'Q' => self.rate_qps = Some(whole("max_qps", value)?),
            'S' => self.interval = Some(seconds("stats_interval", value)?).filter(|every| !every.is_zero()),
            _ => self.long(value)?,
        }
        Ok(())
    }

    /// The threads that play: no more than queries a second and clients, of which each has one at least.
    pub(super) fn threads_used(&self) -> u64 {
        self.threads.min(self.rate_qps.unwrap_or(u64::MAX)).min(self.clients)
    }

    /// The outstanding queries that the IDs of its threads allow.
    pub(super) fn outstanding_used(&self) -> u64 {
        self.outstanding.min(self.threads_used() * IDS)
    }

    /// The warnings of dnsperf about values that it lowers.
    pub(super) fn adjustments(&self) -> Vec<String> {
        let (Self { threads, clients, outstanding, .. }, mut said) = (self, Vec::new());
        let left = self.rate_qps.map_or(*threads, |rate_qps| *threads.min(&rate_qps));
        if let Some(rate_qps) = self.rate_qps.filter(|rate_qps| rate_qps < threads) {
            said.push(format!(
                "requested max QPS limit (-Q {rate_qps}) is lower than number of threads (-T {threads}), lowering \
                 number of threads"
            ));
        }
        if left > *clients {
            said.push(format!(
                "requested number of threads (-T {left}) exceeds number of clients (-c {clients}), lowering number \
                 of threads"
            ));
        }
        if self.outstanding_used() < *outstanding {
            said.push(format!(
                "requested number of outstanding queries (-q {outstanding}) per single thread (-T) exceeds built-in \
                 maximum {IDS}, adjusting"
            ));
        }
        said
    }

    /// The words after `Stopping after`.
    pub(super) fn stopping_after(&self) -> String {
        let runs = |runs: u64| format!("{} through file", counted(runs, "run"));
        let limit = self.limit.map(|limit| format!("{} seconds", six_decimals(limit)));
        match (limit, self.runs) {
            (Some(limit), Some(times)) => format!("{limit} or {}", runs(times)),
            (Some(limit), None) => limit,
            (None, times) => runs(times.unwrap_or(1)),
        }
    }
}

fn family(value: &str) -> Result<&'static str, Fault> {
    let known = ["any", "inet", "inet6"].into_iter().find(|word| *word == value);
    known.ok_or_else(|| Fault::usage(format!("invalid family {value}")))
}

fn mode(value: &str) -> Result<Transport, Fault> {
    match value {
        "udp" => Ok(Transport::Udp),
        "tcp" => Ok(Transport::Tcp),
        "tls" | "dot" => Ok(Transport::Tls),
        "doh" => Ok(Transport::Https),
        _ => Err(Fault::usage("Warning: invalid socket mode")),
    }
}

fn edns_option(value: &str) -> Result<EdnsOption, Fault> {
    let warning = |text: String| Fault::usage(format!("Warning: invalid EDNS Option{text}"));
    let (code, hex) = value.split_once(':').ok_or_else(|| warning(", must be code:value".into()))?;
    if hex.is_empty() {
        return Err(warning(", value is empty".into()));
    }
    if hex.len() % 2 != 0 {
        return Err(warning(", value must hex string (even number of characters)".into()));
    }
    let code: u64 = code.parse().map_err(|_| warning(format!(" code '{code}'")))?;
    // dnsperf takes the lower 16 bits.
    let [.., high, low] = code.to_be_bytes();
    EdnsOption::new(u16::from_be_bytes([high, low]), hex).map_err(|_| warning(format!(" hex value '{hex}'")))
}

fn key(value: &str) -> Result<TsigKey, Fault> {
    parse_key(value).map_err(|fault| match fault {
        KeyFault::Parts => Fault::usage("Warning: invalid TSIG [alg:]name:secret"),
        KeyFault::Algorithm(word) => Fault::usage(format!("Warning: invalid TSIG algorithm {word}")),
        KeyFault::Name(_) => Fault::alone("Error: unable to setup TSIG, invalid name"),
        KeyFault::EmptySecret => Fault::usage("Warning: unable to setup TSIG, secret empty"),
        KeyFault::Secret => Fault::alone("Error: unable to setup TSIG, invalid base64 secret"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, Fault> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match parse(&words)? {
            Parsed::Run(command) => Ok(*command),
            Parsed::Help(_) | Parsed::LongHelp => panic!("{line} asks for help"),
        }
    }

    #[test]
    fn defaults_are_those_of_the_manual() {
        let command = parsed("").unwrap();
        assert_eq!((&*command.server, command.port, command.outstanding), ("127.0.0.1", None, 100));
        assert_eq!((command.clients, command.threads, command.timeout), (1, 1, Duration::from_secs(5)));
        assert_eq!(command.stopping_after(), "1 run through file");
        assert_eq!(parsed("-n 2").unwrap().stopping_after(), "2 runs through file");
        assert_eq!(parsed("-l 1.5").unwrap().stopping_after(), "1.500000 seconds");
        assert_eq!(parsed("-l1 -n8").unwrap().stopping_after(), "1.000000 seconds or 8 runs through file");
    }

    #[test]
    fn results_are_json_if_asked_for_and_help_has_a_long_name() {
        assert!(parsed("-ej -n 2").unwrap().json && !parsed("-e").unwrap().json);
        let of = |words: &[&str]| parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert!(matches!(of(&["-q", "5", "--help"]), Ok(Parsed::LongHelp)));
        assert!(
            matches!(of(&["--help"]), Ok(Parsed::LongHelp)) && matches!(of(&["-h"]), Ok(Parsed::Help(USAGE)))
        );
        assert_eq!(of(&["-d", "--help"]).map(|_| ()), Ok(()), "the name of a file");
    }

    #[test]
    fn zeros_that_dnsperf_takes_for_none_are_none() {
        let command = parsed("-l 0 -S 0 -p 0 -x 0 -t 0").unwrap();
        assert_eq!((command.limit, command.interval, command.port), (None, None, None));
        assert_eq!(command.timeout, Duration::ZERO);
        assert_eq!(parsed("-E 65537:00").unwrap().edns_option, parsed("-E 1:00").unwrap().edns_option);
        assert_eq!(parsed("-E 1:00 -E 2:00").unwrap().edns_option, parsed("-E 2:00").unwrap().edns_option);
    }

    #[test]
    fn values_that_are_too_high_are_lowered_with_a_warning() {
        let lowered = |line: &str| {
            let command = parsed(line).unwrap();
            (command.threads_used(), command.outstanding_used(), command.adjustments().len())
        };
        assert_eq!(lowered("-T 4 -c 4"), (4, 100, 0));
        assert_eq!(lowered("-T 9 -c 2"), (2, 100, 1));
        assert_eq!(lowered("-T 9 -c 9 -Q 3"), (3, 100, 1));
        assert_eq!(lowered("-T 9 -c 2 -Q 3 -q 200000"), (2, 131_072, 3));
        let said = parsed("-T 4 -c 2").unwrap().adjustments();
        assert_eq!(
            said,
            [
                "requested number of threads (-T 4) exceeds number of clients (-c 2), lowering number of threads"
            ]
        );
    }

    #[test]
    fn errors_have_the_words_of_dnsperf() {
        for (line, message) in [
            ("-q 0", "invalid num_queries: 0"),
            ("-Q -1", "invalid max_qps: -1"),
            ("-p 70000", "invalid port: 70000"),
            ("-l x", "invalid timelimit: x"),
            ("-f foo", "invalid family foo"),
            ("-m foo", "Warning: invalid socket mode"),
            ("-y foo", "Warning: invalid TSIG [alg:]name:secret"),
            ("-y hmac-foo:a:AAAA", "Warning: invalid TSIG algorithm hmac-foo"),
            ("-y a:", "Warning: unable to setup TSIG, secret empty"),
            ("-E foo", "Warning: invalid EDNS Option, must be code:value"),
            ("-E 3:", "Warning: invalid EDNS Option, value is empty"),
            ("-E 1:0", "Warning: invalid EDNS Option, value must hex string (even number of characters)"),
            ("-E 1:zz", "Warning: invalid EDNS Option hex value 'zz'"),
            ("-Z", "dnsperf: invalid option -- 'Z'"),
            ("-s", "dnsperf: option requires an argument -- 's'"),
            ("extra", "unexpected argument extra"),
        ] {
            assert_eq!(parsed(line), Err(Fault::usage(message)), "{line}");
        }
        let secret = Fault::alone("Error: unable to setup TSIG, invalid base64 secret");
        assert_eq!(parsed("-y a:b"), Err(secret));
        assert!(
            parsed("-u -O prefix=label")
                .unwrap_err()
                .to_string()
                .starts_with("-O prefix is mutually exclusive")
        );
        assert!(parsed("-B -e").unwrap_err().to_string().starts_with("-B is mutually exclusive"));
        assert!(
            parsed("-q 0").unwrap_err().to_string().starts_with("invalid num_queries: 0\nUsage: dnsperf")
        );
    }
}

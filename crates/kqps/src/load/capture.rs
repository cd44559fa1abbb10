//! The flags of captures that `kqps load` and `kqps find` share.

use std::time::Duration;

use clap::ValueEnum;
use kqps_capture::Settings;
use kqps_dataset::{CaptureFacts, CaptureOptions, Check, Client, Dataset};
use kqps_observation::factors::name;
use kqps_player::plan::PILE_MOST;

use crate::captured::CapturedArgs;
use crate::exit::bad_input;
use crate::value::{parse_duration, parse_within};

/// Where expectations come from, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExpectArg {
    Captured,
}

/// The part of a capture that is played, from its first query on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: Duration,
    /// `None` for the capture's end.
    pub(crate) to: Option<Duration>,
}

impl Window {
    /// The window as it may be typed: `10s..120s`, `10s..`.
    fn word(self) -> String {
        let to = self.to.map(|to| format!("{}s", to.as_secs_f64())).unwrap_or_default();
        format!("{}s..{to}", self.from.as_secs_f64())
    }
}

/// Parses a window: `FROM..TO`, of which either end may be left out.
fn parse_window(text: &str) -> Result<Window, String> {
    let expected = "expected FROM..TO, such as 10s..2m, 10s.. or ..2m";
    let (from, to) = text.split_once("..").ok_or(expected)?;
    let end = |text: &str| if text.is_empty() { Ok(None) } else { parse_duration(text).map(Some) };
    let (from, to) = (end(from)?.unwrap_or_default(), end(to)?);
    match to {
        Some(to) if to <= from => Err(format!("{expected}, with FROM before TO")),
        _ => Ok(Window { from, to }),
    }
}

/// The flags of captures. The comments are the help text.
#[derive(clap::Args)]
#[allow(clippy::doc_markdown)] // the comments are the help text
#[command(next_help_heading = "Captures")]
pub(crate) struct CaptureArgs {
    #[command(flatten)]
    captured: CapturedArgs,

    /// How clients of a capture are distinguished: by address (the default), or address-and-port
    ///
    /// Each client keeps a source address and port, or connections, of its own. docs/CAPTURES.md says how captured
    /// clients become addresses of this host (-a).
    #[arg(long, value_name = "WHAT")]
    client: Option<Client>,

    /// Check replies against the responses in the capture; the value is captured
    ///
    /// By the rcode and the answer, or with --check rcode by the rcode alone. Queries without a reply in the capture
    /// are not checked. Without this flag no reply to a capture's query is checked.
    #[arg(long, value_name = "WHOSE", hide_possible_values = true)]
    expect: Option<ExpectArg>,

    /// Play only this part of a capture: FROM..TO after its first query, such as 10s..2m
    #[arg(long, value_name = "FROM..TO", value_parser = parse_window)]
    window: Option<Window>,

    /// Cut a capture into this many slices and play them at once, each with clients of its own
    ///
    /// The load is as many times higher, and each client asks at its own pace.
    #[arg(long, value_name = "N", value_parser = parse_within::<u32>(1..=u64::from(PILE_MOST)))]
    pile: Option<u32>,
}

impl CaptureArgs {
    /// How a capture is read.
    pub(crate) fn options(&self) -> CaptureOptions {
        self.captured.options(self.client.unwrap_or_default())
    }

    /// The settings of a reader of the capture.
    pub(super) fn settings(&self) -> Settings {
        self.captured.settings()
    }

    /// The part that is played.
    pub(crate) fn window(&self) -> Window {
        self.window.unwrap_or_default()
    }

    /// How many slices are played at once.
    pub(crate) fn pile(&self) -> u32 {
        self.pile.unwrap_or(1)
    }

    /// Factors of a search that plays a capture with these flags, name → word. Flags that were left out have none.
    pub(super) fn recorded(&self) -> impl Iterator<Item = (&'static str, String)> {
        // The trials have what was checked.
        let Self { captured: _, client: _, expect: _, window, pile } = self;
        let (read, usual) = (self.options(), CaptureOptions::default());
        let listed = |words: Vec<String>| words.join(",");
        let ports = (read.ports != usual.ports).then(|| read.ports.iter().map(ToString::to_string).collect());
        let servers =
            (!read.servers.is_empty()).then(|| read.servers.iter().map(ToString::to_string).collect());
        let words = [
            (name::DATASET_CLIENT, (read.client != usual.client).then(|| read.client.name().to_owned())),
            (name::DATASET_CAPTURED_PORTS, ports.map(listed)),
            (name::DATASET_CAPTURED_SERVERS, servers.map(listed)),
            (name::DATASET_WINDOW, window.map(Window::word)),
            (name::DATASET_PILE, pile.map(|slices| slices.to_string())),
        ];
        words.into_iter().filter_map(|(name, word)| Some((name, word?)))
    }

    /// The check of a capture's answers, where `--check` is `check`.
    pub(crate) fn check(
        &self,
        check: Option<Check>,
        dataset: &Dataset,
        facts: &CaptureFacts,
    ) -> anyhow::Result<Check> {
        match (self.expect, check) {
            (None, None | Some(Check::Off)) => Ok(Check::Off),
            (None, Some(check)) => Err(bad_input(format!(
                "--check {}: the replies in a capture are taken as right only with --expect captured; add that",
                check.name()
            ))),
            (Some(_), Some(Check::Off)) => {
                Err(bad_input("--check off and --expect captured contradict each other: leave one out"))
            }
            (Some(_), _) if facts.answered == 0 => Err(bad_input(format!(
                "--expect captured: no query of {} has a reply in it; capture both directions at the server",
                dataset.path().display()
            ))),
            (Some(_), check) => Ok(check.unwrap_or(Check::Answers)),
        }
    }

    /// The first of these flags that the user gave.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--client", self.client.is_some()),
            ("--expect", self.expect.is_some()),
            ("--window", self.window.is_some()),
            ("--pile", self.pile.is_some()),
        ];
        self.captured.given().or(given.into_iter().find_map(|(flag, is_given)| is_given.then_some(flag)))
    }

    /// Refuses these flags for queries that are no capture.
    pub(crate) fn check_none_is_given(&self, dataset: &Dataset) -> anyhow::Result<()> {
        self.given().map_or(Ok(()), |flag| Err(no_capture(flag, dataset)))
    }
}

/// The error of a flag for captures beside other queries.
pub(crate) fn no_capture(flag: &str, dataset: &Dataset) -> anyhow::Error {
    bad_input(format!("{flag} is for captures, and {} is none; leave it out", dataset.path().display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_two_ends_and_either_may_be_left_out() {
        let window = |from_s, to_s: Option<u64>| {
            Ok(Window { from: Duration::from_secs(from_s), to: to_s.map(Duration::from_secs) })
        };
        assert_eq!(parse_window("10s..2m"), window(10, Some(120)));
        assert_eq!(parse_window("0..20s"), window(0, Some(20)));
        assert_eq!(parse_window("10s.."), window(10, None));
        assert_eq!(parse_window("..2m"), window(0, Some(120)));
        assert_eq!(parse_window(".."), window(0, None));
        for typed in ["10s..2m", "1500ms..", "..2m", ".."] {
            let window = parse_window(typed).unwrap();
            assert_eq!(parse_window(&window.word()), Ok(window), "{typed}");
        }
        for bad in ["", "10s", "20s..10s", "10s..10s", "..0s", "a..b", "-1s..2s", "10s-20s", "10..20"] {
            assert!(parse_window(bad).unwrap_err().starts_with("expected "), "{bad}");
        }
    }
}

//! A row of the catalogue: one setting, and how its word is read.

use crate::choice::{Io, Transport};
use crate::course::{self, CourseError, Shape};
use crate::cpu_list;
use crate::sources::SourceChoice;
use crate::value::{TIMEOUT_LEAST, parse_seconds};

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The name in studies, records and settings of a subject: `player.close`.
    pub name: &'static str,
    /// The meaning, as a noun without an article: `how the player closes connections`.
    pub meaning: &'static str,
    /// The values that it has.
    pub kind: Kind,
    /// The transports over which it has an effect.
    pub over: Over,
    /// Who gives it.
    pub given_by: GivenBy,
    /// The flag that sets it for a server that runs already; `None` if there is none.
    pub flag: Option<Flag>,
    /// Reads a word, and returns the word of the value; an error says which words are expected.
    pub(crate) read: fn(&str, &Kind) -> Result<String, String>,
}

/// Who gives a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenBy {
    /// Studies, and the settings of a subject.
    Study,
    /// kqps itself, from a target, a file or a goal.
    Run,
    /// The flags of `kqps find`; nothing but its record has it, and only people read its word.
    Search,
}

/// The flag of a setting.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The name after `--`.
    pub long: &'static str,
    /// The letter after `-`.
    pub short: Option<char>,
    /// The value in the help; empty for a flag without one, which means `true`.
    pub value: &'static str,
    /// The line of help.
    pub help: &'static str,
    /// More sentences of help, after an empty line; may be empty.
    pub more: &'static str,
}

/// The values of a setting.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A whole number from `least` to `most`.
    Number {
        /// The least.
        least: i64,
        /// The greatest; [`i64::MAX`] for no limit.
        most: i64,
        /// The noun of the number: `number`.
        noun: &'static str,
    },
    /// A whole number from `least` on, which may be at most `most` if a person gives it.
    Limited {
        /// The least.
        least: i64,
        /// The greatest that a person may give.
        most: i64,
    },
    /// Seconds above 0; in a study and a flag, a time that a player can wait.
    Seconds,
    /// A duration with a unit.
    Duration,
    /// The words for true and false.
    Truth(&'static str, &'static str),
    /// A choice among these words.
    Choice(&'static [&'static str]),
    /// Source addresses.
    Sources,
    /// A list of cores.
    Cores,
    /// A core, or the last one.
    Core,
    /// Percents that are separated by spaces.
    Percents,
    /// A course of a rate.
    Course,
    /// Any word.
    Text,
}

/// Any number from 1 on.
pub const COUNT: Kind = Kind::Number { least: 1, most: i64::MAX, noun: "number" };

/// The longest wait for a reply or a connection in a study, seconds.
const TIMEOUT_MOST_S: f64 = 60.0;

/// Bins of a second by which kqps judges whether the rate is steady.
pub const STEADY_BINS: u32 = 10;

/// The shortest warm-up that can be judged, seconds: its bins, and a second to start.
const STEADY_LEAST_S: f64 = STEADY_BINS as f64 + 1.0;

/// The longest warm-up, seconds (`docs/method/search.md`).
const STEADY_MOST_S: f64 = 60.0;

impl Kind {
    /// The words of which it accepts one; empty if these are not few.
    pub fn words(&self) -> &'static [&'static str] {
        match self {
            Self::Choice(words) => words,
            Self::Truth("true", "false") => &["true", "false"],
            Self::Truth(..) => &["on", "off"],
            Self::Sources => SourceChoice::WORDS,
            Self::Core => &["last"],
            Self::Number { .. }
            | Self::Limited { .. }
            | Self::Seconds
            | Self::Duration
            | Self::Cores
            | Self::Percents
            | Self::Course
            | Self::Text => &[],
        }
    }

    /// The accepted values in words: `a number from 1 on`.
    pub fn expected(&self) -> String {
        match self {
            Self::Number { least, most: i64::MAX, noun } => format!("a {noun} from {least} on"),
            Self::Number { least, most, noun } => format!("a {noun} from {least} to {most}"),
            Self::Limited { least, .. } => format!("a number from {least} on"),
            Self::Seconds => "seconds above 0".into(),
            Self::Duration => "a duration such as 60s or 1m".into(),
            Self::Choice(_) | Self::Truth(..) => format!("one of {}", self.words().join(", ")),
            Self::Sources => "one, spread, an address, or a prefix such as 127.1.0.0/16".into(),
            Self::Cores => "cores, such as 0,2-3".into(),
            Self::Core => "the number of a core, or last".into(),
            Self::Percents => "percents from 1 to 99".into(),
            Self::Course => course::EXPECTED.into(),
            Self::Text => "a word".into(),
        }
    }

    /// As [`Self::expected`], with the limits of what people give.
    pub fn expected_of_people(&self) -> String {
        match self {
            Self::Limited { least, most } => format!("a number from {least} to {most}"),
            Self::Seconds => format!("seconds from {} to {TIMEOUT_MOST_S}", TIMEOUT_LEAST.as_secs_f64()),
            Self::Duration => {
                format!(
                    "a duration from {STEADY_LEAST_S}s, below which none can be judged, to {STEADY_MOST_S}s"
                )
            }
            _ => self.expected(),
        }
    }
}

impl Setting {
    /// Checks a word that a person gives. Some numbers have limits then, which those of older records need not keep. An
    /// error says which words are expected.
    pub fn check(&self, word: &str) -> Result<(), String> {
        let within = match self.kind {
            Kind::Limited { least, most } => least as f64..=most as f64,
            Kind::Seconds => TIMEOUT_LEAST.as_secs_f64()..=TIMEOUT_MOST_S,
            Kind::Duration => STEADY_LEAST_S..=STEADY_MOST_S,
            _ => return (self.read)(word, &self.kind).map(drop),
        };
        let number = match self.kind {
            Kind::Limited { .. } => u32::read(word, &self.kind).map(f64::from),
            _ => f64::read(word, &self.kind),
        };
        let is_within = number.is_ok_and(|number| within.contains(&number));
        if is_within { Ok(()) } else { Err(self.kind.expected_of_people()) }
    }

    /// The word of the value that a word stands for: `127.0.0.1/32` for `127.0.0.1`.
    pub fn word_of_value(&self, word: &str) -> Result<String, String> {
        (self.read)(word, &self.kind)
    }
}

/// The transports over which a setting has an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// All transports.
    Every,
    /// Datagrams.
    Udp,
    /// Transports with connections.
    Connections,
    /// Transports with connections of TCP.
    Tcp,
    /// Encrypted transports.
    Encrypted,
    /// Encrypted transports with records, which QUIC does not have (RFC 9001, section 3).
    Records,
    /// HTTPS.
    Https,
    /// QUIC.
    Quic,
    /// Transports that the I/O model of this word is for.
    Io,
}

impl Over {
    /// Whether a setting with this word has an effect over a transport.
    pub fn has_effect(self, word: &str, transport: Transport) -> bool {
        match self {
            Self::Every => true,
            Self::Udp => transport == Transport::Udp,
            Self::Connections => transport.has_connections(),
            Self::Tcp => !transport.is_over_udp(),
            Self::Encrypted => transport.is_encrypted(),
            Self::Records => transport.is_encrypted() && !transport.is_over_udp(),
            Self::Https => transport == Transport::Https,
            Self::Quic => transport == Transport::Quic,
            // An unknown word is refused for what it is, and not for its transport.
            Self::Io => {
                let all = Io::over(transport);
                Io::from_word(word).map_or(!all.is_empty(), |io| all.contains(&io))
            }
        }
    }

    /// Its words in the table of settings.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Every => "all",
            Self::Udp => "UDP",
            Self::Connections => "all but UDP",
            Self::Tcp => "TCP, TLS, HTTPS",
            Self::Encrypted => "TLS, HTTPS, QUIC",
            Self::Records => "TLS, HTTPS",
            Self::Https => "HTTPS",
            Self::Quic => "QUIC",
            Self::Io => "all but QUIC; some values for some",
        }
    }
}

/// A value that is read from the word of a setting, and written as one.
pub(crate) trait Value: Sized {
    /// The value of a word; `Err(None)` if [`Kind::expected`] says all about it.
    fn read(word: &str, kind: &Kind) -> Result<Self, Option<String>>;

    /// Its word.
    fn word(&self, kind: &Kind) -> String;
}

/// The values of a group of settings.
pub(crate) trait Group {
    /// Sets the value of this setting from its word. Returns whether the group has the setting; an error says which
    /// words are expected.
    fn set(&mut self, name: &str, word: &str) -> Result<bool, String>;

    /// The values as words, name → word.
    fn words(&self) -> Vec<(&'static str, String)>;
}

/// The value of a word. An error says which words are expected.
pub(crate) fn value_of<T: Value>(word: &str, kind: &Kind) -> Result<T, String> {
    T::read(word, kind).map_err(|more| match more {
        Some(more) => format!("{} ({more})", kind.expected()),
        None => kind.expected(),
    })
}

/// The word of the value of a word.
pub(crate) fn read_again<T: Value>(word: &str, kind: &Kind) -> Result<String, String> {
    value_of::<T>(word, kind).map(|value| value.word(kind))
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl Value for $number {
            fn read(word: &str, kind: &Kind) -> Result<Self, Option<String>> {
                let number: i64 = word.parse().map_err(|_| None)?;
                let is_within = match kind {
                    Kind::Number { least, most, .. } => (*least..=*most).contains(&number),
                    Kind::Limited { least, .. } => *least <= number,
                    _ => true,
                };
                Some(number).filter(|_| is_within).and_then(|number| number.try_into().ok()).ok_or(None)
            }

            fn word(&self, _: &Kind) -> String {
                self.to_string()
            }
        })*
    };
}

numbers!(i32, u32, u64);

macro_rules! choices {
    ($($choice:ident),*) => {
        $(impl Value for crate::choice::$choice {
            fn read(word: &str, _: &Kind) -> Result<Self, Option<String>> {
                Self::from_word(word).ok_or(None)
            }

            fn word(&self, _: &Kind) -> String {
                Self::word(*self).to_owned()
            }
        })*
    };
}

choices!(
    CertificateType,
    Close,
    ComparedAs,
    Congestion,
    InternetAttack,
    InternetSize,
    Io,
    KeyType,
    Method,
    Names,
    Path,
    Transport,
    TrustChoice
);

impl Value for f64 {
    fn read(word: &str, kind: &Kind) -> Result<Self, Option<String>> {
        let seconds = match kind {
            Kind::Duration => parse_seconds(word).ok().map(|duration| duration.as_secs_f64()),
            _ => word.parse().ok(),
        };
        seconds.filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0).ok_or(None)
    }

    fn word(&self, _: &Kind) -> String {
        self.to_string()
    }
}

impl Value for bool {
    fn read(word: &str, kind: &Kind) -> Result<Self, Option<String>> {
        match kind {
            Kind::Truth(yes, _) if word == *yes => Ok(true),
            Kind::Truth(_, no) if word == *no => Ok(false),
            _ => Err(None),
        }
    }

    fn word(&self, kind: &Kind) -> String {
        match kind {
            Kind::Truth(yes, no) => (if *self { *yes } else { *no }).to_owned(),
            _ => self.to_string(),
        }
    }
}

impl Value for String {
    fn read(word: &str, _: &Kind) -> Result<Self, Option<String>> {
        Ok(word.to_owned())
    }

    fn word(&self, _: &Kind) -> String {
        self.clone()
    }
}

impl Value for Shape {
    fn read(word: &str, _: &Kind) -> Result<Self, Option<String>> {
        word.parse().map_err(|error: CourseError| match error {
            CourseError::Expected(course::EXPECTED) => None,
            error => Some(error.to_string()),
        })
    }

    fn word(&self, _: &Kind) -> String {
        self.to_string()
    }
}

impl Value for SourceChoice {
    fn read(word: &str, _: &Kind) -> Result<Self, Option<String>> {
        Self::from_word(word).ok_or(None)
    }

    fn word(&self, _: &Kind) -> String {
        Self::word(*self)
    }
}

/// Cores or percents.
impl Value for Vec<u32> {
    fn read(word: &str, kind: &Kind) -> Result<Self, Option<String>> {
        if matches!(kind, Kind::Cores) {
            return cpu_list::parse(word).map_err(|error| Some(error.to_string()));
        }
        let percent = |part: &str| part.parse().ok().filter(|percent| (1..100).contains(percent));
        let read = word.split_whitespace().map(percent).collect::<Option<Self>>();
        read.filter(|percents| !percents.is_empty()).ok_or(None)
    }

    fn word(&self, kind: &Kind) -> String {
        if matches!(kind, Kind::Cores) {
            return cpu_list::write(self);
        }
        self.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// The core that does all receive work of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveCore {
    /// The core with the greatest number on the subject's host.
    Last,
    /// This core.
    Core(u32),
}

impl Value for ReceiveCore {
    fn read(word: &str, _: &Kind) -> Result<Self, Option<String>> {
        if word == "last" { Ok(Self::Last) } else { word.parse().map(Self::Core).map_err(|_| None) }
    }

    fn word(&self, _: &Kind) -> String {
        match self {
            Self::Last => "last".into(),
            Self::Core(core) => core.to_string(),
        }
    }
}

//! Reads the words of factors.

use std::str::FromStr;

use kqps_files::value::parse_seconds;

use super::name;
use super::values::{
    CertificateType, CloseChoice, ComparedAs, CongestionChoice, KeyChoice, MethodChoice, Names, ReceiveCore,
    SourceChoice, TrustChoice, Values,
};
use crate::cpu_list;
use crate::question::Path;
use crate::trial::Transport;

/// The most queues that the kernel accepts (`veth.c`, `veth_get_num_queues`).
const QUEUES_MOST: u32 = 4096;

/// A factor that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactorError {
    /// A word that the factor does not accept.
    #[error("factor `{name}`: expected {expected}, found `{word}`")]
    Word {
        /// The name of the factor.
        name: String,
        /// The accepted values, in words.
        expected: String,
        /// The words that it accepts, if these are few.
        known: &'static [&'static str],
        /// The word that was found.
        word: String,
    },
    /// There is no such factor.
    #[error("unknown factor `{name}`")]
    Unknown {
        /// The unknown name.
        name: String,
    },
}

impl FactorError {
    /// The name of the factor.
    pub fn name(&self) -> &str {
        match self {
            Self::Word { name, .. } | Self::Unknown { name } => name,
        }
    }
}

impl Values {
    /// Sets the value of a factor from its word. A name without a value changes nothing.
    pub(super) fn set(&mut self, name: &str, word: &str) -> Result<(), FactorError> {
        let wanted = FactorWord { name, word };
        let Self { player, dataset, path, .. } = self;
        match name {
            name::PLAYER_IO => player.io = Some(word.to_owned()),
            name::PLAYER_SENDERS => player.senders = Some(wanted.count()?),
            name::PLAYER_SOCKETS => player.sockets = Some(wanted.count()?),
            name::PLAYER_WINDOW => player.window = Some(wanted.count()?),
            name::PLAYER_BURST => player.burst = Some(wanted.count()?),
            name::PLAYER_TIMEOUT => player.timeout_s = Some(wanted.seconds()?),
            name::PLAYER_CONNECT_TIMEOUT => player.connect_timeout_s = Some(wanted.seconds()?),
            name::PLAYER_SOURCES => player.sources = Some(wanted.sources()?),
            name::PLAYER_TRANSPORT => {
                player.transport = Some(wanted.one_of(&Transport::WORDS, Transport::ALL)?);
            }
            name::PLAYER_CONNECTIONS => player.connections = Some(wanted.count()?),
            name::PLAYER_QUERIES_PER_CONNECTION => {
                player.queries_per_connection = Some(wanted.number("a number from 0 on", |_| true)?);
            }
            name::PLAYER_OUTSTANDING => player.outstanding_per_connection = Some(wanted.count()?),
            name::PLAYER_CLOSE => {
                player.close =
                    Some(wanted.one_of(&CloseChoice::WORDS, [CloseChoice::Fin, CloseChoice::Rst])?);
            }
            name::PLAYER_RESUME => player.resume = Some(wanted.truth()?),
            name::PLAYER_EARLY_DATA => player.early_data = Some(wanted.truth()?),
            name::PLAYER_TLS_PACKING => player.tls_packing = Some(wanted.truth()?),
            name::PLAYER_CONGESTION => {
                let choices = [CongestionChoice::Fixed, CongestionChoice::Cubic];
                player.congestion = Some(wanted.one_of(&CongestionChoice::WORDS, choices)?);
            }
            name::PLAYER_TLS_GROUP => player.tls_group = Some(word.to_owned()),
            name::PLAYER_TLS_SUITE => player.tls_suite = Some(word.to_owned()),
            name::PLAYER_TLS_CERTIFICATE => {
                let types = [KeyChoice::Ecdsa, KeyChoice::Rsa];
                player.tls_certificate = Some(wanted.one_of(&KeyChoice::WORDS, types)?);
            }
            name::PLAYER_TLS_TRUST => {
                let choices = [TrustChoice::System, TrustChoice::Ca, TrustChoice::Anyone];
                player.tls_trust = Some(wanted.one_of(&TrustChoice::WORDS, choices)?);
            }
            name::PLAYER_TLS_NAME => player.tls_name = Some(word.to_owned()),
            name::PLAYER_HTTP_METHOD => {
                let methods = [MethodChoice::Post, MethodChoice::Get];
                player.http_method = Some(wanted.one_of(&MethodChoice::WORDS, methods)?);
            }
            name::PLAYER_HTTP_PATH => player.http_path = Some(word.to_owned()),
            name::SUBJECT_CERTIFICATE => {
                let types = [CertificateType::EcdsaP256, CertificateType::Rsa2048];
                self.certificate = Some(wanted.one_of(&CertificateType::WORDS, types)?);
            }
            name::DATASET_RECIPE => dataset.recipe = Some(word.to_owned()),
            name::DATASET_ZONES => dataset.zones = Some(wanted.count()?),
            name::DATASET_RECORDS => dataset.records = Some(wanted.count()?),
            name::DATASET_NAMES => {
                dataset.names = Some(wanted.one_of(&["random", "one"], [Names::Random, Names::One])?);
            }
            name::DATASET_FILE => dataset.file = Some(word.to_owned()),
            name::PATH => path.kind = Some(wanted.one_of(&Path::WORDS, [Path::Loopback, Path::Veth])?),
            name::PATH_QUEUES => {
                let is_right = |queues: &u32| (1..=QUEUES_MOST).contains(queues);
                path.queues = Some(wanted.number("a number of queues from 1 to 4096", is_right)?);
            }
            name::PATH_TXQUEUELEN => {
                path.txqueuelen = Some(wanted.number("a number of packets", |_| true)?);
            }
            name::PATH_RPS_CPUS => {
                let wrong = |error| wanted.wrong(&format!("cores, such as 0,2-3 ({error})"), &[]);
                path.rps_cpus = Some(cpu_list::parse(word).map_err(wrong)?);
            }
            name::PATH_GRO => path.gro = Some(wanted.one_of(&["on", "off"], [true, false])?),
            name::STEADY => {
                let expected = "a duration such as 60s or 1m";
                self.steady_s = Some(seconds(word).ok_or_else(|| wanted.wrong(expected, &[]))?);
            }
            name::LATENCY_AT => {
                let read = percents(word).ok_or_else(|| wanted.wrong("percents from 1 to 99", &[]))?;
                self.latency_at_percent = read;
            }
            name::ROUNDS => self.rounds = Some(wanted.count()?),
            name::COMPARED_AS => {
                let parts = [ComparedAs::A, ComparedAs::Again, ComparedAs::B];
                self.compared_as = Some(wanted.one_of(&ComparedAs::WORDS, parts)?);
            }
            name::HOSTS_PLAYERS => self.hosts.players = Some(wanted.count()?),
            name::HOSTS_SOURCES => self.hosts.sources = Some(wanted.count()?),
            other if name::OF_SEARCHES.contains(&other) => {}
            other if other.starts_with(name::HOST) => self.set_of_host(wanted)?,
            other => match other.strip_prefix(name::PATH_SYSCTL) {
                Some(sysctl) if sysctl.starts_with("net.") => {
                    path.sysctls.insert(sysctl.to_owned(), word.to_owned());
                }
                _ if name::has_value(other) => return Err(FactorError::Unknown { name: other.to_owned() }),
                _ => {}
            },
        }
        Ok(())
    }

    /// Sets the value of a factor of the subject's host.
    fn set_of_host(&mut self, wanted: FactorWord<'_>) -> Result<(), FactorError> {
        let FactorWord { name, word } = wanted;
        match name {
            name::HOST_NICE => {
                let is_niceness = |number: &i32| (-20..=19).contains(number);
                self.niceness = Some(wanted.number("a number from -20 to 19", is_niceness)?);
            }
            name::HOST_RECEIVE_CORE => {
                let read = ReceiveCore::of_word(word);
                let wrong = || wanted.wrong("the number of a core, or last", &["last"]);
                self.receive_core = Some(read.ok_or_else(wrong)?);
            }
            other if name::is_host_setting(other) => {
                let setting = other.strip_prefix(name::HOST).unwrap_or(other);
                self.host_settings.insert(setting.to_owned(), word.to_owned());
            }
            other => return Err(FactorError::Unknown { name: other.to_owned() }),
        }
        Ok(())
    }
}

/// A factor and its word.
#[derive(Clone, Copy)]
struct FactorWord<'a> {
    name: &'a str,
    word: &'a str,
}

impl FactorWord<'_> {
    fn wrong(self, expected: &str, known: &'static [&'static str]) -> FactorError {
        let (name, word) = (self.name.to_owned(), self.word.to_owned());
        FactorError::Word { name, expected: expected.to_owned(), known, word }
    }

    fn number<T: FromStr>(self, expected: &str, accepts: impl Fn(&T) -> bool) -> Result<T, FactorError> {
        self.word.parse().ok().filter(accepts).ok_or_else(|| self.wrong(expected, &[]))
    }

    fn count<T: FromStr + PartialOrd + From<u8>>(self) -> Result<T, FactorError> {
        self.number("a number from 1 on", |number| *number >= T::from(1))
    }

    fn seconds(self) -> Result<f64, FactorError> {
        self.number("seconds above 0", |seconds: &f64| seconds.is_finite() && *seconds > 0.0)
    }

    fn truth(self) -> Result<bool, FactorError> {
        self.one_of(&["true", "false"], [true, false])
    }

    fn sources(self) -> Result<SourceChoice, FactorError> {
        let expected = "one, spread, an address, or a prefix such as 127.1.0.0/16";
        SourceChoice::of_word(self.word).ok_or_else(|| self.wrong(expected, &SourceChoice::WORDS))
    }

    /// The value at the place of the word among the known words.
    fn one_of<T: Copy, const N: usize>(
        self,
        known: &'static [&'static str; N],
        values: [T; N],
    ) -> Result<T, FactorError> {
        let at = known.iter().position(|word| *word == self.word);
        let expected = || format!("one of {}", known.join(", "));
        at.map(|at| values[at]).ok_or_else(|| self.wrong(&expected(), known))
    }
}

/// Reads a duration above 0, in seconds. In stored factors it may have no unit.
fn seconds(word: &str) -> Option<f64> {
    parse_seconds(word).ok().map(|duration| duration.as_secs_f64()).filter(|seconds| *seconds > 0.0)
}

/// Reads percents that are separated by spaces, each from 1 to 99.
fn percents(word: &str) -> Option<Vec<u32>> {
    let read = |part: &str| part.parse().ok().filter(|percent| (1..100).contains(percent));
    word.split_whitespace().map(read).collect::<Option<Vec<u32>>>().filter(|percents| !percents.is_empty())
}

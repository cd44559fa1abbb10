//! The values of factors.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::name;
use crate::question::Path;
use crate::trial::Transport;

/// The values of all factors that measuring knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Values {
    pub(super) player: PlayerFactors,
    pub(super) dataset: DatasetFactors,
    pub(super) path: PathFactors,
    pub(super) hosts: HostsFactors,
    pub(super) steady_s: Option<f64>,
    pub(super) latency_at_percent: Vec<u32>,
    pub(super) rounds: Option<u32>,
    pub(super) compared_as: Option<ComparedAs>,
    pub(super) niceness: Option<i32>,
    pub(super) receive_core: Option<ReceiveCore>,
    pub(super) host_settings: BTreeMap<String, String>,
    pub(super) certificate: Option<CertificateType>,
}

/// The settings of the player that a cell names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlayerFactors {
    /// The player's I/O, by its name in `kqps load --io`; not for QUIC.
    pub io: Option<String>,
    /// Sending threads, at least 1.
    pub senders: Option<u32>,
    /// Sockets over all threads, at least 1; for UDP.
    pub sockets: Option<u32>,
    /// The most queries outstanding in a closed loop, at least 1.
    pub window: Option<u32>,
    /// The most queries in one burst, at least 1.
    pub burst: Option<u32>,
    /// Seconds after which a reply is late, above 0.
    pub timeout_s: Option<f64>,
    /// The source addresses of the sockets or connections.
    pub sources: Option<SourceChoice>,
    /// The transport of queries and replies; `None` for UDP.
    pub transport: Option<Transport>,
    /// Connections over all threads that may be open at once, at least 1; for transports with connections, as are the
    /// next four.
    pub connections: Option<u32>,
    /// Queries after which a connection is closed; 0 if it is closed once it is made, `None` if it is kept.
    pub queries_per_connection: Option<u32>,
    /// The most unsettled queries of one connection, at least 1.
    pub outstanding_per_connection: Option<u32>,
    /// Seconds after which a connection that is not made is given up, above 0; `None` for the time of a late reply.
    pub connect_timeout_s: Option<f64>,
    /// How the player closes connections; not for QUIC.
    pub close: Option<CloseChoice>,
    /// Whether connections resume the sessions of earlier ones; for encrypted transports, as are the next six.
    pub resume: Option<bool>,
    /// The group for the exchange of keys that the player offers, by its name in `kqps load --tls-group`; `None` for
    /// all usual ones.
    pub tls_group: Option<String>,
    /// The cipher suite that the player offers, by its name in `kqps load --tls-suite`; `None` for all usual ones.
    pub tls_suite: Option<String>,
    /// The type of key that a certificate must have; `None` for any.
    pub tls_certificate: Option<KeyChoice>,
    /// The certificates that the player accepts; `None` for those of the run's own issuer.
    pub tls_trust: Option<TrustChoice>,
    /// The server's name in its certificate; `None` for its address.
    pub tls_name: Option<String>,
    /// Whether queries leave with the first packets of resumed connections.
    pub early_data: Option<bool>,
    /// Whether queries that leave together share records of TLS; for encrypted transports except QUIC.
    pub tls_packing: Option<bool>,
    /// The limit of the bytes on their way; for QUIC.
    pub congestion: Option<CongestionChoice>,
    /// How the player asks; for HTTPS, as is the next one.
    pub http_method: Option<MethodChoice>,
    /// The path of its requests; `None` for the usual one.
    pub http_path: Option<String>,
}

/// The source addresses of the player's sockets or connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceChoice {
    /// All have the same address.
    One,
    /// They use several addresses in turn, which the player chooses.
    Spread,
    /// They use the addresses of this prefix in turn: one of its addresses, and its length in bits.
    Prefix(IpAddr, u8),
}

/// How the player closes connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseChoice {
    /// With FIN.
    Fin,
    /// With RST.
    Rst,
}

/// The limit of the bytes on their way over QUIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionChoice {
    /// A window that never fills.
    Fixed,
    /// CUBIC (RFC 9438).
    Cubic,
}

/// How the player asks by HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodChoice {
    /// By POST.
    Post,
    /// By GET.
    Get,
}

/// The type of key in a certificate that the player accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyChoice {
    /// ECDSA, on whatever curve.
    Ecdsa,
    /// RSA, of whatever length.
    Rsa,
}

/// The certificates that the player accepts of a server that runs already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustChoice {
    /// Certificates of issuers that this host trusts.
    System,
    /// Certificates of issuers that the user named, of which the run keeps a copy.
    Ca,
    /// Any, without a check.
    Anyone,
}

/// The type of the key in a subject's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CertificateType {
    /// ECDSA on P-256.
    #[default]
    EcdsaP256,
    /// RSA with 2048 bits.
    Rsa2048,
}

/// The zones and queries that a cell names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatasetFactors {
    /// The name of the recipe; `None` for one zone of address records.
    pub recipe: Option<String>,
    /// Zones that load, at least 1; `None` for as many as the recipe has.
    pub zones: Option<u64>,
    /// Records in all zones together, at least 1; `None` for as many as the recipe has.
    pub records: Option<u64>,
    /// The names that queries ask for.
    pub names: Option<Names>,
    /// The name of the user's query file, which is played instead of generated queries.
    pub file: Option<String>,
}

/// The names that queries ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Random names of the zones.
    Random,
    /// A single name again and again.
    One,
}

/// The path that a cell names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathFactors {
    /// The kind of path; `None` for that of the study.
    pub kind: Option<Path>,
    /// Queues of each device for sending, and as many for receiving, 1 to 4096.
    pub queues: Option<u32>,
    /// The most packets that wait in front of each device.
    pub txqueuelen: Option<u32>,
    /// The cores that process received packets (RPS).
    pub rps_cpus: Option<Vec<u32>>,
    /// Whether received packets are joined (GRO).
    pub gro: Option<bool>,
    /// Settings of both network namespaces, name → value: `net.…`.
    pub sysctls: BTreeMap<String, String>,
}

/// The part of a run's hosts that a cell uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostsFactors {
    /// Hosts that play, at least 1: the first of the hosts' file. `None` for all of them.
    pub players: Option<u32>,
    /// Source addresses of each player, at least 1: the first of those that the hosts' file gives it. `None` for all of
    /// them, unless the player's own setting says otherwise.
    pub sources: Option<u32>,
}

/// The core that does all receive work of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveCore {
    /// The core with the greatest number on the subject's host.
    Last,
    /// This core.
    Core(u32),
}

/// The part of a cell in the comparison that its run was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparedAs {
    /// The subject that B is compared with.
    A,
    /// The second cell of A.
    Again,
    /// The subject that the comparison judges.
    B,
}

impl PlayerFactors {
    /// The settings as words, name → word.
    pub(super) fn words(&self) -> impl Iterator<Item = (String, String)> {
        let number = |name: &'static str, number: Option<u32>| Some((name, number?.to_string()));
        let words = [
            self.io.clone().map(|io| (name::PLAYER_IO, io)),
            number(name::PLAYER_SENDERS, self.senders),
            number(name::PLAYER_SOCKETS, self.sockets),
            number(name::PLAYER_WINDOW, self.window),
            number(name::PLAYER_BURST, self.burst),
            self.timeout_s.map(|seconds| (name::PLAYER_TIMEOUT, seconds.to_string())),
            self.sources.map(|sources| (name::PLAYER_SOURCES, sources.word())),
            self.transport.map(|transport| (name::PLAYER_TRANSPORT, transport.word().to_owned())),
            number(name::PLAYER_CONNECTIONS, self.connections),
            number(name::PLAYER_QUERIES_PER_CONNECTION, self.queries_per_connection),
            number(name::PLAYER_OUTSTANDING, self.outstanding_per_connection),
            self.connect_timeout_s.map(|seconds| (name::PLAYER_CONNECT_TIMEOUT, seconds.to_string())),
            self.close.map(|close| (name::PLAYER_CLOSE, close.word().to_owned())),
            self.resume.map(|resume| (name::PLAYER_RESUME, resume.to_string())),
            self.tls_group.clone().map(|group| (name::PLAYER_TLS_GROUP, group)),
            self.tls_suite.clone().map(|suite| (name::PLAYER_TLS_SUITE, suite)),
            self.tls_certificate.map(|key| (name::PLAYER_TLS_CERTIFICATE, key.word().to_owned())),
            self.tls_trust.map(|trust| (name::PLAYER_TLS_TRUST, trust.word().to_owned())),
            self.tls_name.clone().map(|server| (name::PLAYER_TLS_NAME, server)),
            self.early_data.map(|early_data| (name::PLAYER_EARLY_DATA, early_data.to_string())),
            self.tls_packing.map(|packing| (name::PLAYER_TLS_PACKING, packing.to_string())),
            self.congestion.map(|how| (name::PLAYER_CONGESTION, how.word().to_owned())),
            self.http_method.map(|method| (name::PLAYER_HTTP_METHOD, method.word().to_owned())),
            self.http_path.clone().map(|path| (name::PLAYER_HTTP_PATH, path)),
        ];
        words.into_iter().flatten().map(|(name, word)| (name.to_owned(), word))
    }
}

impl SourceChoice {
    /// The words of its values that are no prefix, in their order.
    pub(super) const WORDS: [&str; 2] = ["one", "spread"];

    /// The choice of a word; `None` if it is none of [`Self::WORDS`], no address and no prefix.
    pub(super) fn of_word(word: &str) -> Option<Self> {
        if let Some(at) = Self::WORDS.iter().position(|known| *known == word) {
            return Some([Self::One, Self::Spread][at]);
        }
        Self::of_prefix(word)
    }

    /// The addresses of a prefix, or a single one; `None` if the word is neither.
    pub fn of_prefix(word: &str) -> Option<Self> {
        let (address, bits) = word.split_once('/').map_or((word, None), |(one, bits)| (one, Some(bits)));
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let is_number = |bits: &&str| bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits: u8 = bits.map_or(Some(most), |bits| Some(bits).filter(is_number)?.parse().ok())?;
        (bits <= most).then_some(Self::Prefix(address, bits))
    }

    /// Whether all of its addresses are those of loopback (RFC 1122, section 3.2.1.3). The player chooses such ones, if
    /// it has the choice.
    pub fn is_loopback(self) -> bool {
        match self {
            Self::One | Self::Spread => true,
            Self::Prefix(IpAddr::V4(address), bits) => address.is_loopback() && bits >= 8,
            Self::Prefix(IpAddr::V6(address), bits) => address.is_loopback() && bits == 128,
        }
    }

    /// Whether it names addresses of IPv6.
    pub fn is_ipv6(self) -> bool {
        matches!(self, Self::Prefix(address, _) if address.is_ipv6())
    }

    /// Its word.
    pub fn word(self) -> String {
        match self {
            Self::One => Self::WORDS[0].to_owned(),
            Self::Spread => Self::WORDS[1].to_owned(),
            Self::Prefix(address, bits) => format!("{address}/{bits}"),
        }
    }
}

impl CloseChoice {
    /// Its words, in the order of its values.
    pub(super) const WORDS: [&str; 2] = ["fin", "rst"];

    /// Its word.
    fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

impl CongestionChoice {
    /// Its words, in the order of its values.
    pub(super) const WORDS: [&str; 2] = ["fixed", "cubic"];

    /// Its word.
    fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

impl MethodChoice {
    /// Its words, in the order of its values.
    pub(super) const WORDS: [&str; 2] = ["post", "get"];

    /// Its word.
    fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

impl KeyChoice {
    /// Its words, in the order of its values.
    pub(super) const WORDS: [&str; 2] = ["ecdsa", "rsa"];

    /// Its word.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

impl TrustChoice {
    /// Its words, in the order of its values.
    pub(super) const WORDS: [&str; 3] = ["system", "ca", "anyone"];

    /// Its word.
    fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

impl CertificateType {
    /// Its words, in the order of its values.
    pub(super) const WORDS: [&str; 2] = ["ecdsa-p256", "rsa-2048"];

    /// Its word.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

impl ReceiveCore {
    /// The core of a word; `None` if it is no number and not `last`.
    pub(super) fn of_word(word: &str) -> Option<Self> {
        if word == "last" { Some(Self::Last) } else { word.parse().ok().map(Self::Core) }
    }
}

impl ComparedAs {
    /// Its words, in the order of its values.
    pub(super) const WORDS: [&str; 3] = ["a", "a again", "b"];

    /// Its word.
    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize]
    }
}

//! Settings whose value is one of a few words. Flags, studies, plans and records have the same type of each.

/// Defines an enumeration with a word for each value.
macro_rules! choice {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $value:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord,
            serde::Serialize, serde::Deserialize, schemars::JsonSchema,
        )]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $word)] $value,)*
        }

        impl $name {
            /// All values.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$value),*];

            /// The words of all values, in the order of [`Self::ALL`].
            pub const WORDS: [&'static str; [$($word),*].len()] = [$($word),*];

            /// The word in flags, studies and records.
            pub fn word(self) -> &'static str {
                Self::WORDS[self as usize]
            }

            /// The value of a word; `None` if it is none of [`Self::WORDS`].
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.word() == word)
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                Self::from_word(word).ok_or_else(|| $crate::choice::expected(&Self::WORDS))
            }
        }
    };
}

pub(crate) use choice;

/// The error of a word that is none of these: `expected fin or rst`.
pub fn expected(words: &[&str]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("expected {} or {last}", first.join(", ")),
        words => format!("expected {}", words.concat()),
    }
}

choice! {
    /// The transport of queries and replies.
    Transport {
        /// Datagrams (RFC 1035, section 4.2.1).
        #[default]
        Udp = "udp",
        /// Connections on which each message follows its length (RFC 7766).
        Tcp = "tcp",
        /// Connections in TLS on which each message follows its length (RFC 7858).
        Tls = "tls",
        /// HTTP/2 in TLS, on which each message has a stream (RFC 8484).
        Https = "https",
        /// Connections with a stream for each query (RFC 9250).
        Quic = "quic",
    }
}

impl Transport {
    /// Whether queries travel on connections.
    pub fn has_connections(self) -> bool {
        self != Self::Udp
    }

    /// Whether its packets are datagrams of UDP. Otherwise it has connections of TCP.
    pub fn is_over_udp(self) -> bool {
        matches!(self, Self::Udp | Self::Quic)
    }

    /// Whether messages are encrypted, for which a server needs a certificate.
    pub fn is_encrypted(self) -> bool {
        matches!(self, Self::Tls | Self::Https | Self::Quic)
    }
}

choice! {
    /// How packets or the bytes of connections are sent and received.
    Io {
        /// The best that the host offers.
        #[default]
        Auto = "auto",
        /// A call per packet: `sendto`, `recvmsg`.
        Plain = "plain",
        /// Batches: `sendmmsg`, `recvmmsg`.
        Mmsg = "mmsg",
        /// Batches and segmentation. Queries of equal length, and a shorter one after them, leave in one send
        /// (`UDP_SEGMENT`). Replies may arrive in one message (`UDP_GRO`).
        Gso = "gso",
        /// Readiness: `epoll`, and a call for each write and read.
        Epoll = "epoll",
        /// Completion queues: `io_uring`.
        Uring = "uring",
        /// Frames past the kernel's network stack: `AF_XDP`.
        Xdp = "xdp",
    }
}

impl Io {
    /// The I/O models over a transport; none over QUIC, which has one of its own.
    pub fn over(transport: Transport) -> &'static [Self] {
        match transport {
            Transport::Udp => &[Self::Auto, Self::Plain, Self::Mmsg, Self::Gso, Self::Uring, Self::Xdp],
            Transport::Tcp | Transport::Tls | Transport::Https => {
                &[Self::Auto, Self::Epoll, Self::Uring, Self::Xdp]
            }
            Transport::Quic => &[],
        }
    }
}

choice! {
    /// How the player closes a connection.
    Close {
        /// With FIN, as clients do. The port stays in `TIME_WAIT`.
        #[default]
        Fin = "fin",
        /// With RST, which frees the port at once and changes the server's work.
        Rst = "rst",
    }
}

choice! {
    /// How many bytes may be on their way to the peer at once, over QUIC.
    Congestion {
        /// As many as there are: a load then keeps its schedule, whatever the network loses.
        #[default]
        Fixed = "fixed",
        /// As many as CUBIC allows (RFC 9438), as common clients do, and no faster than its pace.
        Cubic = "cubic",
    }
}

choice! {
    /// How a query is asked by HTTP.
    Method {
        /// By POST: the message is the body.
        #[default]
        Post = "post",
        /// By GET: the message is in the path.
        Get = "get",
    }
}

choice! {
    /// The type of a key in a certificate.
    KeyType {
        /// ECDSA; on P-256 if it is made.
        #[default]
        Ecdsa = "ecdsa",
        /// RSA; with 2048 bits if it is made.
        Rsa = "rsa",
    }
}

choice! {
    /// The type of the key in a subject's certificate.
    CertificateType {
        /// ECDSA on P-256.
        #[default]
        EcdsaP256 = "ecdsa-p256",
        /// RSA with 2048 bits.
        Rsa2048 = "rsa-2048",
    }
}

impl From<KeyType> for CertificateType {
    fn from(key: KeyType) -> Self {
        match key {
            KeyType::Ecdsa => Self::EcdsaP256,
            KeyType::Rsa => Self::Rsa2048,
        }
    }
}

choice! {
    /// The certificates that the player accepts of a server that runs already.
    TrustChoice {
        /// Certificates of issuers that this host trusts.
        #[default]
        System = "system",
        /// Certificates of issuers that the user named, of which the run keeps a copy.
        Ca = "ca",
        /// Any, without a check.
        Anyone = "anyone",
    }
}

choice! {
    /// The path of queries and replies.
    Path {
        /// The loopback interface of this host.
        #[default]
        Loopback = "loopback",
        /// A pair of virtual Ethernet devices between two network namespaces: the player's and the subject's.
        Veth = "veth",
    }
}

choice! {
    /// The size of an Internet in a box.
    InternetSize {
        /// A thousand zones.
        #[default]
        Small = "small",
        /// A hundred thousand zones.
        Medium = "medium",
        /// A million zones.
        Large = "large",
    }
}

choice! {
    /// An attack on a resolver by names whose servers are an attacker's.
    InternetAttack {
        /// None.
        #[default]
        None = "none",
        /// A tenth of the misses get a referral to 30 servers whose names do not exist (`NXNSAttack`).
        ManyServers = "many-servers",
        /// Names are those of web sites, of which each leads over a chain of eight aliases.
        Aliases = "aliases",
    }
}

choice! {
    /// The names that queries ask for.
    Names {
        /// Random names of the zones.
        #[default]
        Random = "random",
        /// A single name again and again.
        One = "one",
    }
}

choice! {
    /// The part of a cell in the comparison that its run was made for.
    ComparedAs {
        /// The subject that B is compared with.
        #[default]
        A = "a",
        /// The second cell of A.
        Again = "a again",
        /// The subject that the comparison judges.
        B = "b",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_one_word_in_flags_and_records() {
        assert_eq!((Io::Gso.word(), Io::from_word("gso")), ("gso", Some(Io::Gso)));
        assert_eq!(serde_json::to_string(&ComparedAs::Again).unwrap(), "\"a again\"");
        assert_eq!("tls".parse(), Ok(Transport::Tls));
        assert_eq!("end".parse::<Close>(), Err("expected fin or rst".to_owned()));
        let many = "expected auto, plain, mmsg, gso, epoll, uring or xdp";
        assert_eq!("raw".parse::<Io>(), Err(many.to_owned()));
    }
}

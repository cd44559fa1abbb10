//! The causes of lost queries and of wrong replies: a row for each, with its name in records and its words for people.

use crate::choice::choice;

choice! {
    /// Why a query is lost.
    Loss {
        /// No reply came in the time that the player waits for one.
        #[default]
        Time = "time",
        /// The subject closed the flow.
        Closed = "closed",
        /// The subject closed the idle flow before the query reached it.
        IdleRace = "idle-race",
        /// The subject or the network reset the flow.
        Reset = "reset",
        /// The subject refused the connection.
        Refused = "refused",
        /// No route leads to the subject.
        Unreachable = "unreachable",
        /// The connection was not made in time.
        ConnectTimeout = "connect-timeout",
        /// This host had no descriptor or memory left for the connection, or its kernel reported another error of its
        /// own.
        Local = "local",
        /// Every port of the source address that was tried is in use.
        Ports = "ports",
        /// The source address is not one of this host's, or does not reach the target.
        Address = "address",
        /// The subject sent an alert of TLS.
        TlsAlert = "tls-alert",
        /// The subject's certificate is not accepted.
        Certificate = "certificate",
        /// The player and the subject have no application protocol in common (ALPN).
        Alpn = "alpn",
        /// The subject did something that TLS forbids.
        Tls = "tls",
        /// The subject went away (GOAWAY, RFC 9113, section 6.8), and did not process the query.
        GoAway = "goaway",
        /// The subject ended the stream of this query alone (`RST_STREAM`, RFC 9113, section 6.4; RFC 9250, section
        /// 4.3).
        StreamReset = "stream-reset",
        /// Nothing came on the connection for too long.
        IdleTimeout = "idle-timeout",
        /// The subject closed the connection of QUIC, with a code.
        QuicClose = "quic-close",
        /// The player and the subject have no version of QUIC in common.
        Version = "version",
        /// The subject did something that QUIC forbids.
        Transport = "transport",
        /// The subject broke a rule of HTTP/2, or of DNS over QUIC.
        Framing = "framing",
    }
}

impl Loss {
    /// The names, by [`Self::number`].
    pub const NAMES: &[&str] = &Self::WORDS;

    /// The index of this cause among the counts of all causes.
    pub fn number(self) -> usize {
        self as usize
    }

    /// Whether a query that is lost by it had no connection, and so did not leave.
    pub fn is_before_connection(self) -> bool {
        match self {
            Self::Refused
            | Self::Unreachable
            | Self::ConnectTimeout
            | Self::Local
            | Self::Ports
            | Self::Address
            | Self::Version => true,
            Self::Time
            | Self::Closed
            | Self::IdleRace
            | Self::Reset
            | Self::TlsAlert
            | Self::Certificate
            | Self::Alpn
            | Self::Tls
            | Self::GoAway
            | Self::StreamReset
            | Self::IdleTimeout
            | Self::QuicClose
            | Self::Transport
            | Self::Framing => false,
        }
    }
}

choice! {
    /// Why a reply is wrong.
    Wrong {
        /// QR is 0: the datagram is a query.
        #[default]
        NotAResponse = "not-a-response",
        /// The question is another one.
        Question = "question",
        /// The rcode is not the one that the dataset expects.
        Rcode = "rcode",
        /// The reply is shorter than a header with the question, and holds no other question.
        Short = "short",
        /// The rcode is right, but the answer differs from the one that the dataset expects, or cannot be parsed.
        Answer = "answer",
        /// The ID is not 0, where streams match replies to queries.
        Id = "id",
        /// The status of the response by HTTP is not 2xx. In records the status follows the name.
        Status = "status",
        /// The content type of the response by HTTP is not that of DNS messages.
        ContentType = "content-type",
        /// The reply is longer than a DNS message can be.
        TooLong = "too-long",
        /// The answer is the one that the dataset expects, but for its AD bit (RFC 4035, section 3.2.3).
        Ad = "ad",
    }
}

impl Wrong {
    /// The words that follow `all answers` if it is the cause of most, and what to check then. A status has words with its
    /// number.
    pub fn words(self) -> &'static str {
        match self {
            Self::NotAResponse => "were queries sent back: is this a DNS server?",
            Self::Question => "repeated another question: is this a DNS server?",
            Self::Rcode | Self::Status => "had another rcode than expected: does the server have this zone?",
            Self::Short => "were too short for a DNS message: is this a DNS server?",
            Self::Answer => {
                "held other records than expected: does the server have the zone that the query file was made for?"
            }
            Self::Ad => {
                "had another AD bit than expected: does the resolver validate, from the right trust anchor?"
            }
            Self::Id => "had an ID that is not 0, as a stream must have: is this a DNS server?",
            Self::ContentType => "had another content type: does this URL answer DNS over HTTPS?",
            Self::TooLong => "were too long for a DNS message: is this a DNS server?",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_as_they_are() {
        let lost = "time closed idle-race reset refused unreachable connect-timeout local ports address \
             tls-alert certificate alpn tls goaway stream-reset idle-timeout quic-close version \
             transport framing";
        assert_eq!(Loss::NAMES.join(" "), lost);
        assert_eq!(Loss::NAMES[Loss::Framing.number()], "framing");
        let wrong = "not-a-response question rcode short answer id status content-type too-long ad";
        assert_eq!(Wrong::WORDS.join(" "), wrong);
    }
}

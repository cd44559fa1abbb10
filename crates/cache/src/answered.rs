//! The purpose of a look-up, and the outcomes of a query and of a reply.

/// The purpose of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A client asks. The look-up counts as a use of the entry, and may ask for the answer to be fetched anew.
    Client,
    /// A client that waited gets the answer that just came. The look-up changes and counts nothing, so that the policy
    /// sees one use however many clients waited.
    Waiter,
    /// As [`Self::Waiter`], but an answer whose TTL has ended is taken as well, since no new one came in time (RFC
    /// 8767, section 5).
    Late,
}

/// How a question failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A server answered, and its answer is of no use.
    Unusable,
    /// No server answered: all of them are down, or were silent.
    Silent,
}

/// The outcome of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The reply is in the buffer.
    Hit {
        /// The length of the reply in bytes.
        bytes: usize,
        /// Whether the answer should be fetched anew, since its TTL ends soon. One hit of an answer reports this.
        prefetch: bool,
    },
    /// A reply whose TTL has ended is in the buffer. The last try to get a new one failed, so there is no need to try
    /// again now (RFC 8767, section 5).
    Stale {
        /// The length of the reply in bytes.
        bytes: usize,
    },
    /// A reply with SERVFAIL is in the buffer: the question failed a short time ago (RFC 9520).
    Failed {
        /// The length of the reply in bytes.
        bytes: usize,
    },
    /// The cache has no answer, and the buffer is unchanged.
    Miss,
}

/// The outcome of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The cache answers the question from now on.
    Kept {
        /// For this many seconds.
        ttl_s: u32,
    },
    /// The cache does not keep the reply. It has what it had before, unless the reply is too big to keep
    /// ([`Why::TooBig`]): what was known of the question is removed then, since it is out of date.
    NotKept(Why),
}

/// Why a reply is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is no reply to a query (opcode 0), or one of its records, or a name in one, cannot be read.
    Malformed,
    /// It does not repeat the question, or the question's name is malformed.
    OtherQuestion,
    /// It has TC.
    Truncated,
    /// Its rcode is neither NOERROR nor NXDOMAIN. One with YXDOMAIN is an answer all the same.
    Rcode(u16),
    /// Its chain of aliases is a circle, or has more than 16 aliases.
    Chain,
    /// It is longer than a segment of the cache's memory: 128 KiB, or 1/64 of small memories. Or it is longer than a
    /// message once it is written anew.
    TooBig,
    /// It has no answer, and no SOA record of the zone that says for how long (RFC 2308, section 5). Referrals are of
    /// this kind, and are no answers.
    NoSoa,
    /// The TTL of one of its records is 0.
    TtlZero,
    /// The question is for a transfer or for another type that no records have.
    Type,
}

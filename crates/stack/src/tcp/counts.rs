//! Counts of connections.

/// The purpose of a segment that was sent again, or for whose sake a connection timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Opening: a SYN.
    Syn,
    /// Data, or a probe of a window of zero.
    Data,
    /// Closing: a FIN without data.
    Fin,
}

/// Segments that were sent again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retransmitted {
    /// SYNs.
    pub syn: u64,
    /// Segments with data. Some also have a FIN.
    pub data: u64,
    /// FINs without data.
    pub fin: u64,
}

impl Retransmitted {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.syn + self.data + self.fin
    }

    #[inline]
    pub(super) fn count_mut(&mut self, phase: Phase) -> &mut u64 {
        match phase {
            Phase::Syn => &mut self.syn,
            Phase::Data => &mut self.data,
            Phase::Fin => &mut self.fin,
        }
    }
}

/// Counts of all connections since the beginning. `attempts = established + refused + timed_out.syn + abandoned`
/// and those that are being made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Connections that were begun.
    pub attempts: u64,
    /// Connections that were made.
    pub established: u64,
    /// Attempts that the peer reset.
    pub refused: u64,
    /// Attempts that the caller closed before they were made.
    pub abandoned: u64,
    /// Connections that ended by the FINs of both sides.
    pub finished: u64,
    /// Connections that the peer reset after they were made.
    pub resets_received: u64,
    /// Connections that this side reset: by the caller's wish, or since data arrived after the caller had closed.
    pub resets_sent: u64,
    /// Connections that timed out, by what was sent in vain.
    pub timed_out: Retransmitted,
    /// Closed connections whose peer never sent its FIN.
    pub fin_wait_expired: u64,
    /// Closed connections that were given up before their peer sent its FIN, since a new one needed the place.
    pub fin_wait_given_up: u64,
    /// Segments that were sent again.
    pub retransmitted: Retransmitted,
    /// Probes of a window of zero.
    pub probes: u64,
    /// Segments that were written, retransmissions and replies to strangers included.
    pub segments_sent: u64,
    /// Segments that were written without data, SYN, FIN or RST.
    pub bare_acks: u64,
    /// Acknowledgements that were delayed until [`Settings::ack_delay`](super::Settings::ack_delay) was over.
    pub delayed_acks: u64,
    /// Segments that were handed in.
    pub segments_received: u64,
    /// Received segments that belonged to no connection. Those with data or a FIN of an ended pair are counted in
    /// [`Self::late`] as well.
    pub strangers: u64,
    /// Segments of ended pairs that got one more ACK.
    pub late: u64,
    /// Resets that strangers got.
    pub strangers_reset: u64,
    /// Segments outside the window, mostly such as had arrived before.
    pub outside: u64,
    /// Segments that arrived before what comes first.
    pub out_of_order: u64,
    /// Segments out of order of which there was no room to hold all.
    pub not_held: u64,
    /// Segments whose timestamp was older than the last one (RFC 7323, section 5), or was missing.
    pub old_timestamps: u64,
    /// Challenge ACKs (RFC 5961).
    pub challenges: u64,
    /// Replies to strangers that were not written for lack of room.
    pub replies_dropped: u64,
}

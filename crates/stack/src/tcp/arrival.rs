//! The news that a segment brings, as the caller sees it.

/// A connection. Its number is used again after it has ended, and then counts as another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    pub(super) index: u32,
    pub(super) generation: u32,
}

/// How a connection ended that did not time out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Both sides sent a FIN, and both FINs were acknowledged or will be by the next segment.
    Finished,
    /// The peer reset it, or this side did, as data came after the caller had closed.
    Reset,
    /// The peer reset it before it was made.
    Refused,
}

/// The news of a segment, in the order in which it counts: the connection was made, data arrived, the peer closed, the
/// connection ended.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'f> {
    /// The connection.
    pub connection: Id,
    /// The tag by which the caller knows it.
    pub tag: u64,
    /// Whether the connection was made by this segment.
    pub is_established: bool,
    /// Bytes that the peer newly acknowledged: there is room for as many to send.
    pub acknowledged_bytes: u32,
    /// Data from the segment, which follows all that arrived before.
    pub bytes: &'f [u8],
    /// The length of data that follows it and had arrived out of order: [`super::Connections::more`] has it until the
    /// next segment is handed in.
    pub more_bytes: usize,
    /// Whether the peer's FIN arrived, after all of its data.
    pub is_peer_closed: bool,
    /// How the connection ended, if it did. Its [`Id`] then stands for no connection, or soon will.
    pub ended: Option<End>,
}

impl Arrival<'_> {
    /// Nothing yet.
    pub(super) fn new(connection: Id, tag: u64) -> Self {
        Self {
            connection,
            tag,
            is_established: false,
            acknowledged_bytes: 0,
            bytes: &[],
            more_bytes: 0,
            is_peer_closed: false,
            ended: None,
        }
    }

    /// Whether anything happened that the caller can see.
    pub(super) fn is_news(&self) -> bool {
        self.is_established
            || self.acknowledged_bytes > 0
            || !self.bytes.is_empty()
            || self.is_peer_closed
            || self.ended.is_some()
    }
}

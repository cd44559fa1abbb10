//! The places where a query or its reply can be lost: a row for each, with its name in records and its words on the page.

use crate::choice::choice;

choice! {
    /// The places where a query or its reply can be lost, in the order in which it passes them.
    #[derive(Hash)]
    #[allow(missing_docs)] // the names are METHOD's
    Place {
        #[default]
        PlayerUnsent = "player-unsent",
        PlayerSend = "player-send",
        PathOut = "path-out",
        NicOut = "nic-out",
        NicIn = "nic-in",
        Softnet = "softnet",
        FilterIn = "filter-in",
        SubjectSocketBuffer = "subject-socket-buffer",
        SubjectUnanswered = "subject-unanswered",
        SubjectSend = "subject-send",
        FilterOut = "filter-out",
        PathBack = "path-back",
        PlayerSocketBuffer = "player-socket-buffer",
    }
}

/// The side to which a place belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The player's program and its sockets.
    Player,
    /// Everything between the two programs.
    Path,
    /// The subject's program and its sockets.
    Subject,
}

impl Place {
    /// The side to which it belongs, and its words on the page.
    fn row(self) -> (Side, &'static str) {
        match self {
            Self::PlayerUnsent => (Side::Player, "player, never sent"),
            Self::PlayerSend => (Side::Player, "player, send refused"),
            Self::PathOut => (Side::Path, "path to the subject"),
            Self::NicOut => (Side::Path, "interface, leaving"),
            Self::NicIn => (Side::Path, "interface, arriving"),
            Self::Softnet => (Side::Path, "kernel backlog"),
            Self::FilterIn => (Side::Path, "filter, arriving"),
            Self::SubjectSocketBuffer => (Side::Subject, "subject's buffer"),
            Self::SubjectUnanswered => (Side::Subject, "subject, unanswered"),
            Self::SubjectSend => (Side::Subject, "subject, send refused"),
            Self::FilterOut => (Side::Path, "filter, leaving"),
            Self::PathBack => (Side::Path, "path back"),
            Self::PlayerSocketBuffer => (Side::Player, "player's buffer"),
        }
    }

    /// The side to which it belongs.
    pub fn side(self) -> Side {
        self.row().0
    }

    /// Its words on the page.
    pub fn words(self) -> &'static str {
        self.row().1
    }
}

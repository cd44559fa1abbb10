//! The flags of QUIC.

use kqps_player::QuicPlan;
use kqps_quic::Congestion;

use crate::exit::bad_input;

/// The flags of QUIC. The comments are the help text.
#[derive(clap::Args)]
#[allow(clippy::doc_markdown)] // the comments are the help text
#[command(next_help_heading = "QUIC")]
pub(crate) struct QuicArgs {
    /// Limit the bytes on their way by: fixed (the default: a window that never fills) or cubic
    #[arg(long, value_name = "HOW")]
    congestion: Option<Congestion>,
}

impl QuicArgs {
    /// The plan with these flags.
    pub(super) fn plan(&self, plan: QuicPlan) -> QuicPlan {
        QuicPlan { congestion: self.congestion.unwrap_or_default(), ..plan }
    }

    /// Refuses flags of QUIC if there is none.
    pub(super) fn check_none_is_given(&self) -> anyhow::Result<()> {
        match self.congestion {
            Some(_) => Err(bad_input("--congestion is about QUIC; play over quic (-m quic)")),
            None => Ok(()),
        }
    }
}

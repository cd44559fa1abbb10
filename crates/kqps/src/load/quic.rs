//! The flags of QUIC.

use kqps_player::QuicPlan;
use kqps_quic::Congestion;

use crate::exit::bad_input;

/// The flags of QUIC. The comments are the help text.
#[derive(clap::Args)]
#[allow(clippy::doc_markdown)] // the comments are the help text
#[command(next_help_heading = "QUIC")]
pub(crate) struct QuicArgs {
    /// Send queries with the first packets of a resumed connection (0-RTT)
    ///
    /// Queries leave early if they may be replayed: those of opcode QUERY that ask for no transfer. A server may refuse
    /// early data; kqps then sends its queries again, and their latency counts from the first time.
    #[arg(long)]
    pub(super) early_data: bool,

    /// Limit the bytes on their way by: fixed (the default: a window that never fills) or cubic
    #[arg(long, value_name = "HOW")]
    congestion: Option<Congestion>,
}

impl QuicArgs {
    /// The plan with these flags.
    pub(super) fn plan(&self, plan: QuicPlan) -> anyhow::Result<QuicPlan> {
        if self.early_data && !plan.tls.client.resume {
            return Err(bad_input(
                "--early-data needs tickets of earlier connections: leave --resume no out",
            ));
        }
        let congestion = self.congestion.unwrap_or_default();
        Ok(QuicPlan { early_data: self.early_data, congestion, ..plan })
    }

    /// Refuses flags of QUIC if there is none.
    pub(super) fn check_none_is_given(&self) -> anyhow::Result<()> {
        let given = [(self.early_data, "--early-data"), (self.congestion.is_some(), "--congestion")];
        match given.into_iter().find(|(is_given, _)| *is_given) {
            Some((_, flag)) => Err(bad_input(format!("{flag} is about QUIC; play over quic (-m quic)"))),
            None => Ok(()),
        }
    }
}

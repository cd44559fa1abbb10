//! The request of a trial of a search or a study, as it is shown.

use kqps_live::{Load, Standing};
use kqps_testbed::trial_request::{RequestedPace, TrialRequest};

/// Where a command stands in such a trial, without its place among others.
pub(crate) fn standing_of(request: &TrialRequest) -> Standing {
    let load = match request.pace {
        RequestedPace::Open { rate_qps } => Load::Open(rate_qps),
        RequestedPace::Closed => Load::Closed,
    };
    Standing {
        purpose: request.purpose.word().to_owned(),
        load,
        planned_s: Some(request.duration_s),
        ..Standing::default()
    }
}

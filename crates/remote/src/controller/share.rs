//! The share of each player in one load. A function of the load and of the number of players.

use kqps_testbed::trial_request::{RequestedPace, TrialRequest};

/// The request to each of `of` players. Rates are divided, and the time is the same for all.
pub(super) fn of_each(request: &TrialRequest, of: usize) -> TrialRequest {
    let pace = match request.pace {
        RequestedPace::Open { rate_qps } => RequestedPace::Open { rate_qps: rate_qps / of.max(1) as f64 },
        RequestedPace::Closed => RequestedPace::Closed,
    };
    TrialRequest { pace, ..*request }
}

/// The most outstanding queries of player `number` of `of` in a closed loop: its part of the window. The first player
/// has what cannot be divided. Cells whose window has not one query for each thread are left out.
pub(super) fn window(window: u32, (number, of): (usize, usize)) -> u32 {
    let of = u32::try_from(of).unwrap_or(u32::MAX).max(1);
    let rest = if number == 0 { window % of } else { 0 };
    window / of + rest
}

#[cfg(test)]
mod tests {
    use kqps_observation::run::Purpose;

    use super::*;

    #[test]
    fn rates_are_divided_and_times_are_not() {
        let pace = RequestedPace::Open { rate_qps: 90_000.0 };
        let request = TrialRequest { pace, duration_s: 0.5, purpose: Purpose::Search };
        let own = of_each(&request, 3);
        assert_eq!(own, TrialRequest { pace: RequestedPace::Open { rate_qps: 30_000.0 }, ..request });
        let closed = TrialRequest { pace: RequestedPace::Closed, ..request };
        assert_eq!(of_each(&closed, 3), closed);
    }

    #[test]
    fn windows_add_up_and_no_player_is_without_one() {
        for (whole, of) in [(500, 2), (501, 2), (500, 3), (7, 4), (16, 4), (3, 3)] {
            let windows: Vec<u32> = (0..of).map(|number| window(whole, (number, of))).collect();
            assert!(windows.iter().all(|one| *one > 0), "{windows:?}");
            assert_eq!(windows.iter().sum::<u32>(), whole, "{windows:?}");
            assert!(
                windows[1..].iter().all(|other| *other == windows[1] && *other <= windows[0]),
                "{windows:?}"
            );
        }
    }
}

//! The record of all players together.

use crate::residence::NAME as NAME_OF_RESIDENCE;
use crate::{Ledger, NonEmpty, SCHEMA, Trial};

use super::counts::{self, Counts};
use super::histograms::Histograms;
use super::starts::Starts;
use super::{MergeError, Part, ServerFacts, connections, differences, load};

/// Merges parts that are those of one trial, without a drop ledger.
pub(super) fn merge(parts: &[Part], server: Option<ServerFacts>) -> Result<Trial, MergeError> {
    let first = &parts.first().ok_or(MergeError::Nothing)?.trial;
    let starts = Starts::from_parts(parts);
    let histograms = Histograms::from_parts(parts)?;
    let accounts = counts::accounts(parts)?;
    let by_cause = |of: fn(&Trial) -> &Counts| counts::by_cause(parts.iter().map(|part| of(&part.trial)));
    let each = load::each(parts);
    let late_ns = each.iter().map(|part| part.start.late_ns).max();
    let (subject, server_host, residence) =
        server.map_or((None, None, None), |seen| (seen.subject, Some(seen.host), seen.residence));
    // If packets were stamped and cannot be paired, the reason stands among what could not be read.
    let is_unpaired =
        server_host.as_ref().is_some_and(|host| host.unreadable.contains_key(NAME_OF_RESIDENCE));
    let is_stamped = residence.is_some() || is_unpaired;
    Ok(Trial {
        schema: SCHEMA,
        kind: "trial".into(),
        interrupted: parts.iter().any(|part| part.trial.interrupted),
        disturbed: is_stamped || parts.iter().any(|part| part.trial.disturbed),
        started_unix_ms: parts.iter().map(|part| part.trial.started_unix_ms).min().unwrap_or(0),
        started_monotonic_ns: starts.first_monotonic_ns(),
        target: first.target.clone(),
        targets: first.targets.clone(),
        transport: first.transport,
        dataset: first.dataset.clone(),
        load: load::facts(parts, &accounts),
        accounts,
        unsent_causes: by_cause(|trial| &trial.unsent_causes),
        wrong_causes: by_cause(|trial| &trial.wrong_causes),
        send_failed_causes: by_cause(|trial| &trial.send_failed_causes),
        wrong_rcodes: by_cause(|trial| &trial.wrong_rcodes),
        lost_causes: by_cause(|trial| &trial.lost_causes),
        // Only that of a single player passes the check.
        replay: first.replay.clone(),
        differences: differences::by_kind(parts),
        connections: connections::facts(parts, &histograms),
        lost_expected: by_cause(|trial| &trial.lost_expected),
        refused_at_times: counts::sum(parts.iter().map(|part| part.trial.refused_at_times)),
        response_rcodes: by_cause(|trial| &trial.response_rcodes),
        request_bytes_mean: counts::mean(parts, |trial| trial.request_bytes_mean, |accounts| accounts.sent),
        response_bytes_mean: counts::mean(
            parts,
            |trial| trial.response_bytes_mean,
            |accounts| accounts.correct,
        ),
        replies: load::replies(parts),
        latency_us: histograms.quantiles("latency"),
        lag_us: histograms.quantiles("lag"),
        gap_us: histograms.quantiles("gap"),
        histograms: histograms.encoded(),
        // A class of several players has several.
        players: list(parts.iter().flat_map(|part| part.trial.players.iter().cloned())),
        subject,
        hosts: list(parts.iter().map(|part| part.trial.hosts.first.clone()).chain(server_host)),
        ledger: Ledger::default(),
        // No host has both a player and the subject, so no program gauged the cores of both.
        speed: None,
        stalls: None,
        residence,
        beside: first.beside.clone(),
        classes: Vec::new(),
        parts: each,
        start_skew_us: starts.skew_us(),
        late_start_ns: late_ns,
        mishaps: counts::mishaps(parts, &starts),
        moments: counts::moments(parts),
        // The events are of the whole trial, and a silence of one player may be none of all.
        events: Vec::new(),
        // Attackers are played by one player, and those of a class stand in its own record.
        hostile: None,
        silences: Vec::new(),
        // An Internet in a box is on the host that plays.
        upstream: None,
        intervals: counts::intervals(parts, &starts),
        sent_per_100ms: counts::sent_per_100ms(parts, &starts),
    })
}

/// A list of at least one item.
fn list<T: Default>(mut items: impl Iterator<Item = T>) -> NonEmpty<T> {
    NonEmpty { first: items.next().unwrap_or_default(), others: items.collect() }
}

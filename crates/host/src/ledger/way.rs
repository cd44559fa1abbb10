//! The way of a query to the subject and of its reply back: its stages, and the places on the stretches between them.

use kqps_observation::Place;
use kqps_observation::ledger::StageName;

/// The stages from sent to answered, in order.
pub(super) const WAY: [StageName; 9] = [
    StageName::Sent,
    StageName::SubjectReceived,
    StageName::SubjectDelivered,
    StageName::SubjectRead,
    StageName::SubjectReplied,
    StageName::SubjectTransmitted,
    StageName::PlayerReceived,
    StageName::PlayerDelivered,
    StageName::Answered,
];

/// The places between a stage of [`WAY`] and the next. The last place takes the losses that no counter of
/// drops explains.
pub(super) const STRETCHES: [&[Place]; WAY.len() - 1] = [
    &[Place::Softnet, Place::NicIn, Place::NicOut, Place::PathOut],
    &[Place::FilterIn],
    &[Place::SubjectSocketBuffer],
    &[Place::SubjectSend, Place::SubjectUnanswered],
    &[Place::FilterOut],
    &[Place::SubjectSend, Place::Softnet, Place::PathBack],
    &[Place::PathBack],
    &[Place::PlayerSocketBuffer],
];

/// The first of [`STRETCHES`] that replies pass after they left the subject's host.
pub(super) const WAY_BACK: usize = 5;

/// All places between two stages, in the order in which a packet passes them.
pub(super) fn places_between(from: usize, to: usize) -> Vec<Place> {
    let mut places: Vec<Place> = STRETCHES[from..to].concat();
    places.sort_unstable();
    places.dedup();
    places
}

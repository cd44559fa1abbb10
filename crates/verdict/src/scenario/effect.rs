//! Effects of events on a class, from its moments before and after them.

use kqps_observation::moments::{Moment, Moments};
use kqps_observation::{EventFacts, Silence, Trial};

use super::Effect;

/// The shortest time of an event, seconds: an effect may begin some time after it.
const SETTLE_S: f64 = 1.0;

/// The answers are back if this share of those before comes.
const BACK_SHARE: f64 = 0.99;

/// The answers are back if they come over so many bins, or over all that are left.
const BACK_BINS: usize = 5;

/// Standard deviations of the missing answers that are due to chance.
const CHANCE: f64 = 3.0;

/// Times are exact to this part of a second: the sum of two binary fractions may be just beside a third one.
const INSTANT_S: f64 = 1e-6;

/// Sums of shares are exact to this part of an answer.
const ROUNDING: f64 = 1e-6;

/// The class before an event.
#[derive(Clone, Copy)]
struct Before {
    /// The share of the due queries that was answered, above 0.
    share: f64,
    p99_us: Option<f64>,
}

/// The effects of events on a class, each with the number of its event. The events are in the order of their times.
pub(super) fn effects(class: &str, trial: &Trial, events: &[&EventFacts]) -> Vec<(usize, Effect)> {
    let moments = &*trial.moments;
    // The bin in which a time is, or the number of bins for a time after them.
    let bin_of =
        |at_s: f64| moments.partition_point(|moment| moment.at_s + moment.seconds <= at_s + INSTANT_S);
    let (mut before, mut quiet_from) = (None, 0);
    let mut effects: Vec<(usize, Effect)> = Vec::new();
    for (number, event) in events.iter().enumerate() {
        let next_s = events.get(number + 1).map(|next| next.at_s());
        let first = bin_of(event.at_s());
        let end = next_s.map_or(moments.len(), bin_of);
        before = Before::new(&moments[quiet_from.min(first)..first], before);
        let window = &moments[first..end];
        if window.iter().all(|moment| moment.intended == 0) {
            continue;
        }
        let since = Since { window, at_s: event.at_s(), next_s };
        let back = before.and_then(|before| since.back(before.share, event.done_s));
        quiet_from = match (before, back) {
            // Bins before the answers are back say nothing about the usual share.
            (Some(_), None) => moments.len(),
            (Some(_), Some(back)) => first + back,
            (None, _) => first,
        };
        let effect = since.effect(before, back, event.done_s);
        let silence = longest(&trial.silences, |silence| touches(silence, &effect));
        let is_usual = |silence: &Silence| {
            let ended_before = silence.at_s + silence.seconds <= effect.at_s;
            ended_before && !effects.iter().any(|(_, earlier)| touches(silence, earlier))
        };
        let usual_s = longest(&trial.silences, is_usual).map_or(0.0, |silence| silence.seconds);
        let effect = Effect { silence: silence.filter(|silence| silence.seconds > usual_s), ..effect };
        effects.push((number, Effect { event: event.name.clone(), class: class.to_owned(), ..effect }));
    }
    effects
}

impl Before {
    /// The class in these bins before an event. If they are few, the class before the last event stands for it.
    fn new(bins: &[Moment], last: Option<Self>) -> Option<Self> {
        let (intended, answered) = sums(bins);
        let seen = (answered > 0)
            .then(|| Self { share: answered as f64 / intended.max(1) as f64, p99_us: p99_us(bins) });
        if bins.len() < BACK_BINS { last.or(seen) } else { seen.or(last) }
    }
}

/// The bins from an event until the next one, or until the end of the load.
struct Since<'a> {
    window: &'a [Moment],
    at_s: f64,
    next_s: Option<f64>,
}

impl Since<'_> {
    /// The number of the bin from which on the answers are back; `None` if they never are.
    fn back(&self, share: f64, done_s: Option<f64>) -> Option<usize> {
        let settled_s = self.settled_s(done_s);
        let is_bad =
            |bin: &Moment| bin.at_s + INSTANT_S < settled_s && !is_usual(std::slice::from_ref(bin), share);
        let after_bad = self.window.iter().rposition(is_bad).map_or(0, |bad| bad + 1);
        (after_bad..self.window.len()).find(|&from| {
            let span = &self.window[from..(from + BACK_BINS).min(self.window.len())];
            span[0].intended > 0 && is_usual(&span[..1], share) && is_usual(span, share)
        })
    }

    /// The time until which effects of the event may begin.
    fn settled_s(&self, done_s: Option<f64>) -> f64 {
        done_s.unwrap_or(0.0).max(self.at_s + SETTLE_S)
    }

    /// The effect without its silence.
    fn effect(&self, before: Option<Before>, back: Option<usize>, done_s: Option<f64>) -> Effect {
        let end_s = self.window.last().map_or(self.at_s, |last| last.at_s + last.seconds);
        let end_s = self.next_s.unwrap_or(f64::MAX).min(end_s);
        let back_s = back.map(|back| self.window[back].at_s.max(self.at_s));
        let until_s = match (before, back_s) {
            (Some(_), None) => end_s,
            (_, back_s) => self.settled_s(done_s).max(back_s.unwrap_or(0.0)).min(end_s),
        };
        let bins = self.window.partition_point(|bin| bin.at_s + INSTANT_S < until_s);
        let lost = |before: Before| {
            let (intended, answered) = sums(&self.window[..back.unwrap_or(self.window.len())]);
            (before.share * intended as f64 - answered as f64).max(0.0).round() as u64
        };
        Effect {
            at_s: self.at_s,
            span_s: until_s - self.at_s,
            intended: sums(&self.window[..bins]).0,
            answered_before: before.map(|before| before.share),
            lost: before.map(lost),
            recovered_s: back_s.map(|back_s| back_s - self.at_s),
            p99_before_us: before.and_then(|before| before.p99_us),
            p99_worst_us: self.window[..bins].iter().filter_map(|bin| bin.p99_us).reduce(f64::max),
            ..Effect::default()
        }
    }
}

/// The longest of the silences that are so.
fn longest(silences: &[Silence], is_so: impl Fn(&Silence) -> bool) -> Option<Silence> {
    let found = silences.iter().copied().filter(is_so);
    found.max_by(|one, other| one.seconds.total_cmp(&other.seconds))
}

/// Whether a silence touches the time of an event.
fn touches(silence: &Silence, effect: &Effect) -> bool {
    silence.at_s < effect.at_s + effect.span_s && silence.at_s + silence.seconds > effect.at_s
}

/// Whether as many queries of these bins were answered as usual: 99 % of the usual share, without the misses that chance
/// adds to those of that share.
fn is_usual(bins: &[Moment], share: f64) -> bool {
    let (intended, answered) = sums(bins);
    let usual = share * intended as f64;
    let chance = CHANCE * (intended as f64 - usual).max(0.0).sqrt();
    answered as f64 + chance + ROUNDING >= BACK_SHARE * usual
}

/// The queries that were due in these bins, and how many of them were answered.
fn sums(bins: &[Moment]) -> (u64, u64) {
    bins.iter().fold((0, 0), |(intended, answered), bin| (intended + bin.intended, answered + bin.answered))
}

/// The 99th percentile of the replies of these bins together.
fn p99_us(bins: &[Moment]) -> Option<f64> {
    let mut sum = Moments::from_record(bins);
    while sum.len() > 1 {
        sum.widen();
    }
    sum.record().first()?.p99_us
}

#[cfg(test)]
mod tests;

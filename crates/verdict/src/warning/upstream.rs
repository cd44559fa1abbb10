//! Detects a resolver whose name servers, those of an Internet in a box, may have been the limit.

use kqps_observation::Trial;

use super::player::BUSY;
use super::{Code, Effect, Warning};
use crate::grade::Grade;

/// The servers of the Internet in a box used nearly all of their core.
pub fn upstream_limited(trial: &Trial) -> Option<Warning> {
    let upstream = trial.upstream.as_ref()?;
    let busy = upstream.cpu_s / trial.load.duration_s;
    (busy >= BUSY).then(|| {
        let place = if upstream.is_beside_subject { ", which they shared with the resolver," } else { "" };
        let advice = format!(
            "The servers of the Internet in a box used {:.0} % of a core{place} so they, and not the resolver, may have \
             been the limit. Ask for more hits, or give the run a host with more cores.",
            busy * 100.0
        );
        Warning::new(Code::UpstreamLimited, Effect::Cap(Grade::C), busy, advice)
    })
}

#[cfg(test)]
mod tests {
    use kqps_observation::UpstreamFacts;

    use super::*;

    #[test]
    fn busy_servers_may_be_the_limit() {
        let with = |cpu_s, is_beside_subject| {
            let upstream = Some(UpstreamFacts { cpu_s, is_beside_subject, ..UpstreamFacts::default() });
            let mut trial = Trial { upstream, ..Trial::default() };
            trial.load.duration_s = 2.0;
            upstream_limited(&trial)
        };
        let warning = with(1.96, true).unwrap();
        assert_eq!((warning.code, warning.effect()), (Code::UpstreamLimited, Effect::Cap(Grade::C)));
        assert!(
            warning.advice.contains("98 % of a core, which they shared with the resolver, so"),
            "{warning}"
        );
        assert_eq!(with(1.0, true), None);
        assert_eq!(upstream_limited(&Trial::default()), None);
    }
}

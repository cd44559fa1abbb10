//! Whether a host is as it was when its run began. Figures of a run that goes on are those of one setting.

use kqps_observation::RunHost;

/// The digits of a hash that are shown.
const SHOWN: usize = 12;

/// The first difference of a host since its run began, as a sentence without its full stop; `None` if it is the same.
pub(super) fn difference(then: &RunHost, now: &RunHost) -> Option<String> {
    let changes = facts(then).into_iter().zip(facts(now));
    let (what, before, after) = changes
        .into_iter()
        .find_map(|((what, before), (_, after))| (before != after).then_some((what, before, after)))?;
    let name = &then.name;
    Some(format!("{name} has another {what} than when the run began (`{before}` then, `{after}` now)"))
}

/// Facts that identify a host and its kqps, by name.
fn facts(host: &RunHost) -> [(&'static str, String); 4] {
    let hash = host.kqps.blake3.as_deref().unwrap_or_default();
    [
        ("address", host.address.to_string()),
        ("CPU", host.fingerprint.cpu_model.clone()),
        ("kernel", host.fingerprint.kernel.clone()),
        ("build of kqps", hash.get(..SHOWN).unwrap_or(hash).to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use kqps_observation::fingerprint::BinaryFacts;
    use kqps_observation::{Fingerprint, HostRole};

    use super::*;

    fn host() -> RunHost {
        let kqps = BinaryFacts { path: "kqps".into(), version: None, blake3: Some("ab".repeat(32)) };
        let fingerprint = Fingerprint { kernel: "6.1".into(), ..Fingerprint::default() };
        let address = [192, 0, 2, 1].into();
        RunHost { name: "ns1".into(), role: HostRole::Server, address, fingerprint, kqps }
    }

    #[test]
    fn a_host_that_was_made_anew_is_another() {
        assert_eq!(difference(&host(), &host()), None);
        let mut moved = host();
        moved.kqps.path = "/opt/kqps".into();
        assert_eq!(difference(&host(), &moved), None, "the same build at another place");
        let mut newer = host();
        newer.fingerprint.kernel = "6.12".into();
        let expected = "ns1 has another kernel than when the run began (`6.1` then, `6.12` now)";
        assert_eq!(difference(&host(), &newer).as_deref(), Some(expected));
        let mut rebuilt = host();
        rebuilt.kqps.blake3 = Some("cd".repeat(32));
        assert!(difference(&host(), &rebuilt).unwrap().contains("(`abababababab` then, `cdcdcdcdcdcd` now)"));
        let other = RunHost { address: [192, 0, 2, 9].into(), ..host() };
        assert!(difference(&host(), &other).unwrap().contains("another address"));
        let mut processor = host();
        processor.fingerprint.cpu_model = "another".into();
        assert!(difference(&host(), &processor).unwrap().contains("another CPU"));
    }
}

//! Whether the agent that answered is the one that is needed.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::HostsError;
use crate::identity::Identity;
use crate::message::{self, AgentHello};

/// The part of a hello that every version has.
#[derive(Deserialize)]
struct AnyHello {
    identity: Identity,
}

/// Reads the hello of the agent of a host, and checks that it is the same build and accepts the controller.
pub(super) fn accept(host: &str, ours: &Identity, hello: &RawValue) -> Result<AgentHello, HostsError> {
    let nonsense = |error: serde_json::Error| HostsError::Nonsense {
        host: host.to_owned(),
        what: format!("the hello {}: {error}", message::shown(hello.get().as_bytes())),
    };
    let AnyHello { identity } = serde_json::from_str(hello.get()).map_err(nonsense)?;
    check(host, &identity, ours)?;
    let there: AgentHello = serde_json::from_str(hello.get()).map_err(nonsense)?;
    match there.refused {
        Some(reason) => Err(HostsError::Refused { host: host.to_owned(), reason }),
        None => Ok(there),
    }
}

fn check(host: &str, theirs: &Identity, ours: &Identity) -> Result<(), HostsError> {
    if theirs == ours {
        return Ok(());
    }
    let host = host.to_owned();
    if theirs.arch != ours.arch {
        return Err(HostsError::OtherArch { host, theirs: theirs.arch.clone(), ours: ours.arch.clone() });
    }
    Err(HostsError::Differs { host, theirs: Box::new(theirs.clone()), ours: Box::new(ours.clone()) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ours() -> Identity {
        Identity { version: "1.0".into(), schema: 4, blake3: "a".repeat(64), arch: "x86_64".into() }
    }

    fn failed(hello: &serde_json::Value) -> String {
        let hello = serde_json::value::to_raw_value(hello).unwrap();
        accept("ns1", &ours(), &hello).unwrap_err().to_string()
    }

    #[test]
    fn the_same_build_is_accepted() {
        let identity = ours();
        let there = AgentHello {
            identity,
            hostname: "ns1.example".into(),
            boot_id: "b".into(),
            pid: 7,
            lease_s: 5,
            refused: None,
        };
        let hello = serde_json::value::to_raw_value(&there).unwrap();
        assert_eq!(accept("ns1", &ours(), &hello).unwrap(), there);
        let refused = AgentHello { refused: Some("192.0.2.1 is no target".into()), ..there };
        assert_eq!(failed(&json!(refused)), "ns1 refuses: 192.0.2.1 is no target");
    }

    #[test]
    fn what_differs_is_named() {
        let other = Identity { blake3: "b".repeat(64), ..ours() };
        // A build of another version may say other things in its hello.
        assert_eq!(
            failed(&json!({"identity": other, "new": 1})),
            "kqps on ns1 is 1.0 (records of version 4, build bbbbbbbbbbbb), and here it is 1.0 (records of version 4, \
             build aaaaaaaaaaaa); install the same build there or add --push"
        );
        let other = Identity { arch: "aarch64".into(), ..other };
        assert_eq!(
            failed(&json!({"identity": other})),
            "ns1 has the architecture aarch64 and this kqps x86_64; all hosts of a run need the same build"
        );
        assert!(
            failed(&json!({"identity": ours()}))
                .starts_with("ns1 sent what is no message of kqps: the hello")
        );
        assert!(failed(&json!([])).starts_with("ns1 sent what is no message of kqps: the hello `[]`"));
    }
}

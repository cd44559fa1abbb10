//! The factors of a cell that describe its path, as a study names them:
//!
//! | factor | values | meaning |
//! | --- | --- | --- |
//! | `path` | `loopback`, `veth` | the kind of path; without it, that of the study |
//! | `path.queues` | 1 to 4096 | queues of each device for sending, and as many for receiving |
//! | `path.txqueuelen` | a count | the most packets that wait in front of each device |
//! | `path.rps_cpus` | cores, as `0,2-3` | the cores that process received packets (RPS) |
//! | `path.gro` | `on`, `off` | whether received packets are joined, which turns NAPI on too |
//! | `path.sysctl.NAME` | as the kernel takes it | a setting of both network namespaces: `path.sysctl.net.…` |
//!
//! All but the first are for `veth`. None of them changes the host.

use std::collections::BTreeMap;
use std::str::FromStr;

use kqps_kernel::namespace::veth::VethSettings;
use kqps_observation::question::Path as Kind;

use kqps_files::toml_file::{did_you_mean, nearest};

/// The factor with the kind of path.
pub const PATH_FACTOR: &str = "path";

const PREFIX: &str = "path.";
const SYSCTL: &str = "sysctl.";

/// The most queues that the kernel accepts (`veth.c`, `veth_get_num_queues`).
const QUEUES_MOST: u32 = 4096;

/// A factor that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FactorError {
    /// A value that the factor does not accept.
    #[error("factor `{name}`: expected {expected}, found `{value}`")]
    Value {
        /// The name of the factor.
        name: String,
        /// The accepted values, in words.
        expected: &'static str,
        /// The value that was found.
        value: String,
    },
    /// A path has no such factor.
    #[error("unknown factor `{name}`{}", did_you_mean(.nearest.as_deref()))]
    Unknown {
        /// The unknown name.
        name: String,
        /// The known factor that was probably meant.
        nearest: Option<String>,
    },
}

/// The kind of path that the factors ask for; `None` if they do not say.
pub fn kind(factors: &BTreeMap<String, String>) -> Result<Option<Kind>, FactorError> {
    match factors.get(PATH_FACTOR).map(String::as_str) {
        None => Ok(None),
        Some("loopback") => Ok(Some(Kind::Loopback)),
        Some("veth") => Ok(Some(Kind::Veth)),
        Some(other) => Err(wrong(PATH_FACTOR, "`loopback` or `veth`", other)),
    }
}

/// The value of [`PATH_FACTOR`] for a kind of path.
pub(crate) fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Loopback => "loopback",
        Kind::Veth => "veth",
    }
}

/// The settings of a veth path, from the factors whose names begin with `path.`; other factors are ignored.
pub fn settings(factors: &BTreeMap<String, String>) -> Result<VethSettings, FactorError> {
    let mut settings = VethSettings::default();
    for (name, value) in factors {
        let Some(short) = name.strip_prefix(PREFIX) else { continue };
        match short {
            "queues" => {
                let expected = "a number of queues from 1 to 4096";
                let queues = number(name, value, expected)?;
                if !(1..=QUEUES_MOST).contains(&queues) {
                    return Err(wrong(name, expected, value));
                }
                settings.queues = Some(queues);
            }
            "txqueuelen" => settings.txqueuelen = Some(number(name, value, "a number of packets")?),
            "rps_cpus" => {
                let cpus = cores(value).ok_or_else(|| wrong(name, "cores, such as 0,2-3", value))?;
                settings.rps_cpus = Some(cpus);
            }
            "gro" => match value.as_str() {
                "on" => settings.gro = Some(true),
                "off" => settings.gro = Some(false),
                other => return Err(wrong(name, "`on` or `off`", other)),
            },
            other => match other.strip_prefix(SYSCTL) {
                Some(sysctl) if sysctl.starts_with("net.") => {
                    settings.sysctls.insert(sysctl.into(), value.clone());
                }
                _ => return Err(unknown(name)),
            },
        }
    }
    Ok(settings)
}

fn unknown(name: &str) -> FactorError {
    let known = ["path.queues", "path.txqueuelen", "path.rps_cpus", "path.gro", "path.sysctl.net."];
    FactorError::Unknown { name: name.into(), nearest: nearest(name, &known).map(str::to_string) }
}

fn wrong(name: &str, expected: &'static str, value: &str) -> FactorError {
    FactorError::Value { name: name.into(), expected, value: value.into() }
}

fn number<T: FromStr>(name: &str, value: &str, expected: &'static str) -> Result<T, FactorError> {
    value.parse().map_err(|_| wrong(name, expected, value))
}

/// Parses a list of cores such as `0,2-3`; `None` if it is malformed.
fn cores(list: &str) -> Option<Vec<u32>> {
    let mut cores = Vec::new();
    for part in list.split(',').filter(|_| !list.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        // More cores than any machine has: the limit bounds the work of counting the bits of the mask.
        if first > last || last >= 1 << 16 {
            return None;
        }
        cores.extend(first..=last);
    }
    Some(cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn every_setting_has_a_factor() {
        let factors = factors(&[
            ("path", "veth"),
            ("path.queues", "2"),
            ("path.txqueuelen", "500"),
            ("path.rps_cpus", "0,2-3"),
            ("path.gro", "on"),
            ("path.sysctl.net.ipv4.udp_rmem_min", "8192"),
            ("player_sockets", "8"),
        ]);
        assert_eq!(kind(&factors), Ok(Some(Kind::Veth)));
        let expected = VethSettings {
            queues: Some(2),
            txqueuelen: Some(500),
            rps_cpus: Some(vec![0, 2, 3]),
            gro: Some(true),
            sysctls: [("net.ipv4.udp_rmem_min".to_string(), "8192".to_string())].into(),
        };
        assert_eq!(settings(&factors), Ok(expected));
        assert_eq!(
            (kind(&BTreeMap::new()), settings(&BTreeMap::new())),
            (Ok(None), Ok(VethSettings::default()))
        );
    }

    #[test]
    fn slips_are_explained() {
        for (name, value, expected) in [
            (
                "path.queues",
                "0",
                "factor `path.queues`: expected a number of queues from 1 to 4096, found `0`",
            ),
            ("path.gro", "yes", "factor `path.gro`: expected `on` or `off`, found `yes`"),
            ("path.rps_cpus", "3-2", "factor `path.rps_cpus`: expected cores, such as 0,2-3, found `3-2`"),
            ("path.queue", "2", "unknown factor `path.queue`; did you mean `path.queues`?"),
            (
                "path.sysctl.kernel.panic",
                "1",
                "unknown factor `path.sysctl.kernel.panic`; did you mean `path.sysctl.net.`?",
            ),
        ] {
            assert_eq!(settings(&factors(&[(name, value)])).unwrap_err().to_string(), expected);
        }
        let error = kind(&factors(&[("path", "wire")])).unwrap_err().to_string();
        assert_eq!(error, "factor `path`: expected `loopback` or `veth`, found `wire`");
    }
}

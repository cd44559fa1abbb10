//! The dnsperf beside which kqps is tested: Debian's, or the one that `KQPS_DNSPERF` names. Debian 12 has 2.10. What
//! 2.14 has beyond that is compared if a newer one is named. Otherwise a test reports what is not compared.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use kqps_skips::{Capability, skip};

use crate::load::bench::words;

/// The environment variable with the path of another dnsperf.
const PATH: &str = "KQPS_DNSPERF";

/// A dnsperf that is installed.
#[derive(Clone, Debug)]
pub(super) struct Theirs {
    pub(super) path: PathBuf,
    /// Its version, of which the first two numbers tell what it has.
    version: (u32, u32),
}

/// Features of 2.14 that an older version may lack, each with the version that brought it.
pub(super) const NEWER: [(&str, (u32, u32)); 6] = [
    ("-O latency-histogram", (2, 11)),
    ("-O verbose-interval-stats", (2, 11)),
    ("-O qps-threshold-wait", (2, 12)),
    ("-O tls-sni", (2, 13)),
    ("warnings that -T is lowered", (2, 12)),
    ("Connection attempts", (2, 14)),
];

impl Theirs {
    /// `None` without dnsperf, which is reported as a skip.
    pub(super) fn find() -> Option<Self> {
        let path =
            PathBuf::from(std::env::var_os(PATH).unwrap_or_else(|| OsString::from("/usr/bin/dnsperf")));
        let Ok(output) = Command::new(&path).arg("-h").output() else {
            skip(Capability::Programs, "kqps beside dnsperf: `dnsperf` is missing (apt install dnsperf)");
            return None;
        };
        let (out, _) = words(&output);
        let version = out.lines().find_map(|line| line.strip_prefix("Version ")).expect("a version");
        let mut numbers = version.split('.').map(|number| number.parse().expect("a number"));
        let version = (numbers.next().unwrap(), numbers.next().unwrap());
        Some(Self { path, version })
    }

    /// Whether it has the faults of Debian's version, which 2.14 has not.
    pub(super) fn is_debians(&self) -> bool {
        self.version == (2, 10)
    }

    /// Whether it has what a newer version brought: one of [`NEWER`].
    pub(super) fn has(&self, what: &str) -> bool {
        let (_, since) = NEWER.into_iter().find(|(name, _)| *name == what).expect("a known name");
        self.version >= since
    }

    /// Whether it has all options of these flags.
    pub(super) fn has_all(&self, flags: &str) -> bool {
        NEWER.into_iter().all(|(name, since)| !flags.contains(name) || self.version >= since)
    }
}

/// Features that the tests leave out are missing in Debian's version: else the tests would have to compare them.
#[test]
fn the_older_dnsperf_lacks_what_the_tests_leave_out() {
    let Some(theirs) = Theirs::find() else { return };
    let (_, help) = words(&Command::new(&theirs.path).arg("-H").output().unwrap());
    for (name, _) in NEWER {
        if let Some(option) = name.strip_prefix("-O ") {
            assert_eq!(help.contains(option), theirs.has(name), "{name}: {help}");
        }
        if !theirs.has(name) {
            println!("not compared: {name}, which dnsperf {:?} lacks", theirs.version);
        }
    }
}

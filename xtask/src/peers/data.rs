//! Generated zones, and the queries for their names. Each is generated once, when it is first needed.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};
use kqps_dataset::generate::LIST;
use kqps_lab::subject::Zone;

use super::Bench;
use crate::shell;

/// What name servers serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    /// One zone with so many address records, in thousands.
    OneZone(u32),
    /// So many zones, in thousands, of ten records.
    ManyZones(u32),
}

/// The origin of the one zone.
const ORIGIN: &str = "bench.test.";

/// Queries of a file, at random over all names.
const QUERIES: &str = "1M";

impl Data {
    /// The zones.
    pub(super) fn zones(self, bench: &Bench<'_>) -> Result<Vec<Zone>> {
        match self {
            Self::OneZone(_) => {
                let file = self.made(bench, "zone", "zone", &[])?;
                Ok(vec![Zone::new(ORIGIN, file)])
            }
            Self::ManyZones(_) => {
                let folder = self.made(bench, "zones", "zone", &[])?;
                let list = folder.join(LIST);
                Zone::listed(&list).with_context(|| format!("cannot read {}", list.display()))
            }
        }
    }

    /// Queries at random over all names, with the rcode that is expected of each.
    pub(super) fn queries(self, bench: &Bench<'_>) -> Result<PathBuf> {
        self.made(bench, "queries", "queries", &["-n", QUERIES])
    }

    /// What `kqps gen` is told of the names.
    fn names(self) -> Vec<String> {
        match self {
            Self::OneZone(thousands) => vec![format!("--origin={ORIGIN}"), format!("--records={thousands}k")],
            Self::ManyZones(thousands) => {
                vec!["--recipe=hosting".into(), format!("--set=zones={thousands}k")]
            }
        }
    }

    /// The file or folder of this name, generated where it is missing.
    fn made(self, bench: &Bench<'_>, name: &str, what: &str, more: &[&str]) -> Result<PathBuf> {
        let folder = bench.scratch.join(format!("{self:?}"));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join(name);
        if !path.exists() {
            let mut command = Command::new(&bench.kqps.program);
            command.args(["gen", what]).args(self.names()).args(more).arg("-o").arg(&path);
            shell::run(&mut command)?;
        }
        Ok(path)
    }
}

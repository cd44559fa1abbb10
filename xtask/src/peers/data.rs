//! Generated zones, and the queries for their names. Each is generated once, when it is first needed.

use std::path::{Path, PathBuf};
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

/// Its recipe. Names of one length leave the player in one segmented send: it is the servers that are to be
/// compared, and with few flows and names of all lengths it would be the player.
const ONE_ZONE: &str = r#"
origin = "bench.test."
names.label_bytes = 12
queries.outcomes = { NOERROR = 0.95, NXDOMAIN = 0.05 }
"#;

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
    fn names(self, folder: &Path) -> Result<Vec<String>> {
        match self {
            Self::OneZone(thousands) => {
                let path = folder.join("recipe.toml");
                let recipe = format!("records = {thousands}000\n{ONE_ZONE}");
                std::fs::write(&path, recipe).with_context(|| format!("cannot write {}", path.display()))?;
                Ok(vec![format!("--recipe={}", path.display())])
            }
            Self::ManyZones(thousands) => {
                Ok(vec!["--recipe=hosting".into(), format!("--set=zones={thousands}k")])
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
            command.args(["gen", what]).args(self.names(&folder)?).args(more).arg("-o").arg(&path);
            shell::run(&mut command)?;
        }
        Ok(path)
    }
}

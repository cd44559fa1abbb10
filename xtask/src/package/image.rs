//! The container image: the static program and nothing else, as an OCI archive. buildah makes it without an engine's
//! service, in folders of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use kqps_programs::shell;

use super::libraries::libraries;
use super::{Release, copy, licences, program, third_party, tools, version, write};
use crate::workspace;

/// The folder that the program starts in. It has the folder that kqps keeps runs in, if a current folder has it.
const WORK: &str = "work";

/// Makes the image and returns its path.
pub(super) fn make(release: &Release, asked: Option<&Path>) -> Result<PathBuf> {
    let built = program::fixed(asked)?;
    let parent = release.folder("image")?;
    let root = parent.join("root");
    prepare(&built, &root, asked)?;
    let out = release.out.join(format!("{}.oci.tar", release.static_name()));
    if out.exists() {
        fs::remove_file(&out).with_context(|| format!("cannot replace {}", out.display()))?;
    }
    let made = commit(release, &parent, &root, &out);
    // The layers of buildah are not needed any more, and are large.
    for folder in ["store", "run"] {
        let _ = fs::remove_dir_all(parent.join(folder));
    }
    made.map(|()| out)
}

/// Fills the root of the image.
fn prepare(built: &Path, root: &Path, asked: Option<&Path>) -> Result<()> {
    program::strip(built, &root.join("usr/bin/kqps"), asked)?;
    for file in ["LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&workspace::root().join(file), &root.join("usr/share/doc/kqps").join(file))?;
    }
    let crates = licences::crates(&tools::musl())?;
    let texts = third_party::texts(&crates, &libraries(&crates, true)?);
    write(&root.join("usr/share/doc/kqps/third-party.txt"), texts)?;
    fs::create_dir_all(root.join(WORK).join("kqps-runs"))?;
    fs::create_dir_all(root.join("tmp"))?;
    // The container may run as any user.
    for folder in ["tmp", WORK, "work/kqps-runs"] {
        fs::set_permissions(root.join(folder), fs::Permissions::from_mode(0o1777))?;
    }
    Ok(())
}

fn commit(release: &Release, parent: &Path, root: &Path, out: &Path) -> Result<()> {
    let buildah = || {
        let mut command = Command::new("buildah");
        command.args(["--storage-driver", "vfs", "--root"]).arg(parent.join("store"));
        command.arg("--runroot").arg(parent.join("run"));
        command
    };
    let container = shell::read(buildah().args(["from", "scratch"]))?.trim().to_owned();
    shell::run(buildah().args(["copy", "--quiet", "--chown", "0:0", &container]).arg(root).arg("/"))?;
    let mut config = buildah();
    config.args(["config", "--entrypoint", r#"["/usr/bin/kqps"]"#, "--cmd", ""]);
    config.args(["--workingdir", &format!("/{WORK}"), "--env", &format!("HOME=/{WORK}")]);
    for (name, value) in labels(&release.version) {
        config.args(["--label", &format!("org.opencontainers.image.{name}={value}")]);
    }
    shell::run(config.arg(&container))?;
    let mut commit = buildah();
    commit.args(["commit", "--quiet", "--rm", "--timestamp", &release.epoch_s.to_string(), &container]);
    let tag = version::as_tag(&release.version);
    shell::run(commit.arg(format!("oci-archive:{}:kqps:{tag}", out.display())))
}

/// The image's labels, by the annotations of the OCI.
fn labels(version: &str) -> [(&'static str, &str); 4] {
    [
        ("title", "kqps"),
        ("version", version),
        ("description", "Benchmarks DNS reliably on multi-core systems"),
        ("licenses", "Apache-2.0 OR MIT"),
    ]
}

//! The programs of Kubernetes, as one program that is built from the modules of one release. The first build takes
//! 10 minutes of CPU time and 4 GB, which are given back; the program of 134 MB stays in cargo's target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};
use kqps_programs::shell;
use serde::Deserialize;

/// The release. Its parts that are modules of their own have the same numbers behind `v0`.
pub(super) const VERSION: &str = "v1.36.3";

const KUBERNETES: &str = "k8s.io/kubernetes";

const MAIN: &str = include_str!("main.go");

/// The output of `go mod download -json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Downloaded {
    /// The path of the module's `go.mod`.
    go_mod: PathBuf,
}

/// The program that has all of them. Builds it unless that was done before.
pub(super) fn programs() -> Result<PathBuf> {
    let home = target().join("kubernetes");
    let source = blake3::hash(MAIN.as_bytes()).to_hex();
    let program = home.join(format!("cluster-{VERSION}-{}", &source[..16]));
    if program.is_file() {
        return Ok(program);
    }
    let go = shell::find("go").context("go is missing: it builds Kubernetes (Go 1.26 or newer)")?;
    let began = Instant::now();
    // A build that is interrupted goes on here.
    let caches = home.join("go");
    let module = caches.join("module");
    fs::create_dir_all(&module)?;
    eprintln!(
        "building Kubernetes {VERSION} from its Go modules: 10 minutes of CPU time, and 4 GB in {}",
        home.display()
    );
    let go = |words: &[&str]| {
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(&go).args(words).current_dir(&module);
        command.env("GOMODCACHE", caches.join("modules")).env("GOCACHE", caches.join("objects"));
        command.env("GOFLAGS", "-mod=mod -modcacherw").env("GOWORK", "off").env("CGO_ENABLED", "0");
        command
    };
    fs::write(module.join("main.go"), MAIN)?;
    let asked = format!("{KUBERNETES}@{VERSION}");
    let downloaded: Downloaded =
        serde_json::from_str(&shell::read(&mut go(&["mod", "download", "-json", &asked]))?)?;
    fs::write(module.join("go.mod"), module_file(&fs::read_to_string(&downloaded.go_mod)?))?;
    let made = caches.join("cluster");
    let mut build = go(&["build", "-p", "2", "-trimpath", "-ldflags", "-s -w", "-o"]);
    shell::run(build.arg(&made).arg(".")).context("Kubernetes cannot be built")?;
    fs::rename(&made, &program)?;
    fs::remove_dir_all(&caches).context("the caches of Go cannot be removed")?;
    eprintln!("built in {:.0} s", began.elapsed().as_secs_f64());
    Ok(program)
}

/// Cargo's target folder.
fn target() -> PathBuf {
    let of_workspace = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(of_workspace, PathBuf::from)
}

/// A module that needs Kubernetes alone. Kubernetes takes its parts from its own tree, which nobody who imports it can:
/// each is replaced by the module of the same release.
fn module_file(of_kubernetes: &str) -> String {
    let staged = VERSION.replacen("v1", "v0", 1);
    let mut lines: Vec<&str> = of_kubernetes.lines().map(str::trim).collect();
    lines.sort_unstable();
    let go = lines.iter().find(|line| line.starts_with("go 1.")).copied().unwrap_or("go 1.26.0");
    let parts = lines.iter().filter_map(|line| line.strip_suffix(" v0.0.0"));
    let replaced: Vec<String> = parts.map(|part| format!("replace {part} => {part} {staged}\n")).collect();
    format!("module kqps.invalid/cluster\n\n{go}\n\nrequire {KUBERNETES} {VERSION}\n\n{}", replaced.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_kubernetes_are_replaced_by_those_of_the_release() {
        let text = "module k8s.io/kubernetes\n\ngo 1.26.0\n\nrequire (\n\tgithub.com/a/b v1.2.0\n\tk8s.io/api v0.0.0\n)\n\n\
                    replace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n";
        assert_eq!(
            module_file(text),
            "module kqps.invalid/cluster\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v1.36.3\n\n\
             replace k8s.io/api => k8s.io/api v0.36.3\n"
        );
    }
}

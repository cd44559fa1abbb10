//! Debian's kernel for the guest, taken out of its package. Nothing of it is installed on this host.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use kqps_programs::shell;

/// The package that depends on the newest kernel.
const NEWEST: &str = "linux-image-amd64";

/// A kernel, and the modules that a guest needs.
pub(super) struct Kernel {
    /// Its version, as `uname -r` prints it.
    pub(super) version: String,
    /// The kernel itself.
    pub(super) file: PathBuf,
    /// The files of the modules, in the order in which they can be loaded.
    pub(super) modules: Vec<PathBuf>,
}

/// Downloads the newest kernel's package, and unpacks it into a folder below `folder`. Drivers that are built into the
/// kernel need no module.
pub(super) fn unpack(folder: &Path, drivers: &[&str]) -> Result<Kernel> {
    let root = folder.join("kernel");
    fs::create_dir(&root)?;
    let package = newest().or_else(|_| {
        shell::run(Command::new("apt-get").args(["--quiet", "--quiet", "update"]))?;
        newest()
    })?;
    eprintln!("taking the kernel out of {package}");
    let mut download = Command::new("apt-get");
    shell::read(download.args(["--quiet", "download", &package]).current_dir(&root))?;
    let file = the_only(&root, |name| Path::new(name).extension().is_some_and(|end| end == "deb"))?;
    shell::read(Command::new("dpkg-deb").arg("--extract").args([&file, &root]))?;
    fs::remove_file(file)?;
    let file = the_only(&root.join("boot"), |name| name.starts_with("vmlinuz-"))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let version = name.trim_start_matches("vmlinuz-").to_owned();
    if !root.join("lib").exists() {
        std::os::unix::fs::symlink("usr/lib", root.join("lib"))?;
    }
    shell::read(Command::new("depmod").arg("--basedir").arg(&root).arg(&version))?;
    let home = root.join("lib/modules").join(&version);
    let listed = |name: &str| {
        fs::read_to_string(home.join(name)).with_context(|| format!("the kernel {version} has no {name}"))
    };
    let modules = in_order(&listed("modules.dep")?, &listed("modules.builtin")?, drivers)?;
    Ok(Kernel { version, file, modules: modules.into_iter().map(|file| home.join(file)).collect() })
}

/// The package of the newest kernel.
fn newest() -> Result<String> {
    let shown = shell::read(Command::new("apt-cache").args(["show", "--no-all-versions", NEWEST]))?;
    named(&shown).with_context(|| format!("the package {NEWEST} depends on no kernel"))
}

/// The kernel among the packages on which a package depends, by what apt-cache(8) shows.
fn named(shown: &str) -> Option<String> {
    let mut depends = shown.lines().filter_map(|line| line.strip_prefix("Depends: "));
    let mut names = depends.next()?.split(',').filter_map(|one| one.split_whitespace().next());
    names.find(|name| name.starts_with("linux-image-")).map(str::to_owned)
}

/// The only entry of a folder whose name is wanted.
fn the_only(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<PathBuf> {
    let entries = fs::read_dir(folder).with_context(|| format!("{} cannot be read", folder.display()))?;
    let wanted = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(&is_wanted));
    let mut wanted: Vec<PathBuf> = wanted.map(|entry| entry.path()).collect();
    ensure!(wanted.len() == 1, "{} has {} such files, not one", folder.display(), wanted.len());
    Ok(wanted.remove(0))
}

/// The files of the wanted modules and of those that they need, in the order in which they can be loaded. `needs` is
/// modules.dep(5), and `built_in` lists what is in the kernel itself.
fn in_order(needs: &str, built_in: &str, wanted: &[&str]) -> Result<Vec<String>> {
    let lines = needs.lines().filter_map(|line| line.split_once(':'));
    let needs: BTreeMap<String, (&str, Vec<&str>)> =
        lines.map(|(file, needed)| (module(file), (file, needed.split_whitespace().collect()))).collect();
    let mut files: Vec<String> = Vec::new();
    for name in wanted {
        let Some((file, needed)) = needs.get(*name) else {
            if built_in.lines().any(|file| module(file) == *name) {
                continue;
            }
            bail!("the kernel has no driver {name}");
        };
        // The last of them needs none of the others.
        for file in needed.iter().rev().chain([file]) {
            if !files.iter().any(|known| known == file) {
                files.push((*file).to_owned());
            }
        }
    }
    Ok(files)
}

/// The name of a module, by its file: `kernel/net/core/failover.ko.xz` is `failover`.
fn module(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split(".ko").next().unwrap_or(name).replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_kernel_is_among_what_its_package_depends_on() {
        let shown = "Package: linux-image-amd64\nVersion: 6.1.192-2\n\
                     Depends: base (>= 2), linux-image-6.1.0-56-amd64 (= 6.1.192-2)\n";
        assert_eq!(named(shown).as_deref(), Some("linux-image-6.1.0-56-amd64"));
        assert_eq!(named("Package: linux-image-amd64\n"), None);
    }

    #[test]
    fn modules_are_loaded_after_those_that_they_need() {
        let needs = "kernel/drivers/net/virtio_net.ko: kernel/drivers/net/net_failover.ko kernel/net/core/failover.ko\n\
                     kernel/drivers/net/net_failover.ko: kernel/net/core/failover.ko\n\
                     kernel/drivers/net/ethernet/e1000e.ko.xz:\nkernel/net/core/failover.ko:\n";
        let built_in = "kernel/drivers/virtio/virtio-pci.ko\n";
        let order = in_order(needs, built_in, &["virtio_pci", "virtio_net", "e1000e", "failover"]).unwrap();
        let names: Vec<String> = order.iter().map(|file| module(file)).collect();
        assert_eq!(names, ["failover", "net_failover", "virtio_net", "e1000e"]);
        let error = in_order(needs, built_in, &["vmxnet3"]).unwrap_err().to_string();
        assert_eq!(error, "the kernel has no driver vmxnet3");
    }
}

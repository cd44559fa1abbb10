//! The program that is packaged: built with optimisation, and without symbols.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use kqps_programs::shell;

use super::tools::{gnu, musl};
use super::version;
use crate::workspace::{self, cargo};

/// The program against the system's C library.
pub(super) fn dynamic(asked: Option<&Path>) -> Result<PathBuf> {
    match asked {
        Some(program) => Ok(program.to_owned()),
        None => built_for(&gnu(), None, ""),
    }
}

/// The static program. An error if the given one is not static.
pub(super) fn fixed(asked: Option<&Path>) -> Result<PathBuf> {
    let program = if let Some(program) = asked {
        program.to_owned()
    } else {
        let headers = format!("-idirafter {}", kernel_headers()?.display());
        built_for(&musl(), Some("musl-gcc"), &headers)?
    };
    ensure!(is_static(&program)?, "{} is not a static program", program.display());
    Ok(program)
}

/// A folder with the headers of the kernel alone, which musl does not have. The folders that they lie in have those of the
/// system's C library, too.
fn kernel_headers() -> Result<PathBuf> {
    let folder = workspace::metadata()?.target_directory.join("package-tools/kernel-headers");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let include = Path::new("/usr/include");
    // Debian has those of a processor in a folder of its own (multiarch).
    let of_processor = include.join(format!("{}-linux-gnu", std::env::consts::ARCH));
    for name in ["linux", "asm-generic", "asm"] {
        let places = [include.join(name), of_processor.join(name)];
        let place = places.iter().find(|place| place.is_dir());
        let place = place.with_context(|| format!("there are no headers {}", places[0].display()))?;
        let link = folder.join(name);
        if fs::read_link(&link).ok().as_deref() != Some(place) {
            // A first build has none.
            let _ = fs::remove_file(&link);
            symlink(place, &link).with_context(|| format!("cannot make {}", link.display()))?;
        }
    }
    Ok(folder)
}

/// Builds the program for a target, its C code by a compiler of its own and with more flags. The folder of a target keeps
/// the build apart from those that have the paths of this machine in them.
fn built_for(target: &str, compiler: Option<&str>, c_flags: &str) -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--release", "--locked", "--package", "kqps", "--target", target]);
    build.env("KQPS_VERSION", version::now()?);
    // The variables would take the place of all flags of configuration files.
    build.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let places = Places::of_this_machine();
    build.arg("--config").arg(format!("build.rustflags={:?}", places.flags("--remap-path-prefix")));
    let underscored = target.replace('-', "_");
    let c_flags = format!("{c_flags} {}", places.flags("-ffile-prefix-map").join(" "));
    build.env(format!("CFLAGS_{underscored}"), c_flags.trim());
    if let Some(compiler) = compiler {
        build.env(format!("CC_{underscored}"), compiler);
    }
    shell::run(&mut build).with_context(|| format!("kqps could not be built for {target}"))?;
    let built = workspace::metadata()?.target_directory.join(target).join("release/kqps");
    Ok(built)
}

/// The places on this machine that the compiler would write into the program: names of users and of servers are in them,
/// and the same source would give other bytes on another machine.
struct Places {
    /// The folder of cargo's downloads.
    cargo_home: PathBuf,
    /// The folders below it that have the crates' sources, each of them named after a server.
    sources: Vec<PathBuf>,
}

impl Places {
    fn of_this_machine() -> Self {
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo");
        Self::below(std::env::var_os("CARGO_HOME").map_or_else(home, PathBuf::from))
    }

    fn below(cargo_home: PathBuf) -> Self {
        // A machine that has all sources in the repository has no such folder.
        let entries = fs::read_dir(cargo_home.join("registry/src")).into_iter().flatten();
        let mut sources: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        sources.sort();
        Self { cargo_home, sources }
    }

    /// A compiler's flags of this name that give these places other names. If several match, the compiler uses the last.
    fn flags(&self, name: &str) -> Vec<String> {
        let flag = |from: &Path, to: &str| format!("{name}={}={to}", from.display());
        let first = [flag(workspace::root(), "/kqps"), flag(&self.cargo_home, "/cargo")];
        first.into_iter().chain(self.sources.iter().map(|source| flag(source, "/crates"))).collect()
    }

    /// A place that stands in a program's bytes.
    fn in_program(&self, program: &[u8]) -> Option<String> {
        let servers = self.sources.iter().filter_map(|source| source.file_name());
        let home = self.cargo_home.as_os_str();
        let root = workspace::root().as_os_str();
        let mut places = servers.chain([home, root]).filter(|place| !place.is_empty());
        let place = places.find(|place| contains(program, place.as_bytes()))?;
        Some(place.to_string_lossy().into_owned())
    }
}

/// Whether the bytes have this part, which is not empty.
fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Copies a program without its symbols, which are most of its size. An error if a path of this machine is in it, unless the
/// user `asked` for this program.
pub(super) fn strip(program: &Path, to: &Path, asked: Option<&Path>) -> Result<()> {
    super::copy(program, to)?;
    shell::run(Command::new("strip").args(["--strip-all", "--remove-section=.comment"]).arg(to))?;
    if let Some(place) = Places::of_this_machine().in_program(&fs::read(to)?) {
        let found = format!("{} has the path {place} of this machine in it", program.display());
        ensure!(asked.is_some(), found);
        eprintln!("warning: {found}");
    }
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(0o755))?)
}

/// Whether a program names no interpreter, which loads libraries (`PT_INTERP`, elf(5)).
fn is_static(program: &Path) -> Result<bool> {
    let headers = shell::read(Command::new("readelf").args(["--program-headers", "--wide"]).arg(program))?;
    ensure!(headers.contains("LOAD"), "{} is no program", program.display());
    Ok(!headers.contains("INTERP"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_no_static_programs() {
        assert!(!is_static(&std::env::current_exe().unwrap()).unwrap());
        assert!(is_static(Path::new("/etc/passwd")).is_err());
    }

    #[test]
    fn the_headers_of_the_kernel_come_without_those_of_a_c_library() {
        let folder = kernel_headers().unwrap();
        for header in ["linux/random.h", "asm/types.h", "asm-generic/types.h"] {
            assert!(folder.join(header).is_file(), "{header}");
        }
        assert!(!folder.join("stdio.h").exists());
    }

    #[test]
    fn no_place_of_the_builder_is_in_the_program() {
        let home = tempfile::tempdir().unwrap();
        let source = home.path().join("registry/src/index.example-0a");
        fs::create_dir_all(&source).unwrap();
        let places = Places::below(home.path().to_owned());
        let flags = places.flags("--remap-path-prefix");
        let root = workspace::root().display();
        assert_eq!(flags[0], format!("--remap-path-prefix={root}=/kqps"));
        // The compiler takes the last that fits, so the longest comes last.
        assert_eq!(flags[2], format!("--remap-path-prefix={}=/crates", source.display()));
        assert_eq!(places.in_program(b"/crates/serde-1.0.0/src/lib.rs"), None);
        let named = format!("0{}/git/x.rs", home.path().display());
        assert_eq!(places.in_program(named.as_bytes()), Some(home.path().display().to_string()));
        assert_eq!(places.in_program(b"a/index.example-0a/b").as_deref(), Some("index.example-0a"));
    }
}

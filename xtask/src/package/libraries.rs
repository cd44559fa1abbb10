//! Libraries in the program beside crates: Rust's standard library, `SQLite`, and in a static program musl and LLVM's
//! libunwind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use kqps_programs::shell;

use super::licences::Crate;
use super::tools::musl;
use crate::workspace;

/// A library in the program that is no crate.
#[derive(Debug)]
pub(super) struct Library {
    pub(super) name: &'static str,
    pub(super) version: String,
    /// Its licence, as an SPDX expression.
    pub(super) license: &'static str,
    /// Who has the copyright.
    pub(super) holders: &'static [&'static str],
    /// The texts of its licences, with all notices.
    pub(super) text: String,
}

/// The page of the Rust toolchain about the licences of the standard library.
const PAGE: &str = "COPYRIGHT-library.html";

/// The licences of what Linux programs have of the standard library: its own, Unicode's data, and foldhash.
const STD_LICENSE: &str = "(Apache-2.0 OR MIT) AND Unicode-3.0 AND Zlib";

/// The crate that brings the source of `SQLite`.
const SQLITE_CRATE: &str = "libsqlite3-sys";

/// All libraries in a program of these crates.
pub(super) fn libraries(crates: &[Crate], is_static: bool) -> Result<Vec<Library>> {
    let toolchain = Toolchain::read()?;
    let mut found = vec![toolchain.std()?];
    // A program without the crate has no database.
    if let Some(one) = crates.iter().find(|one| one.name == SQLITE_CRATE) {
        found.push(sqlite(&one.folder.join("sqlite3/sqlite3.h"))?);
    }
    if is_static {
        found.extend([toolchain.musl()?, toolchain.unwind()?]);
    }
    Ok(found)
}

/// The text of a licence, or of an exception to one, that comes with the Rust toolchain.
pub(super) fn of_toolchain(name: &str) -> Result<String> {
    Toolchain::read()?.licence(name)
}

fn read(path: &Path, from: &str) -> Result<String> {
    let bytes = fs::read(path)
        .with_context(|| format!("the program must come with {}, which is in {from}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The Rust toolchain that builds the program.
struct Toolchain {
    sysroot: PathBuf,
    /// The version of Rust.
    release: String,
    /// The version of LLVM, whose source has libunwind.
    llvm: String,
}

impl Toolchain {
    fn read() -> Result<Self> {
        let rustc =
            |words: &[&str]| shell::read(Command::new("rustc").current_dir(workspace::root()).args(words));
        let text = rustc(&["--version", "--verbose"])?;
        let of = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value.map(str::to_owned).with_context(|| format!("rustc --version --verbose has no line {name}"))
        };
        let sysroot = rustc(&["--print", "sysroot"])?.trim().into();
        Ok(Self { sysroot, release: of("release")?, llvm: of("LLVM version")? })
    }

    fn documents(&self, name: &str) -> Result<String> {
        read(&self.sysroot.join("share/doc/rust").join(name), "the Rust toolchain")
    }

    fn licence(&self, name: &str) -> Result<String> {
        self.documents(&format!("licenses/{name}.txt"))
    }

    /// Rust's standard library. Its page has the texts of all its crates, and not that of Unicode's data.
    fn std(&self) -> Result<Library> {
        let text = without_markup(&self.documents(PAGE)?);
        ensure!(!text.contains("&#"), "{PAGE} of the Rust toolchain has signs that cannot be read");
        Ok(Library {
            name: "rust-std",
            version: self.release.clone(),
            license: STD_LICENSE,
            holders: &[
                "The Rust Project Developers",
                "2014 Alex Crichton",
                "2019 The Crossbeam Project Developers",
                "1991-2024 Unicode, Inc.",
                "2024 Orson Peters",
            ],
            text: format!("{text}\n\n{}", self.licence("Unicode-3.0")?),
        })
    }

    /// The C library that comes with Rust's target. Debian's package has the text of its licence.
    fn musl(&self) -> Result<Library> {
        let library = self.sysroot.join("lib/rustlib").join(musl()).join("lib/self-contained/libc.a");
        let bytes = fs::read(&library).with_context(|| format!("cannot read {}", library.display()))?;
        Ok(Library {
            name: "musl",
            version: version_in(&bytes).context("musl's library does not name its version")?,
            license: "MIT",
            holders: &["Rich Felker and others"],
            text: read(Path::new("/usr/share/doc/musl/copyright"), "the Debian package musl")?,
        })
    }

    fn unwind(&self) -> Result<Library> {
        let texts = ["Apache-2.0", "LLVM-exception", "NCSA"].map(|name| self.licence(name));
        Ok(Library {
            name: "libunwind",
            version: self.llvm.clone(),
            license: "Apache-2.0 WITH LLVM-exception AND NCSA",
            holders: &["2003-2019 University of Illinois at Urbana-Champaign", "the contributors of LLVM"],
            text: texts.into_iter().collect::<Result<Vec<_>>>()?.join("\n\n"),
        })
    }
}

/// The first text between zero bytes that is three numbers with dots between them: `__libc_version` of musl.
fn version_in(bytes: &[u8]) -> Option<String> {
    let is_version = |part: &&[u8]| {
        let numbers: Vec<&[u8]> = part.split(|byte| *byte == b'.').collect();
        let is_number =
            |number: &&[u8]| (1..4).contains(&number.len()) && number.iter().all(u8::is_ascii_digit);
        numbers.len() == 3 && numbers.iter().all(is_number)
    };
    let part = bytes.split(|byte| *byte == 0).find(is_version)?;
    Some(String::from_utf8_lossy(part).into_owned())
}

/// `SQLite`, by the first lines of its header, and the line with its version.
fn sqlite(header: &Path) -> Result<Library> {
    let text = read(header, "the crate with SQLite")?;
    let version = text.lines().find_map(|line| line.strip_prefix("#define SQLITE_VERSION "));
    let version = version.context("the header of SQLite has no version")?.trim().trim_matches('"');
    let lines = text.lines().skip_while(|line| !line.contains("The author disclaims"));
    let blessing: Vec<&str> = lines
        .take_while(|line| !line.starts_with("***"))
        .map(|line| line.trim_start_matches('*').trim_start())
        .collect();
    ensure!(!blessing.is_empty(), "the header of SQLite does not give it away");
    Ok(Library {
        name: "sqlite",
        version: version.to_owned(),
        license: "blessing",
        holders: &["None: the authors of SQLite disclaim it"],
        text: blessing.join("\n"),
    })
}

/// The text of a page, with no more than one empty line at a time.
fn without_markup(page: &str) -> String {
    let mut text = String::new();
    for part in page.split('<') {
        text.push_str(part.split_once('>').map_or(part, |(_, after)| after));
    }
    let text = decoded(&text);
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.dedup_by(|one, before| one.is_empty() && before.is_empty());
    lines.join("\n")
}

/// A text whose signs may be named or numbered (HTML, section "Character references"). Others than these names stay.
fn decoded(text: &str) -> String {
    let mut parts = text.split('&');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        if let Some((sign, rest)) = part.split_once(';').and_then(|(name, rest)| Some((sign(name)?, rest))) {
            whole.push(sign);
            whole.push_str(rest);
        } else {
            whole.push('&');
            whole.push_str(part);
        }
    }
    whole
}

/// The sign of a name such as `amp`, `#60` or `#x3c`.
fn sign(name: &str) -> Option<char> {
    match name {
        "lt" => return Some('<'),
        "gt" => return Some('>'),
        "quot" => return Some('"'),
        "amp" => return Some('&'),
        _ => {}
    }
    let number = name.strip_prefix('#')?;
    let hexadecimal = number.strip_prefix(['x', 'X']).map(|digits| u32::from_str_radix(digits, 16));
    char::from_u32(hexadecimal.unwrap_or_else(|| number.parse()).ok()?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::licences;
    use super::super::tools::gnu;
    use super::*;

    #[test]
    fn a_page_becomes_text() {
        let page = "<html>\n<h1>Name</h1>\n\n\n<pre>&lt;us&gt; &amp; you</pre>\n</html>";
        assert_eq!(without_markup(page), "\nName\n\n<us> & you");
        assert_eq!(decoded("&#60;a&#x3E; &#38;lt; & &none; &#34"), "<a> &lt; & &none; &#34");
    }

    /// Licences on the page of files that no Linux program has, or beside another one that suffices.
    const OTHERS: [(&str, &str); 4] = [
        ("BSD-2-Clause", "a lock of Fuchsia"),
        ("LGPL-2.1-or-later", "a third choice, of crates for UEFI"),
        ("LLVM-exception", "a third choice, of crates for WASI"),
        ("MPL-2.0", "fortanix-sgx-abi, for SGX"),
    ];

    #[test]
    fn the_licences_of_the_standard_library_are_those_of_its_page() {
        let words = |text: &str| -> Vec<String> {
            let words = text.split(|letter: char| letter.is_whitespace() || "()/".contains(letter));
            words.filter(|word| !["", "OR", "AND", "WITH"].contains(word)).map(str::to_owned).collect()
        };
        let page = Toolchain::read().unwrap().documents(PAGE).unwrap();
        let text = without_markup(&page);
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix("License: "));
        let found: BTreeSet<String> = lines.flat_map(words).collect();
        assert!(found.contains("Apache-2.0"), "{found:?}");
        let named = words(STD_LICENSE).into_iter().chain(OTHERS.map(|(name, _)| name.to_owned())).collect();
        let unnamed: Vec<&String> = found.difference(&named).collect();
        assert!(unnamed.is_empty(), "name these in STD_LICENSE or OTHERS: {unnamed:?}");
    }

    #[test]
    fn a_version_stands_between_zero_bytes() {
        assert_eq!(version_in(b"\x007\x001.2.5\x009").as_deref(), Some("1.2.5"));
        assert_eq!(version_in(b"a1.2.5\x001.2\x00..\x0020261127.1.1\x00"), None);
    }

    #[test]
    fn the_program_has_the_standard_library_and_a_database() {
        let crates = licences::crates(&gnu()).unwrap();
        let found = libraries(&crates, false).unwrap();
        let names: Vec<&str> = found.iter().map(|one| one.name).collect();
        assert_eq!(names, ["rust-std", "sqlite"]);
        assert!(found[1].text.contains("blessing") && found[1].version.starts_with("3."), "{:?}", found[1]);
        assert!(found[0].text.contains("Permission is hereby granted"));
    }
}

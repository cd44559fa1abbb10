//! The user's files that a controller pushes, piece by piece. A whole file is kept under its hash for later agents.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kqps_files::whole;

use super::hashes;

/// Files of the user's.
#[derive(Debug)]
pub(super) struct PushedFiles {
    /// The folder of files that are not whole.
    parts: PathBuf,
    /// The folder of whole files.
    kept: PathBuf,
    /// Name → the path of the whole file.
    whole: BTreeMap<String, PathBuf>,
}

/// How much of a file is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) bytes: u64,
    pub(super) is_whole: bool,
}

impl PushedFiles {
    /// No file yet. Both folders are on one file system.
    pub(super) fn new(parts: PathBuf, kept: PathBuf) -> Self {
        Self { parts, kept, whole: BTreeMap::new() }
    }

    /// The path of a whole file.
    pub(super) fn path(&self, name: &str) -> Result<&Path, String> {
        let path = self.whole.get(name).map(PathBuf::as_path);
        path.ok_or_else(|| format!("the file `{name}` was not sent, or is not whole"))
    }

    /// Looks for a file with this hash among those that were kept.
    pub(super) fn have(&mut self, name: &str, whole: &str) -> Result<Stored, String> {
        check_name(name)?;
        check_hash(whole)?;
        let path = self.kept.join(whole);
        match hashes::of_file(&path) {
            Ok(hash) if hash == whole => self.finish(name, path),
            // A file that changed since is sent again.
            Ok(_) => Ok(Stored { bytes: 0, is_whole: false }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Stored { bytes: 0, is_whole: false }),
            Err(error) => Err(format!("cannot read {}: {error}", path.display())),
        }
    }

    /// Appends a piece, and checks the file with the last one.
    pub(super) fn put(
        &mut self,
        name: &str,
        offset: u64,
        data_base64: &str,
        whole: Option<&str>,
    ) -> Result<Stored, String> {
        check_name(name)?;
        whole.map_or(Ok(()), check_hash)?;
        let data = BASE64
            .decode(data_base64)
            .map_err(|error| format!("a piece of the file `{name}` is no base64: {error}"))?;
        let part = self.parts.join(name);
        let appended = self.append(name, &part, offset, &data).and_then(|bytes| match whole {
            None => Ok(Stored { bytes, is_whole: false }),
            Some(hash) => self.keep(name, &part, hash),
        });
        if appended.is_err() {
            // A full disk stays full otherwise.
            let _ = fs::remove_file(&part);
        }
        appended
    }

    /// Appends a piece and returns the length of the file.
    fn append(&self, name: &str, part: &Path, offset: u64, data: &[u8]) -> Result<u64, String> {
        let failed = |error: io::Error| format!("cannot write {}: {error}", part.display());
        fs::create_dir_all(&self.parts).map_err(failed)?;
        let mut file = if offset == 0 {
            File::create(part).map_err(failed)?
        } else {
            File::options().append(true).open(part).map_err(failed)?
        };
        let bytes = file.metadata().map_err(failed)?.len();
        if bytes != offset {
            return Err(format!(
                "a piece of the file `{name}` begins at byte {offset}, and {bytes} bytes are here"
            ));
        }
        file.write_all(data).map_err(failed)?;
        Ok(bytes + data.len() as u64)
    }

    /// Keeps a file if it has this hash.
    fn keep(&mut self, name: &str, part: &Path, hash: &str) -> Result<Stored, String> {
        let read =
            hashes::of_file(part).map_err(|error| format!("cannot read {}: {error}", part.display()))?;
        if read != hash {
            return Err(format!(
                "the file `{name}` did not arrive as it was sent: its BLAKE3 is {read}, not {hash}"
            ));
        }
        let kept = self.kept.join(hash);
        let moved = fs::create_dir_all(&self.kept).and_then(|()| whole::rename(part, &kept));
        moved.map_err(|error| format!("cannot write {}: {error}", kept.display()))?;
        self.finish(name, kept)
    }

    fn finish(&mut self, name: &str, path: PathBuf) -> Result<Stored, String> {
        let found = path.metadata().map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        self.whole.insert(name.to_owned(), path);
        Ok(Stored { bytes: found.len(), is_whole: true })
    }
}

/// Refuses a name that could lead out of its folder.
fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !name.is_empty() && name.len() <= 255 && !name.starts_with('.') && name.bytes().all(is_plain) {
        return Ok(());
    }
    Err(format!("`{name}` is no name of a file here: expected letters, digits, `-`, `_` and `.`"))
}

fn check_hash(hash: &str) -> Result<(), String> {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if hash.len() == 64 && hash.bytes().all(is_hex) {
        return Ok(());
    }
    Err(format!("`{hash}` is no BLAKE3: expected 64 digits in lower-case hex"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(content: &[u8]) -> String {
        blake3::hash(content).to_hex().to_string()
    }

    fn files(folder: &Path) -> PushedFiles {
        PushedFiles::new(folder.join("agent/parts"), folder.join("files"))
    }

    #[test]
    fn pieces_become_one_file_that_the_next_agent_has() {
        let folder = tempfile::tempdir().unwrap();
        let whole = hash(b"a.test A\nb.test A\n");
        let mut first = files(folder.path());
        assert_eq!(first.have("queries", &whole), Ok(Stored { bytes: 0, is_whole: false }));
        let begun = first.put("queries", 0, &BASE64.encode("a.test A\n"), None);
        assert_eq!(begun, Ok(Stored { bytes: 9, is_whole: false }));
        assert!(first.path("queries").unwrap_err().contains("`queries`"));
        let ended = first.put("queries", 9, &BASE64.encode("b.test A\n"), Some(&whole));
        assert_eq!(ended, Ok(Stored { bytes: 18, is_whole: true }));
        assert_eq!(fs::read(first.path("queries").unwrap()).unwrap(), b"a.test A\nb.test A\n");
        let mut next = files(folder.path());
        assert_eq!(next.have("queries", &whole), Ok(Stored { bytes: 18, is_whole: true }));
        // A file that somebody changed is not taken for the user's.
        fs::write(next.path("queries").unwrap(), "c.test A\n").unwrap();
        assert_eq!(files(folder.path()).have("queries", &whole), Ok(Stored { bytes: 0, is_whole: false }));
    }

    #[test]
    fn a_file_of_one_piece_or_of_no_bytes_is_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = files(folder.path());
        let one = files.put("one", 0, &BASE64.encode("x"), Some(&hash(b"x")));
        assert_eq!(one, Ok(Stored { bytes: 1, is_whole: true }));
        assert_eq!(files.put("none", 0, "", Some(&hash(b""))), Ok(Stored { bytes: 0, is_whole: true }));
    }

    #[test]
    fn what_did_not_arrive_as_it_was_sent_is_refused_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = files(folder.path());
        let error = files.put("queries", 0, &BASE64.encode("x"), Some(&hash(b"y"))).unwrap_err();
        assert!(error.contains("did not arrive as it was sent"), "{error}");
        files.put("queries", 0, &BASE64.encode("x"), None).unwrap();
        let error = files.put("queries", 7, &BASE64.encode("y"), None).unwrap_err();
        assert!(error.contains("begins at byte 7, and 1 bytes are here"), "{error}");
        assert!(files.put("queries", 1, "?", None).unwrap_err().contains("no base64"));
        assert!(!folder.path().join("agent/parts/queries").exists() && files.path("queries").is_err());
    }

    #[test]
    fn names_and_hashes_stay_in_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = files(folder.path());
        for name in ["", ".", "..", "../x", "a/b", "/etc/passwd", ".hidden", "a b", "a\n"] {
            assert!(files.put(name, 0, "", None).unwrap_err().contains("no name of a file"), "{name}");
        }
        for whole in ["", "../../x", &"A".repeat(64), &"0".repeat(63)] {
            assert!(files.have("a", whole).unwrap_err().contains("no BLAKE3"), "{whole}");
        }
    }
}

//! Opens a dataset: its encoded form comes from the cache, or is made.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use kqps_files::unfinished::Unfinished;
use kqps_files::whole;
use tempfile::NamedTempFile;

use crate::cache;
use crate::compile;
use crate::dataset::Dataset;
use crate::encoded::Header;
use crate::error::DatasetError;
use crate::failure::CompileError;
use crate::mapped::Mapped;
use crate::options::Options;

/// Times of files are as exact as the kernel's clock, a few milliseconds, and on some file systems 2 s.
const SETTLED_AFTER: Duration = Duration::from_secs(3);

impl Dataset {
    /// Opens a query file or a capture. Hashes it and maps its encoded form, after encoding it if that form is not in
    /// the cache. A source that is not a regular file, such as a pipe, is read once.
    pub fn open(path: &Path, options: &Options) -> Result<Self, DatasetError> {
        let source = File::open(path).map_err(|error| DatasetError::io("open", path, error))?;
        Self::read(source, path, options)
    }

    /// Reads an open file, pipe or socket from its current position, as [`Self::open`] does. `path` is its name in
    /// messages.
    pub fn read(mut source: File, path: &Path, options: &Options) -> Result<Self, DatasetError> {
        let facts = source.metadata().map_err(|error| DatasetError::io("read", path, error))?;
        if facts.is_dir() {
            return Err(DatasetError::Directory { path: path.to_owned() });
        }
        let directory = options.cache_dir.clone().or_else(cache::directory);
        let mut known = None;
        if facts.is_file()
            && let Some(directory) = &directory
        {
            let hash = hash(&mut source).map_err(|error| DatasetError::io("read", path, error))?;
            let kept = directory.join(cache::file_name(&hash, &options.shape()));
            if let Some(mapped) = Mapped::kept(&kept, &hash) {
                cache::touch(&kept);
                return Ok(Self::from_mapped(path, mapped, None));
            }
            known = KnownHash::new(hash, &facts);
        }
        let (mapped, note) = build(path, options, &source, directory.as_deref(), known)?;
        Ok(Self::from_mapped(path, mapped, note))
    }
}

/// Encodes a source into the cache directory. If that cannot be written, encodes it into a temporary file and adds a
/// note with the reason.
fn build(
    path: &Path,
    options: &Options,
    mut source: &File,
    directory: Option<&Path>,
    known: Option<KnownHash>,
) -> Result<(Mapped, Option<String>), DatasetError> {
    let begin = source.stream_position().ok();
    let why = match directory.map(|directory| (directory, cache::begin(directory))) {
        None => "neither XDG_CACHE_HOME nor HOME is set".to_owned(),
        Some((directory, Err(error))) => format!("cannot write {}: {error}", directory.display()),
        Some((directory, Ok((out, _unfinished)))) => match keep(path, options, source, directory, out, known)
        {
            Ok(mapped) => return Ok((mapped, None)),
            Err(CompileError::Source(error)) => return Err(error),
            Err(CompileError::Output(error))
                if begin.is_some_and(|at| source.seek(SeekFrom::Start(at)).is_ok()) =>
            {
                format!("cannot write {}: {error}", directory.display())
            }
            Err(CompileError::Output(error)) => return Err(DatasetError::io("write", directory, error)),
        },
    };
    let directory = std::env::temp_dir();
    let unwritable = |error| DatasetError::io("write", &directory, error);
    let (mut out, _unfinished) =
        Unfinished::made(|| NamedTempFile::new_in(&directory)).map_err(unwritable)?;
    let header = encode(path, options, source, &mut out, known).map_err(|error| match error {
        CompileError::Source(error) => error,
        CompileError::Output(error) => unwritable(error),
    })?;
    let mapped = Mapped::written(out.path(), header).map_err(unwritable)?;
    Ok((mapped, Some(format!("the encoded dataset is not kept for the next time: {why}"))))
}

/// Encodes a source to `out`, a file in `directory`, maps it, and gives it its name there.
fn keep(
    path: &Path,
    options: &Options,
    source: &File,
    directory: &Path,
    mut out: NamedTempFile,
    known: Option<KnownHash>,
) -> Result<Mapped, CompileError> {
    let header = encode(path, options, source, &mut out, known)?;
    // Named by the hash of what was encoded, in case the source has changed since the first hash.
    let kept = directory.join(cache::file_name(&header.source_hash, &options.shape()));
    // Mapped under its first name, since under its last one another process may already remove it.
    let mapped = Mapped::written(out.path(), header).map_err(CompileError::Output)?;
    whole::persist(out, &kept).map_err(CompileError::Output)?;
    cache::tidy(directory, &kept);
    Ok(mapped)
}

/// Encodes what is left of a source to `out`. The reader of a capture keeps a handle to the source of its own, which
/// shares the position. A hash that is known is not computed again, unless the source changes meanwhile.
fn encode(
    path: &Path,
    options: &Options,
    source: &File,
    out: &mut NamedTempFile,
    known: Option<KnownHash>,
) -> Result<Header, CompileError> {
    let unreadable = |error| CompileError::unreadable(path, error);
    let handle = || source.try_clone().map_err(unreadable);
    let Some(known) = known else {
        return compile::encode(handle()?, path, options, out.as_file_mut(), None);
    };
    let mut stream = source;
    let begin = stream.stream_position().map_err(unreadable)?;
    let header = compile::encode(handle()?, path, options, out.as_file_mut(), Some(known.hash))?;
    if source.metadata().is_ok_and(|facts| known.holds(&facts)) {
        return Ok(header);
    }
    stream.seek(SeekFrom::Start(begin)).map_err(unreadable)?;
    let file = out.as_file_mut();
    file.set_len(0).map_err(CompileError::Output)?;
    file.rewind().map_err(CompileError::Output)?;
    compile::encode(handle()?, path, options, file, None)
}

/// The hash of a file, and how the file was when that was computed.
#[derive(Clone, Copy, Debug)]
struct KnownHash {
    hash: [u8; 32],
    state: [i64; 6],
}

impl KnownHash {
    /// `facts` are from before the file was hashed. `None` if it was changed in the seconds before: another change may
    /// then have the same time.
    fn new(hash: [u8; 32], facts: &Metadata) -> Option<Self> {
        let age = facts.modified().ok()?.elapsed().ok()?;
        (age > SETTLED_AFTER).then(|| Self { hash, state: state_of(facts) })
    }

    /// Whether the file is still the same.
    fn holds(&self, facts: &Metadata) -> bool {
        self.state == state_of(facts)
    }
}

/// Marks of a file that change with its content: number, size, and times of change.
fn state_of(facts: &Metadata) -> [i64; 6] {
    let (number, bytes) = (facts.ino() as i64, facts.len() as i64);
    [number, bytes, facts.mtime(), facts.mtime_nsec(), facts.ctime(), facts.ctime_nsec()]
}

/// BLAKE3 of a file from its current position, which is restored.
fn hash(source: &mut File) -> io::Result<[u8; 32]> {
    let begin = source.stream_position()?;
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        match source.read(&mut buffer)? {
            0 => break,
            taken => hasher.update(&buffer[..taken]),
        };
    }
    source.seek(SeekFrom::Start(begin))?;
    Ok(*hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_known_hash_holds_until_the_file_changes() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("queries");
        fs::write(&path, "a.test A\n").expect("a file");
        let file = File::options().append(true).open(&path).expect("the file");
        let facts = || fs::metadata(&path).expect("the file");
        assert!(KnownHash::new([7; 32], &facts()).is_none(), "it was changed just now");
        let before = SystemTime::now() - Duration::from_mins(1);
        file.set_modified(before).expect("its time");
        let known = KnownHash::new([7; 32], &facts()).expect("it was changed a minute ago");
        assert!(known.holds(&facts()));
        fs::write(&path, "b.test A\n").expect("a file");
        assert!(!known.holds(&facts()));
        // With the same times, another size.
        fs::write(&path, "").expect("a file");
        file.set_modified(before).expect("its time");
        assert!(!known.holds(&facts()));
    }

    #[test]
    fn a_source_that_changes_meanwhile_is_encoded_again_with_its_own_hash() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("queries");
        fs::write(&path, "a.test A\n").expect("a file");
        let source = File::open(&path).expect("the file");
        let state = state_of(&source.metadata().expect("the file"));
        let known = |state| Some(KnownHash { hash: [7; 32], state });
        let encoded = |known| {
            (&source).rewind().expect("a file");
            let mut out = NamedTempFile::new_in(directory.path()).expect("a file");
            let header = encode(&path, &Options::default(), &source, &mut out, known).expect("a query");
            (header.queries, header.source_hash, fs::read(out.path()).expect("the encoded form").len())
        };
        let right = encoded(None);
        assert_eq!(right.1, *blake3::hash(b"a.test A\n").as_bytes());
        assert_eq!(encoded(known(state)), (1, [7; 32], right.2), "it is taken as known");
        assert_eq!(encoded(known([0; 6])), right);
    }
}

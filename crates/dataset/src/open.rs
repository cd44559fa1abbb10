//! Opens a dataset: its encoded form comes from the cache, or is made.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use kqps_files::unfinished::Unfinished;
use tempfile::NamedTempFile;

use crate::cache;
use crate::compile;
use crate::dataset::Dataset;
use crate::encoded::Header;
use crate::error::DatasetError;
use crate::failure::CompileError;
use crate::mapped::Mapped;
use crate::options::Options;

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
        if facts.is_file()
            && let Some(directory) = &directory
        {
            let hash = hash(&mut source).map_err(|error| DatasetError::io("read", path, error))?;
            let kept = directory.join(cache::file_name(&hash, &options.shape()));
            if let Some(mapped) = Mapped::kept(&kept, &hash) {
                cache::touch(&kept);
                return Ok(Self::of(path, mapped, None));
            }
        }
        let (mapped, note) = build(path, options, &source, directory.as_deref())?;
        Ok(Self::of(path, mapped, note))
    }
}

/// Encodes a source into the cache directory. If that cannot be written, encodes it into a temporary file and adds a
/// note with the reason.
fn build(
    path: &Path,
    options: &Options,
    mut source: &File,
    directory: Option<&Path>,
) -> Result<(Mapped, Option<String>), DatasetError> {
    let begin = source.stream_position().ok();
    let why = match directory.map(|directory| (directory, cache::begin(directory))) {
        None => "neither XDG_CACHE_HOME nor HOME is set".to_owned(),
        Some((directory, Err(error))) => format!("cannot write {}: {error}", directory.display()),
        Some((directory, Ok((out, _unfinished)))) => match keep(path, options, source, directory, out) {
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
    let header = encode(path, options, source, &mut out).map_err(|error| match error {
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
) -> Result<Mapped, CompileError> {
    let header = encode(path, options, source, &mut out)?;
    // Named by the hash of what was just read, in case the source has changed since the first hash.
    let kept = directory.join(cache::file_name(&header.source_hash, &options.shape()));
    // Mapped under its first name, since under its last one another process may already remove it.
    let mapped = Mapped::written(out.path(), header).map_err(CompileError::Output)?;
    out.persist(&kept).map_err(|error| CompileError::Output(error.error))?;
    cache::tidy(directory, &kept);
    Ok(mapped)
}

/// Encodes what is left of a source to `out`. The reader of a capture keeps a handle to the source of its own, which
/// shares the position.
fn encode(
    path: &Path,
    options: &Options,
    source: &File,
    out: &mut NamedTempFile,
) -> Result<Header, CompileError> {
    let source = source.try_clone().map_err(|error| CompileError::unreadable(path, error))?;
    compile::encode(source, path, options, out.as_file_mut())
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

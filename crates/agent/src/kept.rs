//! Files of ours: JSON, and whole at every moment. A reader never meets half of one, and power loss leaves the old one
//! or the new one.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// What is in a file; nothing if there is none.
///
/// # Errors
/// If it cannot be read, or is not what we write.
pub(crate) fn read<T: DeserializeOwned>(directory: &Path, name: &str) -> io::Result<Option<T>> {
    match fs::read(directory.join(name)) {
        Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file, and makes its directory.
///
/// # Errors
/// If it cannot be written; then what was there is there.
pub(crate) fn write(directory: &Path, name: &str, what: &impl Serialize) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let new = directory.join(format!(".{name}.new"));
    let mut file = File::create(&new)?;
    file.write_all(&serde_json::to_vec_pretty(what)?)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::rename(&new, directory.join(name))?;
    File::open(directory)?.sync_all()
}

/// Removes a file; one that is not there is removed.
///
/// # Errors
/// If it cannot be.
pub(crate) fn remove(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Removes a directory with all that is in it; one that is not there is removed. Durable when it returns.
///
/// # Errors
/// If it cannot be.
pub(crate) fn remove_directory(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(()) => directory.parent().map_or(Ok(()), |above| File::open(above)?.sync_all()),
    }
}

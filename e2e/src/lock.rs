//! Locks between processes, held as long as the value lives.
//!
//! The file says who holds the lock, for the one who finds it taken. It may be removed together with
//! the folder it is in, so whoever gets the lock makes sure that it is still the file of that name.

use std::fs::{self, File, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::error::{Attempt, LabError, Result};

/// A lock that is held.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Takes the lock at once or says who has it.
    ///
    /// # Errors
    /// [`LabError::Busy`], or the file cannot be made.
    pub fn take(path: &Path, doing: &str) -> Result<Self> {
        match Self::try_take(path, doing)? {
            Ok(lock) => Ok(lock),
            Err(holder) => {
                let dir = path.parent().unwrap_or(path).to_owned();
                Err(LabError::Busy { dir, holder })
            }
        }
    }

    /// Takes the lock, or names its holder.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn try_take(path: &Path, doing: &str) -> Result<std::result::Result<Self, String>> {
        loop {
            let mut file = open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let holder = fs::read_to_string(path).unwrap_or_default().trim().to_owned();
                    return Ok(Err(if holder.is_empty() {
                        "another process is at work".to_owned()
                    } else {
                        holder
                    }));
                }
                Err(TryLockError::Error(error)) => {
                    return Err(error).attempt(|| format!("lock {}", path.display()));
                }
            }
            if same_file(&file, path) {
                let text = format!("{doing} (process {})\n", std::process::id());
                file.set_len(0)
                    .and_then(|()| file.seek(SeekFrom::Start(0)))
                    .and_then(|_| file.write_all(text.as_bytes()))
                    .attempt(|| format!("write {}", path.display()))?;
                return Ok(Ok(Self { file, path: path.to_owned() }));
            }
        }
    }

    /// Removes the file; the lock is held until the value is dropped.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(crate) fn remove_file(&self) -> Result<()> {
        fs::remove_file(&self.path).attempt(|| format!("remove {}", self.path.display()))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A reader must not take an old line for the holder's.
        let _ = self.file.set_len(0);
    }
}

fn open(path: &Path) -> Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).attempt(|| format!("make {}", folder.display()))?;
    }
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).attempt(|| format!("open {}", path.display()))
}

fn same_file(file: &File, path: &Path) -> bool {
    let identity = |data: fs::Metadata| (data.dev(), data.ino());
    let (held, named) = (file.metadata().map(identity), fs::metadata(path).map(identity));
    matches!((held, named), (Ok(held), Ok(named)) if held == named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_learns_who_the_first_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lab/lock");
        let first = Lock::take(&path, "hack/lab up").unwrap();
        let error = Lock::take(&path, "hack/lab down").unwrap_err().to_string();
        assert!(error.contains(&format!("hack/lab up (process {})", std::process::id())), "{error}");
        drop(first);
        Lock::take(&path, "hack/lab down").unwrap();
    }

    #[test]
    fn a_removed_lock_is_another_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let first = Lock::take(&path, "hack/lab down").unwrap();
        first.remove_file().unwrap();
        Lock::take(&path, "hack/lab up").unwrap();
    }
}

//! Writes container images: a docker-archive with one layer, byte for byte the same for the same
//! files.
//!
//! Input: files and the names they get in the image. Output: the archive that `ctr images import`
//! and `skopeo copy docker-archive:` read.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::error::{Attempt, Result};
use crate::layout::hex;

/// A file of the image: mode 0755, owned by root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageFile {
    /// Where it is now.
    pub source: PathBuf,
    /// Where it is in the image, without the leading slash.
    pub target: String,
}

/// A name for the layer, and what a container runtime is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName {
    /// The full reference, such as `docker.io/lab/agnhost:1`.
    pub reference: String,
    /// Program and arguments when a pod names no command; may be empty.
    pub entrypoint: Vec<String>,
    /// As container images call it: `amd64`, `arm64`.
    pub architecture: String,
    /// User and group where a pod names none.
    pub user: Option<String>,
    /// Labels by key.
    pub labels: BTreeMap<String, String>,
}

impl ImageName {
    /// An image for this machine without anything else.
    #[must_use]
    pub fn new(reference: impl Into<String>) -> Self {
        Self {
            reference: reference.into(),
            entrypoint: Vec::new(),
            architecture: "amd64".to_owned(),
            user: None,
            labels: BTreeMap::new(),
        }
    }

    fn config(&self, layer: &str) -> serde_json::Value {
        let mut config = json!({"Entrypoint": self.entrypoint});
        if let Some(user) = &self.user {
            config["User"] = json!(user);
        }
        if !self.labels.is_empty() {
            config["Labels"] = json!(self.labels);
        }
        json!({
            "architecture": self.architecture,
            "os": "linux",
            "created": "1970-01-01T00:00:00Z",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        })
    }
}

/// Writes the archive to `out`, whole or not at all.
///
/// # Errors
/// A file cannot be read, or the archive not be written.
pub fn write(out: &Path, files: &[ImageFile], names: &[ImageName]) -> Result<()> {
    let layer = layer(files).attempt(|| "read the files of the image".to_owned())?;
    let draft = out.with_extension(format!("{}.new", std::process::id()));
    if let Some(folder) = out.parent() {
        fs::create_dir_all(folder).attempt(|| format!("make {}", folder.display()))?;
    }
    fs::File::create(&draft)
        .and_then(|file| archive(io::BufWriter::new(file), &layer, names))
        .and_then(|()| fs::rename(&draft, out))
        .inspect_err(|_| drop(fs::remove_file(&draft)))
        .attempt(|| format!("write {}", out.display()))
}

fn layer(files: &[ImageFile]) -> io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for file in files {
        let mut bytes = Vec::new();
        fs::File::open(&file.source)
            .and_then(|mut source| source.read_to_end(&mut bytes))
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.source.display())))?;
        append(&mut tar, &file.target, 0o755, &bytes)?;
    }
    tar.into_inner()
}

fn archive(out: impl Write, layer: &[u8], names: &[ImageName]) -> io::Result<()> {
    let layer_digest = digest(layer);
    let layer_name = format!("{layer_digest}.tar");
    let mut tar = tar::Builder::new(out);
    let mut manifest = Vec::new();
    for name in names {
        let config = name.config(&layer_digest).to_string();
        let config_name = format!("{}.json", digest(config.as_bytes()));
        append(&mut tar, &config_name, 0o644, config.as_bytes())?;
        manifest.push(json!({"Config": config_name, "RepoTags": [name.reference], "Layers": [layer_name]}));
    }
    append(&mut tar, &layer_name, 0o644, layer)?;
    append(&mut tar, "manifest.json", 0o644, serde_json::Value::from(manifest).to_string().as_bytes())?;
    tar.into_inner()?.flush()
}

fn append<W: Write>(tar: &mut tar::Builder<W>, name: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
    let mut header = tar::Header::new_ustar();
    header.set_size(bytes.len() as u64);
    header.set_mode(mode);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    tar.append_data(&mut header, name, bytes)
}

fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(folder: &Path, out: &str) -> Vec<u8> {
        let source = folder.join("program");
        fs::write(&source, "#!/bin/sh\n").unwrap();
        let files = [ImageFile { source, target: "program".to_owned() }];
        let names = [
            ImageName { entrypoint: vec!["/program".to_owned()], ..ImageName::new("ferrolb.io/a:v1") },
            ImageName { architecture: "arm64".to_owned(), ..ImageName::new("ferrolb.io/b:v1") },
        ];
        write(&folder.join(out), &files, &names).unwrap();
        fs::read(folder.join(out)).unwrap()
    }

    #[test]
    fn the_same_files_give_the_same_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let first = written(folder.path(), "1.tar");
        std::thread::sleep(std::time::Duration::from_millis(1100));
        assert_eq!(first, written(folder.path(), "2.tar"), "a second later the archive is another one");
    }

    #[test]
    fn the_archive_names_its_parts_by_digest() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = written(folder.path(), "1.tar");
        let mut parts = std::collections::BTreeMap::new();
        for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            assert_eq!(entry.header().mtime().unwrap(), 0);
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            parts.insert(name, content);
        }
        let manifest: serde_json::Value = serde_json::from_slice(&parts["manifest.json"]).unwrap();
        assert_eq!(manifest[0]["RepoTags"][0], "ferrolb.io/a:v1");
        assert_eq!(manifest[0]["Layers"], manifest[1]["Layers"], "one layer under two names");
        let config = |index: usize| -> serde_json::Value {
            serde_json::from_slice(&parts[manifest[index]["Config"].as_str().unwrap()]).unwrap()
        };
        assert_eq!(config(0)["config"], json!({"Entrypoint": ["/program"]}));
        assert_eq!([0, 1].map(|index| config(index)["architecture"].clone()), ["amd64", "arm64"]);
        for (name, content) in parts.iter().filter(|(name, _)| *name != "manifest.json") {
            assert_eq!(name.split('.').next().unwrap(), digest(content));
        }
    }
}

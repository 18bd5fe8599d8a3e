//! Kubernetes objects as YAML: to standard output, or as the files of a kustomization. The same objects
//! give the same bytes, so that generated files can be compared.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use crate::package::File;

/// First line of every generated file that can have a comment.
pub(crate) const HEADER: &str = "# Made by hack/generate from the Rust types; do not edit.\n";

/// Writes `documents`, each with the name of its file, to standard output or into `directory`.
pub(crate) fn output(directory: Option<&Path>, documents: &[(String, Value)]) -> anyhow::Result<()> {
    match directory {
        Some(directory) => files(directory, documents),
        None => {
            let mut stdout = std::io::stdout().lock();
            documents
                .iter()
                .try_for_each(|(_, document)| write!(stdout, "---\n{}", yaml(document)?).map_err(Into::into))
        }
    }
}

/// One file with many documents.
pub(crate) fn stream(documents: &[Value]) -> anyhow::Result<String> {
    let documents = documents.iter().map(yaml).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(format!("{HEADER}{}", documents.join("---\n")))
}

/// Writes the files of a package.
pub(crate) fn write(directory: &Path, files: &[File]) -> anyhow::Result<()> {
    for file in files {
        let path = directory.join(&file.path);
        let parent = path.parent().unwrap_or(directory);
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        std::fs::write(&path, &file.text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn files(directory: &Path, documents: &[(String, Value)]) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let resources: Vec<&str> = documents.iter().map(|(file, _)| file.as_str()).collect();
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": resources,
    });
    let index = ("kustomization.yaml".to_owned(), kustomization);
    for (file, document) in documents.iter().chain([&index]) {
        let path = directory.join(file);
        let text = format!("{HEADER}{}", yaml(document)?);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A document as YAML, ending in a line break.
pub(crate) fn yaml(document: &Value) -> anyhow::Result<String> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let text = serde_saphyr::to_string_with_options(document, options).context("cannot write YAML")?;
    Ok(if text.ends_with('\n') { text } else { text + "\n" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back_the_same() {
        let tricky = json!({
            "name": "yes", "octal": "012", "time": "12:30:45", "empty": "", "number": "9120", "null": "null",
            "pattern": "^[A-Za-z]([\\w.\\-]*[a-z0-9A-Z])?$", "lines": "a:\n- ^lo$\n- ^x.*\n", "quote": "it's \"so\"",
            "long": "word ".repeat(60), "list": [], "map": {}, "nested": [{"a": [1, 2.5, true, null]}], "hash": "a # b",
        });
        let back: Value = serde_saphyr::from_str(&yaml(&tricky).unwrap()).unwrap();
        assert_eq!(back, tricky);
    }

    #[test]
    fn files_are_listed_in_their_kustomization() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("crd");
        let documents =
            [("b.yaml".to_owned(), json!({"kind": "B"})), ("a.yaml".to_owned(), json!({"kind": "A"}))];
        files(&target, &documents).unwrap();
        let index = std::fs::read_to_string(target.join("kustomization.yaml")).unwrap();
        assert!(index.starts_with("# Made by"), "{index}");
        let index: Value = serde_saphyr::from_str(&index).unwrap();
        assert_eq!(index["resources"], json!(["b.yaml", "a.yaml"]));
        assert!(std::fs::read_to_string(target.join("a.yaml")).unwrap().contains("kind: A"));
    }
}

//! One module a command.

use std::io::Read;
use std::path::Path;

use anyhow::Context;

pub(crate) mod bgp;
pub(crate) mod crds;
pub(crate) mod lint;
pub(crate) mod package;
pub(crate) mod pools;
pub(crate) mod rbac;
pub(crate) mod render;
pub(crate) mod status;
pub(crate) mod why;

/// The text of a file, or of standard input for `-`.
fn read(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

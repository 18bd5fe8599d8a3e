//! `kubectl ferrolb lint`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use ferrolb_api::well_known::DEFAULT_NAMESPACE;
use ferrolb_core::resources::Resources;

use crate::cluster::Access;
use crate::lint::check::check;
use crate::lint::report::{Output, report};
use crate::lint::{Level, Source, cluster};

/// What the files of a directory are called.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Options of the command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// Files with objects in YAML or JSON, directories of such files, or - for standard input.
    #[arg(value_name = "FILE|DIR|-", required_unless_present = "cluster")]
    paths: Vec<PathBuf>,

    /// Check what the cluster holds; with files, what it would hold with them applied.
    #[arg(long)]
    cluster: bool,

    #[command(flatten)]
    access: Access,

    /// Namespace of the product.
    #[arg(long, short, value_name = "NAME", default_value = DEFAULT_NAMESPACE)]
    namespace: String,

    /// Form of the report.
    #[arg(long, short, value_enum, default_value_t)]
    output: Output,
}

/// Status 0 without an error (there may be warnings), 1 with one; the caller makes 2 of what keeps the
/// check from being made at all.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    ensure!(args.cluster || !args.access.is_given(), "--kubeconfig and --context are for --cluster");
    let mut sources = Vec::new();
    for path in &args.paths {
        read(path, &mut sources)?;
    }
    let cluster =
        if args.cluster { cluster::read(&args.access, &args.namespace)? } else { Resources::default() };
    let checked = check(&sources, cluster, &args.namespace);
    let text = report(args.output, &sources, &checked);
    std::io::stdout().lock().write_all(text.as_bytes()).context("cannot write the report")?;
    Ok(if checked.count(Level::Error) == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn read(path: &Path, sources: &mut Vec<Source>) -> anyhow::Result<()> {
    if path.is_dir() {
        let found = sources.len();
        read_directory(path, sources)?;
        let extensions = EXTENSIONS.join(", .");
        ensure!(sources.len() > found, "{} holds no file that ends in .{extensions}", path.display());
        return Ok(());
    }
    read_file(path, sources)
}

fn read_file(path: &Path, sources: &mut Vec<Source>) -> anyhow::Result<()> {
    let text = super::read(path)?;
    let name = if path == Path::new("-") { "<stdin>".into() } else { path.display().to_string() };
    sources.push(Source { name, text });
    Ok(())
}

/// The files below a directory, in the order of their names. Links are not followed into others.
fn read_directory(directory: &Path, sources: &mut Vec<Source>) -> anyhow::Result<()> {
    let unreadable = || format!("cannot read {}", directory.display());
    let entries = std::fs::read_dir(directory).with_context(unreadable)?;
    let mut entries = entries.collect::<Result<Vec<_>, _>>().with_context(unreadable)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type().with_context(unreadable)?.is_dir() {
            read_directory(&path, sources)?;
        } else if path.is_file()
            && path.extension().and_then(|it| it.to_str()).is_some_and(|it| EXTENSIONS.contains(&it))
        {
            read_file(&path, sources)?;
        }
    }
    Ok(())
}

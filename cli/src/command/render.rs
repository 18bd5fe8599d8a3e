//! `kubectl ferrolb render`

use std::path::PathBuf;

use anyhow::{Context, ensure};
use ferrolb_api::v1beta1::MetalLB;
use ferrolb_api::well_known::{DEFAULT_NAMESPACE, object};
use ferrolb_operator::image::{self, ImageReference};
use ferrolb_operator::render::{Installer, Object, Observed, Settings, render};

use crate::manifest;

/// Options of the command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    /// File with the MetalLB object; - is standard input. Default: an object without a spec.
    #[arg(long, short, value_name = "FILE")]
    filename: Option<PathBuf>,

    /// Namespace of the operator. Default: the object's, else metallb-system.
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,

    /// Image of all processes.
    #[arg(long, value_name = "IMAGE", default_value = image::DEFAULT)]
    image: ImageReference,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let mut metallb = match &args.filename {
        Some(path) => parse(&super::read(path)?).with_context(|| format!("in {}", path.display()))?,
        None => MetalLB::default(),
    };
    // A uid in the file is of some cluster; whoever applies this to another would own nothing.
    metallb.metadata.uid = None;
    let namespace = args.namespace.clone().or_else(|| metallb.metadata.namespace.clone());
    let settings = Settings {
        installer: Installer::Operator,
        namespace: namespace.unwrap_or_else(|| DEFAULT_NAMESPACE.into()),
        image: args.image.clone(),
        version: ferrolb_operator::VERSION.into(),
        certificate: None,
    };
    let objects =
        render(&metallb, &settings, &Observed::default()).context("the operator would refuse this")?;
    let documents: Vec<_> = objects.iter().map(|object| (String::new(), Object::to_value(object))).collect();
    manifest::output(None, &documents)
}

fn parse(text: &str) -> anyhow::Result<MetalLB> {
    let metallb: MetalLB = serde_saphyr::from_str(text).context("this is not a MetalLB object")?;
    ensure!(metallb.types.kind == "MetalLB", "this is a {}, not a MetalLB object", metallb.types.kind);
    let name = metallb.metadata.name.as_deref().unwrap_or_default();
    ensure!(
        name == object::METALLB,
        "the operator honours one object only: name it {}, not {name:?}",
        object::METALLB
    );
    Ok(metallb)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_one_object_is_rendered() {
        let yaml = |kind: &str, name: &str| {
            format!(
                "apiVersion: metallb.io/v1beta1\nkind: {kind}\nmetadata:\n  name: {name}\nspec:\n  logLevel: debug\n"
            )
        };
        let metallb = parse(&yaml("MetalLB", "metallb")).unwrap();
        assert_eq!(metallb.spec.log_level, Some(ferrolb_api::v1beta1::LogLevel::Debug));
        let error = parse(&yaml("MetalLB", "other")).unwrap_err().to_string();
        assert!(error.contains("name it metallb"), "{error}");
        let error = parse(&yaml("IPAddressPool", "metallb")).unwrap_err().to_string();
        assert!(error.contains("IPAddressPool"), "{error}");
    }
}

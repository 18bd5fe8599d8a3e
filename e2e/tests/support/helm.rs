//! Helm 3 and Helm 4, as they install the chart into the lab.

use std::path::PathBuf;
use std::process::Command;

use super::{NAMESPACE, Product};

/// One of the two Helms, with the release that it has in this lab.
pub struct Helm<'a> {
    pub product: &'a Product,
    program: PathBuf,
    /// Values that name the image.
    pub image: Vec<String>,
}

impl<'a> Helm<'a> {
    pub fn new(product: &'a Product, version: &str, image: &str) -> Self {
        let program = product.check_tools().join("bin").join(version);
        assert!(program.exists(), "{} is missing: hack/setup builds it", program.display());
        let (repository, digest) = image.split_once('@').unwrap();
        let image =
            ["--set", &format!("image.repository={repository}"), "--set", &format!("image.digest={digest}")];
        Self { product, program, image: image.map(ToOwned::to_owned).to_vec() }
    }

    pub fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let home = self.product.lab.layout.dir.join("helm");
        let output = Command::new(&self.program)
            .args(["--namespace", NAMESPACE])
            .args(arguments)
            .env("KUBECONFIG", self.product.lab.layout.kubeconfig())
            .env("HELM_CACHE_HOME", &home)
            .env("HELM_CONFIG_HOME", &home)
            .env("HELM_DATA_HOME", &home)
            .env_remove("HTTPS_PROXY")
            .env_remove("https_proxy")
            .output()
            .unwrap();
        let said =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(said) } else { Err(said) }
    }

    /// Installs or upgrades the release by a chart, and waits.
    pub fn release(&self, verb: &str, chart: &str, more: &[&str]) -> Result<String, String> {
        let image: Vec<&str> = self.image.iter().map(String::as_str).collect();
        self.run(&[&[verb, "ferrolb", chart, "--wait", "--timeout", "120s"], image.as_slice(), more].concat())
    }
}

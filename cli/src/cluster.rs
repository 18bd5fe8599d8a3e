//! What a cluster holds, by the kubectl that this is a plug-in of: it knows how to reach the cluster and
//! how to prove who asks.

use std::process::Command;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Which cluster.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Access {
    /// kubeconfig to use; default: kubectl's.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<String>,

    /// Context of the kubeconfig to use; default: its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

#[derive(Deserialize)]
struct List {
    items: Vec<Value>,
}

impl Access {
    /// Whether somebody chose a cluster.
    pub(crate) fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// All objects of a resource, in a namespace or in all.
    pub(crate) fn list<K: DeserializeOwned>(
        &self,
        resource: &str,
        namespace: Option<&str>,
    ) -> anyhow::Result<Vec<K>> {
        let mut kubectl = Command::new("kubectl");
        kubectl.args(["get", resource, "--output=json"]);
        kubectl
            .arg(namespace.map_or_else(|| "--all-namespaces".to_owned(), |it| format!("--namespace={it}")));
        kubectl.args(self.kubeconfig.as_ref().map(|it| format!("--kubeconfig={it}")));
        kubectl.args(self.context.as_ref().map(|it| format!("--context={it}")));
        let output = kubectl.output().context("cannot run kubectl")?;
        if !output.status.success() {
            bail!("kubectl get {resource}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let list: List = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("kubectl get {resource} printed no list"))?;
        let objects = list.items.into_iter().map(serde_json::from_value).collect::<Result<Vec<_>, _>>();
        objects.with_context(|| format!("cannot read an object of {resource}"))
    }
}

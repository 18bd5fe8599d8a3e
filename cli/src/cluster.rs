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
        let objects = self.get(resource, namespace)?.into_iter();
        let objects = objects.map(serde_json::from_value).collect::<Result<Vec<_>, _>>();
        objects.with_context(|| format!("cannot read an object of {resource}"))
    }

    /// All objects of several resources by one request of kubectl, which takes longer to start than to ask.
    pub(crate) fn mixed(&self, resources: &[&str], namespace: Option<&str>) -> anyhow::Result<Objects> {
        Ok(Objects(self.get(&resources.join(","), namespace)?))
    }

    fn get(&self, resources: &str, namespace: Option<&str>) -> anyhow::Result<Vec<Value>> {
        let mut kubectl = Command::new("kubectl");
        kubectl.args(["get", resources, "--output=json"]);
        kubectl
            .arg(namespace.map_or_else(|| "--all-namespaces".to_owned(), |it| format!("--namespace={it}")));
        kubectl.args(self.kubeconfig.as_ref().map(|it| format!("--kubeconfig={it}")));
        kubectl.args(self.context.as_ref().map(|it| format!("--context={it}")));
        let output = kubectl.output().context("cannot run kubectl")?;
        if !output.status.success() {
            bail!("kubectl get {resources}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        let list: List = serde_json::from_slice(&output.stdout)
            .with_context(|| format!("kubectl get {resources} printed no list"))?;
        Ok(list.items)
    }
}

/// Objects of several kinds.
#[derive(Debug)]
pub(crate) struct Objects(Vec<Value>);

impl Objects {
    /// Those of a kind.
    pub(crate) fn of<K: DeserializeOwned>(&self, kind: &str) -> anyhow::Result<Vec<K>> {
        let objects = self.0.iter().filter(|object| object["kind"] == kind).cloned();
        let objects = objects.map(serde_json::from_value).collect::<Result<Vec<_>, _>>();
        objects.with_context(|| format!("cannot read a {kind}"))
    }
}

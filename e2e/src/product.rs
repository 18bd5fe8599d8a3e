//! Bringing the product into the lab: its image into the registry, its manifests to the API server.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::error::{Attempt, LabError, Result};
use crate::host::{PROXY_VARIABLES, succeeded};
use crate::lab::Lab;
use crate::progress::{Progress, Seen};
use crate::topology::{REGISTRY_PORT, Role, with_role};

/// Where the operator lives.
pub const NAMESPACE: &str = "metallb-system";
/// The Deployment that `install` waits for.
pub const OPERATOR: &str = "metallb-operator-controller-manager";

impl Lab {
    /// Pushes every image of an archive into the lab's registry, under the name that the archive gives
    /// it: nodes then pull it by that name. Says under which names.
    ///
    /// # Errors
    /// The archive cannot be read, or the registry refuses.
    pub fn push(&self, archive: &Path) -> Result<Vec<String>> {
        let names = references(archive)?;
        for name in &names {
            let from = format!("docker-archive:{}:{name}", archive.display());
            let registry = with_role(Role::Registry).ipv4();
            let to = format!("docker://{registry}:{REGISTRY_PORT}/{}", repository(name));
            let mut command = Command::new("skopeo");
            command.args(["copy", "--quiet", "--insecure-policy", "--dest-tls-verify=false", &from, &to]);
            for variable in PROXY_VARIABLES {
                command.env_remove(variable);
            }
            let output = command.output().attempt(|| "run skopeo".to_owned())?;
            succeeded(&format!("skopeo copy {from} {to}"), output)?;
        }
        Ok(names)
    }

    /// Installs the product: pushes its image, applies `config/default`, waits for the operator.
    ///
    /// # Errors
    /// A step fails; if the operator does not become ready the error shows its pods and logs.
    pub fn install(&self, archive: &Path, manifests: &Path, progress: &Progress) -> Result<()> {
        let names = self.push(archive)?;
        progress.say(format!("pushed {}", names.join(", ")));
        let overlay = self.layout.dir.join("install");
        let pinned: Vec<String> = names.iter().map(|name| self.pinned(name)).collect::<Result<_>>()?;
        write_overlay(&overlay, manifests, &pinned)?;
        // Server side: the CRDs are larger than the annotation that client-side apply leaves.
        let folder = overlay.display().to_string();
        self.kubectl(&["apply", "--server-side", "--force-conflicts", "-k", &folder])?;
        progress.say(format!("applied {} with {}", manifests.display(), pinned.join(", ")));
        self.wait_deployment(NAMESPACE, OPERATOR, progress, Duration::from_secs(120))?;
        progress.say("the operator is ready");
        Ok(())
    }

    /// The name of a pushed image by its digest: the same tag may stand for another build tomorrow, and
    /// a node would go on with the one it has.
    ///
    /// # Errors
    /// The registry has no such image.
    pub fn pinned(&self, name: &str) -> Result<String> {
        let registry = with_role(Role::Registry).ipv4();
        let source = format!("docker://{registry}:{REGISTRY_PORT}/{}", repository(name));
        let mut command = Command::new("skopeo");
        command.args(["inspect", "--tls-verify=false", "--format", "{{.Digest}}", &source]);
        for variable in PROXY_VARIABLES {
            command.env_remove(variable);
        }
        let output = command.output().attempt(|| "run skopeo".to_owned())?;
        let digest = succeeded(&format!("skopeo inspect {source}"), output)?;
        let untagged = name.rsplit_once(':').map_or(name, |(image, _)| image);
        Ok(format!("{untagged}@{}", digest.trim()))
    }

    /// Waits until a Deployment has all its replicas available, of its newest kind.
    ///
    /// # Errors
    /// It has not within `limit`; the error shows its pods and logs.
    pub fn wait_deployment(
        &self,
        namespace: &str,
        name: &str,
        progress: &Progress,
        limit: Duration,
    ) -> Result<()> {
        let what = format!("Deployment {namespace}/{name}");
        let looked = progress.wait(&what, limit, || {
            let deployment = self.get_json(&["-n", namespace, "deployment", name]);
            Ok(match deployment {
                Ok(deployment) if is_rolled_out(&deployment) => Seen::Yes(()),
                Ok(deployment) => Seen::NotYet(deployment["status"].to_string()),
                Err(error) => Seen::NotYet(error.to_string()),
            })
        });
        match looked {
            Err(LabError::TimedOut { what, after, seen }) => {
                let pods = self.kubectl(&["-n", namespace, "get", "pods", "-o", "wide"]).unwrap_or_default();
                let describe = self.kubectl(&["-n", namespace, "get", "events"]).unwrap_or_default();
                let target = format!("deployment/{name}");
                let logs = self.kubectl(&["-n", namespace, "logs", &target, "--tail=20"]).unwrap_or_default();
                Err(LabError::TimedOut { what, after, seen: [seen, pods, describe, logs].join("\n") })
            }
            other => other,
        }
    }
}

/// A kustomization that is `manifests` with these images. Kustomize takes relative folders only.
fn write_overlay(overlay: &Path, manifests: &Path, pinned: &[String]) -> Result<()> {
    let action = || format!("write {}", overlay.display());
    std::fs::create_dir_all(overlay).attempt(action)?;
    let (from, to) = (overlay.canonicalize().attempt(action)?, manifests.canonicalize().attempt(action)?);
    std::fs::write(overlay.join("kustomization.yaml"), kustomization(&relative(&from, &to), pinned))
        .attempt(action)
}

fn kustomization(base: &Path, pinned: &[String]) -> String {
    let mut text = format!("resources:\n- {}\nimages:\n", base.display());
    for image in pinned {
        if let Some((name, digest)) = image.split_once('@') {
            text.push_str(&format!("- name: {name}\n  digest: {digest}\n"));
        }
    }
    text
}

/// The way from one folder to another, both absolute.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let common = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(common).map(|_| std::path::Component::ParentDir);
    up.chain(to.components().skip(common)).collect()
}

fn is_rolled_out(deployment: &Value) -> bool {
    let number = |path: &str| deployment.pointer(path).and_then(Value::as_i64);
    let wanted = number("/spec/replicas").unwrap_or(1);
    number("/status/observedGeneration") == number("/metadata/generation")
        && number("/status/updatedReplicas").unwrap_or(0) >= wanted
        && number("/status/availableReplicas").unwrap_or(0) >= wanted
        && number("/status/replicas") == Some(wanted)
}

/// The names that an archive gives its images.
fn references(archive: &Path) -> Result<Vec<String>> {
    use std::io::Read as _;
    let action = || format!("read {}", archive.display());
    let mut tar = tar::Archive::new(std::fs::File::open(archive).attempt(action)?);
    for entry in tar.entries().attempt(action)? {
        let mut entry = entry.attempt(action)?;
        if entry.path().is_ok_and(|path| path == Path::new("manifest.json")) {
            let mut text = String::new();
            entry.read_to_string(&mut text).attempt(action)?;
            let manifest: Value = serde_json::from_str(&text).map_err(|source| LabError::Format {
                what: format!("manifest.json of {}", archive.display()),
                source,
            })?;
            let tags =
                manifest.as_array().into_iter().flatten().filter_map(|image| image["RepoTags"].as_array());
            return Ok(tags.flatten().filter_map(Value::as_str).map(ToOwned::to_owned).collect());
        }
    }
    Err(std::io::ErrorKind::InvalidData).attempt(|| format!("find a manifest.json in {}", archive.display()))
}

/// Repository and tag without the registry: what a mirror is asked for. As in container tools, the
/// first part is a registry if it has a dot or a colon or is `localhost`.
fn repository(reference: &str) -> &str {
    match reference.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => rest,
        _ => reference,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_mirror_is_asked_without_the_registry() {
        for (reference, asked) in [
            ("ferrolb.io/ferrolb:v0.1.0", "ferrolb:v0.1.0"),
            ("docker.io/lab/agnhost:1", "lab/agnhost:1"),
            ("localhost:5000/a/b:c", "a/b:c"),
            ("lab/agnhost:1", "lab/agnhost:1"),
            ("agnhost:1", "agnhost:1"),
        ] {
            assert_eq!(repository(reference), asked);
        }
    }

    #[test]
    fn an_overlay_pins_the_image_by_digest_and_goes_a_relative_way() {
        let way = relative(Path::new("/var/tmp/lab/install"), Path::new("/src/config/default"));
        assert_eq!(way, Path::new("../../../../src/config/default"));
        assert_eq!(
            kustomization(Path::new("../base"), &["ferrolb.io/ferrolb@sha256:12".to_owned()]),
            "resources:\n- ../base\nimages:\n- name: ferrolb.io/ferrolb\n  digest: sha256:12\n"
        );
    }

    #[test]
    fn a_deployment_with_old_pods_is_not_rolled_out() {
        let with =
            |status: Value| json!({"metadata": {"generation": 2}, "spec": {"replicas": 1}, "status": status});
        let done =
            json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1});
        assert!(is_rolled_out(&with(done)));
        for status in [
            json!({}),
            json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}),
            json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 1, "availableReplicas": 1}),
            json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1}),
        ] {
            assert!(!is_rolled_out(&with(status.clone())), "{status}");
        }
    }
}

//! Keys, certificates and kubeconfigs of the cluster, made in this process.

use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};

use crate::error::{Attempt, LabError, Result};
use crate::layout::Layout;
use crate::topology::{API_PORT, API_SERVICE, Role, nodes, with_role};

/// The cluster's authority, and where it puts what it makes.
pub(crate) struct Pki {
    dir: PathBuf,
    authority: Issuer<'static, KeyPair>,
    authority_pem: String,
}

impl Pki {
    /// Makes everything the cluster needs.
    pub(crate) fn create(layout: &Layout) -> Result<()> {
        let pki = Self::new(layout)?;
        let api = with_role(Role::ControlPlane).ipv4();
        let names = ["kubernetes.default.svc", "127.0.0.1", &api.to_string(), &API_SERVICE.to_string()];
        pki.certificate("apiserver", "kube-apiserver", None, &names)?;
        pki.kubeconfig("admin", "admin", Some("system:masters"), &[])?;
        for component in ["kube-controller-manager", "kube-scheduler", "kube-proxy"] {
            pki.kubeconfig(component, &format!("system:{component}"), None, &[])?;
        }
        for node in nodes() {
            let names = [node.name, &node.ipv4().to_string(), &node.ipv6().to_string()];
            pki.kubeconfig(node.name, &format!("system:node:{}", node.name), Some("system:nodes"), &names)?;
        }
        let service_accounts = KeyPair::generate().map_err(failed("service accounts"))?;
        write(&pki.dir.join("sa.key"), &service_accounts.serialize_pem())?;
        write(&pki.dir.join("sa.pub"), &service_accounts.public_key_pem())?;
        let admin = layout.pki().join("admin.conf");
        fs::copy(&admin, layout.kubeconfig()).attempt(|| format!("copy {}", admin.display()))?;
        Ok(())
    }

    fn new(layout: &Layout) -> Result<Self> {
        let dir = layout.pki();
        fs::create_dir_all(&dir).attempt(|| format!("make {}", dir.display()))?;
        let key = KeyPair::generate().map_err(failed("the authority"))?;
        let mut params = params("lab-ca", None, &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_pem = params.self_signed(&key).map_err(failed("the authority"))?.pem();
        write(&dir.join("ca.crt"), &authority_pem)?;
        Ok(Self { dir, authority: Issuer::new(params, key), authority_pem })
    }

    /// Writes `<file>.crt` and `<file>.key`.
    fn certificate(
        &self,
        file: &str,
        name: &str,
        group: Option<&str>,
        alternative: &[&str],
    ) -> Result<(String, String)> {
        let key = KeyPair::generate().map_err(failed(name))?;
        let certificate =
            params(name, group, alternative)?.signed_by(&key, &self.authority).map_err(failed(name))?.pem();
        let key = key.serialize_pem();
        write(&self.dir.join(format!("{file}.crt")), &certificate)?;
        write(&self.dir.join(format!("{file}.key")), &key)?;
        Ok((certificate, key))
    }

    /// Writes a certificate and `<file>.conf` that carries it.
    fn kubeconfig(&self, file: &str, name: &str, group: Option<&str>, alternative: &[&str]) -> Result<()> {
        let (certificate, key) = self.certificate(file, name, group, alternative)?;
        let config = kubeconfig(&self.authority_pem, &certificate, &key);
        write(&self.dir.join(format!("{file}.conf")), &format!("{config:#}\n"))
    }
}

/// A kubeconfig that needs no other file.
fn kubeconfig(authority: &str, certificate: &str, key: &str) -> Value {
    let server = format!("https://{}:{API_PORT}", with_role(Role::ControlPlane).ipv4());
    let encode = |pem: &str| base64(pem.as_bytes());
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": {"server": server, "certificate-authority-data": encode(authority)}}],
        "users": [{"name": "lab", "user":
            {"client-certificate-data": encode(certificate), "client-key-data": encode(key)}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
        "current-context": "lab",
    })
}

fn params(name: &str, group: Option<&str>, alternative: &[&str]) -> Result<CertificateParams> {
    let alternative: Vec<String> = alternative.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(alternative).map_err(failed(name))?;
    params.distinguished_name.push(DnType::CommonName, name);
    if let Some(group) = group {
        params.distinguished_name.push(DnType::OrganizationName, group);
    }
    Ok(params)
}

fn failed(name: &str) -> impl Fn(rcgen::Error) -> LabError {
    let name = name.to_owned();
    move |source| LabError::Certificate { name: name.clone(), source }
}

/// Keys are for root alone, and so is everything beside them.
fn write(path: &Path, text: &str) -> Result<()> {
    use std::io::Write as _;
    fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .attempt(|| format!("write {}", path.display()))
}

/// RFC 4648 §4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().fold(0_u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let digit = DIGITS[(group >> (18 - 6 * place)) as usize & 63];
            text.push(if place <= chunk.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_as_in_the_rfc() {
        for (plain, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }

    #[test]
    fn everything_is_made_and_only_for_root() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(Some(folder.path().into()), None);
        Pki::create(&layout).unwrap();
        for file in
            ["ca.crt", "apiserver.key", "sa.key", "sa.pub", "kube-proxy.conf", "k8s-node-2.conf", "admin.crt"]
        {
            let mode = fs::metadata(layout.pki().join(file)).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{file}");
        }
        let config: Value = serde_json::from_slice(&fs::read(layout.kubeconfig()).unwrap()).unwrap();
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://192.168.10.17:6443");
    }
}

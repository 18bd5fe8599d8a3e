//! Image references as a type: what is parsed here cannot float.
//!
//! Input: the string of a container's `image`. Output: its parts, or why it is refused. A reference
//! must say exactly what runs: by a tag that is not `latest`, or by digest.

use std::fmt;
use std::str::FromStr;

/// The image of this version.
pub const DEFAULT: &str = concat!("ferrolb.io/ferrolb:v", env!("CARGO_PKG_VERSION"));

/// `[registry/]repository[:tag][@digest]`, with a tag, a digest or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReference {
    registry: Option<String>,
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

/// Why a reference is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageRefusal {
    /// The repository is missing or has characters that registries do not know.
    #[error("the repository must be lower-case letters, digits and separators")]
    Repository,
    /// Neither tag nor digest: what runs would change with the weather.
    #[error("it has neither tag nor digest")]
    Untagged,
    /// The tag that means "whatever is newest".
    #[error("the tag latest does not say what runs")]
    Floating,
    /// The tag has characters that tags do not have.
    #[error(
        "the tag must be up to 128 letters, digits, '_', '.' or '-', beginning with none of the last two"
    )]
    Tag,
    /// The digest is not `algorithm:hexadecimal`.
    #[error("the digest must be an algorithm, a colon and at least 32 hexadecimal digits")]
    Digest,
}

impl ImageReference {
    /// Host of the registry; `None` is the container runtime's default.
    pub fn registry(&self) -> Option<&str> {
        self.registry.as_deref()
    }

    /// Path within the registry.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag, if there is one.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, if there is one.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }
}

impl FromStr for ImageReference {
    type Err = ImageRefusal;

    fn from_str(text: &str) -> Result<Self, ImageRefusal> {
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (text, None),
        };
        // A colon before the last slash belongs to the registry's port.
        let path_start = name.rfind('/').map_or(0, |slash| slash + 1);
        let (name, tag) = match name[path_start..].split_once(':') {
            Some((last, tag)) => (&name[..path_start + last.len()], Some(tag)),
            None => (name, None),
        };
        let (registry, repository) = match name.split_once('/') {
            Some((host, rest)) if host.contains(['.', ':']) || host == "localhost" => (Some(host), rest),
            _ => (None, name),
        };
        if registry.is_some_and(|host| !host.bytes().all(is_host_byte))
            || !repository.split('/').all(is_path_component)
        {
            return Err(ImageRefusal::Repository);
        }
        match (tag, digest) {
            (None, None) => return Err(ImageRefusal::Untagged),
            (Some("latest"), None) => return Err(ImageRefusal::Floating),
            _ => {}
        }
        if tag.is_some_and(|tag| !is_tag(tag)) {
            return Err(ImageRefusal::Tag);
        }
        if digest.is_some_and(|digest| !is_digest(digest)) {
            return Err(ImageRefusal::Digest);
        }
        Ok(Self {
            registry: registry.map(Into::into),
            repository: repository.into(),
            tag: tag.map(Into::into),
            digest: digest.map(Into::into),
        })
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(registry) = &self.registry {
            write!(f, "{registry}/")?;
        }
        f.write_str(&self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']')
}

fn is_path_component(component: &str) -> bool {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    bytes.first().copied().is_some_and(is_alphanumeric)
        && bytes.last().copied().is_some_and(is_alphanumeric)
        && bytes.iter().all(|&byte| is_alphanumeric(byte) || matches!(byte, b'.' | b'_' | b'-'))
}

fn is_tag(tag: &str) -> bool {
    tag.len() <= 128
        && !tag.is_empty()
        && !tag.starts_with(['.', '-'])
        && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        !algorithm.is_empty()
            && algorithm.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && hex.len() >= 32
            && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA: &str = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    #[test]
    fn parts_are_told_apart() {
        let digest = format!("quay.io/metallb/speaker@{SHA}");
        let both = format!("quay.io/metallb/speaker:v1@{SHA}");
        let pinned_latest = format!("speaker:latest@{SHA}");
        let table = [
            ("ferrolb.io/ferrolb:v0.1.0", (Some("ferrolb.io"), "ferrolb", Some("v0.1.0"), None)),
            ("localhost/a:1", (Some("localhost"), "a", Some("1"), None)),
            ("192.168.10.5:5000/a/b:1", (Some("192.168.10.5:5000"), "a/b", Some("1"), None)),
            ("library/a:1_2.3-x", (None, "library/a", Some("1_2.3-x"), None)),
            ("a:1", (None, "a", Some("1"), None)),
            (&digest, (Some("quay.io"), "metallb/speaker", None, Some(SHA))),
            (&both, (Some("quay.io"), "metallb/speaker", Some("v1"), Some(SHA))),
            (&pinned_latest, (None, "speaker", Some("latest"), Some(SHA))),
        ];
        for (text, parts) in table {
            let image: ImageReference = text.parse().unwrap();
            assert_eq!((image.registry(), image.repository(), image.tag(), image.digest()), parts, "{text}");
            assert_eq!(image.to_string(), text);
        }
    }

    #[test]
    fn what_floats_or_is_malformed_is_refused() {
        let table = [
            ("", ImageRefusal::Repository),
            (":v1", ImageRefusal::Repository),
            ("host.io/:v1", ImageRefusal::Repository),
            ("host.io/A:v1", ImageRefusal::Repository),
            ("host.io//a:v1", ImageRefusal::Repository),
            ("host.io/a", ImageRefusal::Untagged),
            ("host.io:5000/a", ImageRefusal::Untagged),
            ("a:latest", ImageRefusal::Floating),
            ("a:", ImageRefusal::Tag),
            ("a:.v1", ImageRefusal::Tag),
            ("a:v 1", ImageRefusal::Tag),
            ("a:v1:v2", ImageRefusal::Tag),
            ("a@", ImageRefusal::Digest),
            ("a@sha256:abc", ImageRefusal::Digest),
            ("a:v1@sha256", ImageRefusal::Digest),
        ];
        for (text, refusal) in table {
            assert_eq!(text.parse::<ImageReference>(), Err(refusal), "{text:?}");
        }
    }
}

//! The administrator's list of interfaces that never announce, in MetalLB's format.

use std::io;
use std::path::{Path, PathBuf};

use regex::RegexSet;
use serde::Deserialize;

/// Why the list cannot be used. The process must not run without what it was told to exclude.
#[derive(Debug, thiserror::Error)]
pub enum ExcludeError {
    /// The file is there but cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Not the YAML that is expected.
    #[error("the list of excluded interfaces is no list under announcedInterfacesToExclude")]
    Yaml(#[source] Box<serde_saphyr::Error>),
    /// One of the entries is no regular expression.
    #[error("bad regular expression in the list of excluded interfaces")]
    Pattern(#[source] regex::Error),
}

#[derive(Default, Deserialize)]
struct File {
    #[serde(default, rename = "announcedInterfacesToExclude")]
    patterns: Vec<String>,
}

/// Interfaces that never announce: those whose name matches one of the patterns anywhere.
#[derive(Clone, Debug, Default)]
pub struct Excluded {
    patterns: RegexSet,
}

impl Excluded {
    /// Reads the file; a missing one excludes nothing.
    pub fn read(path: &Path) -> Result<Self, ExcludeError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(ExcludeError::Read { path: path.to_owned(), source }),
        }
    }

    /// Reads the content of the file.
    pub fn parse(text: &str) -> Result<Self, ExcludeError> {
        let file: Option<File> =
            serde_saphyr::from_str(text).map_err(|error| ExcludeError::Yaml(Box::new(error)))?;
        let patterns = RegexSet::new(file.unwrap_or_default().patterns).map_err(ExcludeError::Pattern)?;
        Ok(Self { patterns })
    }

    /// Whether the interface is excluded.
    pub fn contains(&self, name: &str) -> bool {
        self.patterns.is_match(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_anywhere_unless_anchored() {
        let excluded = Excluded::parse(
            "announcedInterfacesToExclude:\n- ^docker.*\n- ^lo$\n- vxlan\n- '(?i)^wg\\d+$'\n",
        )
        .unwrap();
        for (name, expected) in [
            ("docker0", true),
            ("mydocker0", false),
            ("lo", true),
            ("lo1", false),
            ("my-vxlan.7", true),
            ("WG12", true),
            ("ens18", false),
        ] {
            assert_eq!(excluded.contains(name), expected, "{name}");
        }
    }

    #[test]
    fn nothing_excludes_nothing_and_a_wrong_list_is_an_error() {
        for empty in ["", "{}", "announcedInterfacesToExclude: []", "other: 1"] {
            assert!(!Excluded::parse(empty).unwrap().contains("lo"), "{empty}");
        }
        assert!(!Excluded::read(Path::new("/nonexistent/excludel2.yaml")).unwrap().contains("lo"));
        assert!(matches!(Excluded::read(Path::new("/")), Err(ExcludeError::Read { .. })));
        let wrong = Excluded::parse("announcedInterfacesToExclude: lo");
        assert!(matches!(wrong, Err(ExcludeError::Yaml(_))), "{wrong:?}");
        let wrong = Excluded::parse("announcedInterfacesToExclude: ['(']");
        assert!(matches!(wrong, Err(ExcludeError::Pattern(_))), "{wrong:?}");
    }
}

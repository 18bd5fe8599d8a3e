//! Command line options that several processes share.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};

use crate::tls::{MinVersion, Policy, PolicyError};

/// Options of every process.
#[derive(Clone, Debug, Args)]
pub struct CommonArgs {
    /// HTTPS port of /metrics and /log-level; 0 turns both off.
    #[arg(long, value_name = "PORT", default_value_t = 9120)]
    pub port: u16,

    /// HTTP port of the probes /healthz, /livez and /readyz.
    #[arg(long, value_name = "PORT", default_value_t = 17472)]
    pub health_probe_port: u16,

    /// Address on which the probes listen.
    #[arg(long, value_name = "ADDRESS", default_value = "::")]
    pub health_probe_address: IpAddr,

    /// Least important level that is logged. Can be changed at run time: PUT /log-level.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub log_level: Level,

    /// ConfigMap in the own namespace whose key logLevel sets the level while the process runs; --log-level
    /// holds until it is read, and without it.
    #[arg(long, value_name = "NAME")]
    pub log_level_from: Option<String>,

    /// Form of the log lines.
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub log_format: Format,

    /// Directory with tls.crt and tls.key for the metrics port; without it the process makes a
    /// certificate of its own.
    #[arg(long, value_name = "DIR", value_parser = path())]
    pub metrics_cert_dir: Option<PathBuf>,

    /// What HTTPS servers accept.
    #[command(flatten)]
    pub tls: TlsArgs,

    /// Namespace of the configuration and of the product's own objects. Default: the namespace of the
    /// pod's ServiceAccount.
    #[arg(long, value_name = "NAME", env = "METALLB_NAMESPACE")]
    pub namespace: Option<String>,

    /// kubeconfig of the API server. Default: that of KUBECONFIG or ~/.kube/config, else the pod's own access.
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub kubeconfig: Option<PathBuf>,
}

/// A path; an empty one stands for none, as in Go.
fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

impl CommonArgs {
    /// The directory of the certificate, if one was given.
    pub(crate) fn metrics_cert_dir(&self) -> Option<PathBuf> {
        self.metrics_cert_dir.clone().filter(|it| !it.as_os_str().is_empty())
    }

    /// The kubeconfig, if one was given.
    pub(crate) fn kubeconfig(&self) -> Option<PathBuf> {
        self.kubeconfig.clone().filter(|it| !it.as_os_str().is_empty())
    }
}

/// Arguments as Go's programs take them: `-port=1` means `--port=1`. What has one letter stays what it is.
pub(crate) fn as_go_takes_them(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let long = |argument: OsString| match argument.to_str().and_then(|it| it.strip_prefix('-')) {
        Some(name) if name.len() > 1 && name.starts_with(|it: char| it.is_ascii_alphabetic()) => {
            format!("--{name}").into()
        }
        _ => argument,
    };
    let mut arguments = arguments.into_iter();
    let program = arguments.next();
    program.into_iter().chain(arguments.map(long)).collect()
}

/// Options of HTTPS servers, as MetalLB has them.
#[derive(Clone, Debug, Default, Args)]
pub struct TlsArgs {
    /// Lowest version of TLS.
    #[arg(long, value_name = "VERSION", default_value = "VersionTLS13")]
    pub tls_min_version: MinVersion,

    /// Cipher suites of TLS 1.2, by IANA's names with commas between; none: all that are safe.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub tls_cipher_suites: Vec<String>,

    /// Groups of the key exchange, most wanted first, by name or IANA's number with commas between; none:
    /// all that are safe.
    #[arg(long, value_name = "GROUPS", value_delimiter = ',')]
    pub tls_curve_preferences: Vec<String>,
}

impl TlsArgs {
    /// What the options say; an error names the one that is wrong.
    pub fn policy(&self) -> anyhow::Result<Policy> {
        let policy = Policy::new(self.tls_min_version, &self.tls_cipher_suites, &self.tls_curve_preferences);
        policy.map_err(|error| {
            let of_curves = matches!(error, PolicyError::Curve { .. } | PolicyError::DuplicateCurve(_));
            let flag = if of_curves { "tls-curve-preferences" } else { "tls-cipher-suites" };
            anyhow::Error::new(error).context(format!("parsing {flag}"))
        })
    }
}

/// Log levels as MetalLB spells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// Everything, libraries included.
    All,
    /// Decisions in detail.
    Debug,
    /// What changed.
    Info,
    /// What may be wrong.
    Warn,
    /// What is wrong.
    Error,
    /// Nothing.
    None,
}

/// Form of the log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object a line, with the keys of MetalLB's logs (ts, level, caller, msg).
    Json,
    /// For people at a terminal.
    Text,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        common: CommonArgs,
    }

    fn parse(arguments: &[&str]) -> CommonArgs {
        let arguments = ["-program"].iter().chain(arguments).map(OsString::from);
        Program::try_parse_from(as_go_takes_them(arguments)).unwrap().common
    }

    #[test]
    fn one_dash_is_as_good_as_two() {
        let args = parse(&["-port=1", "-log-level", "debug", "--health-probe-port=2"]);
        assert_eq!((args.port, args.log_level, args.health_probe_port), (1, Level::Debug, 2));
        let kept = ["-h", "-", "--x", "-1"].map(OsString::from);
        assert_eq!(as_go_takes_them([OsString::new()].into_iter().chain(kept.clone()))[1..], kept);
    }

    #[test]
    fn what_is_empty_is_the_default() {
        let args = parse(&[
            "--metrics-cert-dir=",
            "--kubeconfig=",
            "--tls-min-version=",
            "--tls-curve-preferences=",
        ]);
        assert_eq!((args.metrics_cert_dir(), args.kubeconfig()), (None, None));
        assert_eq!(args.tls.tls_min_version, MinVersion::Tls13);
        args.tls.policy().unwrap();
        let args = parse(&["--tls-cipher-suites=FAKE_CIPHER"]);
        assert_eq!(args.tls.policy().unwrap_err().to_string(), "parsing tls-cipher-suites");
        let args = parse(&["--kubeconfig=/etc/kubernetes/admin.conf"]);
        assert_eq!(args.kubeconfig(), Some("/etc/kubernetes/admin.conf".into()));
    }
}

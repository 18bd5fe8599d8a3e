//! The command line: `hack/lab …`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::{Attempt, Result};
use crate::image::{self, ImageFile, ImageName};
use crate::keeper::{self, KeeperArgs};
use crate::lab::Lab;
use crate::layout::{Layout, absolute};
use crate::progress::Progress;
use crate::status;

/// A three-node Kubernetes with a router and a client, in network namespaces of this machine.
#[derive(Debug, Parser)]
#[command(name = "hack/lab", bin_name = "hack/lab", version, disable_help_subcommand = true)]
pub struct Args {
    /// Folder of the lab: state, logs, keys, disks of the hosts [default: $XDG_STATE_HOME or /var/tmp, then ferrolb-lab].
    #[arg(long, env = "FERROLB_LAB", global = true)]
    dir: Option<PathBuf>,
    /// Folder with the Kubernetes binaries [default: what hack/setup built].
    #[arg(long, env = "FERROLB_TOOLS", global = true)]
    tools: Option<PathBuf>,
    #[command(subcommand)]
    verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Start the cluster, without the product.
    Up,
    /// Remove the cluster and everything it left.
    Down,
    /// Show hosts, daemons and nodes.
    Status,
    /// Print the path of the administrator's kubeconfig.
    Kubeconfig,
    /// Push the product's image, apply config/default, wait until the operator is ready.
    Install {
        /// The image.
        #[arg(long, default_value = "target/image/ferrolb.tar")]
        image: PathBuf,
        /// The folder with the kustomization.
        #[arg(long, default_value = "config/default")]
        manifests: PathBuf,
    },
    /// Run a command on a host: `exec client curl http://192.168.10.200/`.
    Exec {
        /// The host.
        host: String,
        /// Program and arguments; a shell if there is none.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<OsString>,
    },
    /// Run kubectl as administrator.
    Kubectl {
        /// Its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Pull a host's cable.
    Cut {
        /// The host.
        host: String,
    },
    /// Plug it in again.
    Heal {
        /// The host.
        host: String,
    },
    /// Drop what two hosts send each other to a TCP or UDP port.
    Block {
        /// One host.
        a: String,
        /// The other.
        b: String,
        /// The port.
        port: u16,
    },
    /// Let it through again.
    Unblock {
        /// One host.
        a: String,
        /// The other.
        b: String,
        /// The port.
        port: u16,
    },
    /// Drop a share of the frames between two hosts, both ways; 0 heals.
    Loss {
        /// One host.
        a: String,
        /// The other.
        b: String,
        /// How many of a hundred.
        #[arg(value_parser = clap::value_parser!(u8).range(0..=100))]
        percent: u8,
    },
    /// Take the API server away, and give it back.
    Api {
        /// How.
        #[command(subcommand)]
        fault: ApiFault,
    },
    /// Push an image archive into the registry, under the names it carries.
    Push {
        /// A docker-archive.
        archive: PathBuf,
    },
    /// Write an image archive with one layer: `image OUT.tar NAME:TAG TARGET=FILE…`.
    Image {
        /// The archive to write.
        out: PathBuf,
        /// The name of the image.
        reference: String,
        /// As container images call it.
        #[arg(long, default_value = "amd64")]
        architecture: String,
        /// User and group where a pod names none.
        #[arg(long)]
        user: Option<String>,
        /// A label, as often as wanted.
        #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
        labels: Vec<(String, String)>,
        /// Name in the image, and file.
        #[arg(required = true, value_parser = image_file)]
        files: Vec<ImageFile>,
    },
    /// Show the log of a daemon of the lab, or which there are.
    Logs {
        /// Such as `k8s-node-1-kubelet`.
        daemon: Option<String>,
    },
    /// The first process of a host (started by `up`).
    #[command(hide = true)]
    Keeper(KeeperArgs),
}

#[derive(Debug, Subcommand)]
enum ApiFault {
    /// End it: connections are refused.
    Stop,
    /// Start it again.
    Start,
    /// Freeze it: connections hang.
    Pause,
    /// Let it go on.
    Resume,
}

fn image_file(text: &str) -> std::result::Result<ImageFile, String> {
    let (target, source) = text.split_once('=').ok_or("expected TARGET=FILE")?;
    Ok(ImageFile { target: target.trim_start_matches('/').to_owned(), source: source.into() })
}

fn label(text: &str) -> std::result::Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Does what the command line says.
///
/// # Errors
/// It cannot be done; the error says why and what to do.
pub fn run(args: Args) -> Result<ExitCode> {
    let layout = Layout::new(args.dir.as_deref().map(absolute), args.tools.as_deref().map(absolute));
    let lab = || Lab::open(&layout);
    match args.verb {
        Verb::Keeper(args) => keeper::run(&args)?,
        Verb::Up => status::introduce(&layout)?,
        Verb::Down => {
            let found = Lab::down(&layout)?;
            eprintln!("{}", if found { "The lab is gone; nothing of it is left." } else { "No lab was up." });
        }
        Verb::Status => status::print(&layout)?,
        Verb::Kubeconfig => println!("{}", lab()?.layout.kubeconfig().display()),
        Verb::Install { image, manifests } => lab()?.install(&image, &manifests, &Progress::new())?,
        Verb::Exec { host, command } => {
            let command = if command.is_empty() { vec!["bash".into()] } else { command };
            return Ok(status::exit_code(lab()?.host(&host)?.attached(&command)?));
        }
        Verb::Kubectl { arguments } => {
            let error = lab()?.kubectl_command().args(arguments).exec();
            Err(error).attempt(|| "run kubectl".to_owned())?;
        }
        Verb::Cut { host } => lab()?.cut(&host)?,
        Verb::Heal { host } => lab()?.heal(&host)?,
        Verb::Block { a, b, port } => lab()?.block(&a, &b, port)?,
        Verb::Unblock { a, b, port } => lab()?.unblock(&a, &b, port)?,
        Verb::Loss { a, b, percent } => lab()?.loss(&a, &b, percent)?,
        Verb::Api { fault } => api(&lab()?, &fault)?,
        Verb::Push { archive } => println!("{}", lab()?.push(&archive)?.join("\n")),
        Verb::Image { out, reference, architecture, user, labels, files } => {
            let labels = labels.into_iter().collect();
            let name = ImageName { architecture, user, labels, ..ImageName::new(reference) };
            image::write(&out, &files, &[name])?;
        }
        Verb::Logs { daemon } => status::logs(&lab()?, daemon.as_deref())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn api(lab: &Lab, fault: &ApiFault) -> Result<()> {
    match fault {
        ApiFault::Stop => lab.api_stop(),
        ApiFault::Start => lab.api_start(&Progress::new()),
        ApiFault::Pause => lab.api_pause(),
        ApiFault::Resume => lab.api_resume(),
    }
}

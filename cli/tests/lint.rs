//! `kubectl ferrolb lint` as a program: what it reads, and its exit status.

#![expect(clippy::unwrap_used, reason = "a test that meets the unexpected ends there")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const GOOD: &str = "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: good}\nspec: {addresses: [10.0.0.0/24]}\n";
const BAD: &str = "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: bad}\nspec: {addresses: [10.0.9.0/33]}\n";
const DANGLING: &str = "apiVersion: metallb.io/v1beta1\nkind: L2Advertisement\nmetadata: {name: adv}\nspec: {ipAddressPools: [nowhere]}\n";

fn lint(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-ferrolb"));
    command.arg("lint").args(arguments);
    command
}

fn run(command: &mut Command) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn file(directory: &TempDir, name: &str, text: &str) -> String {
    let path = directory.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_status_tells_errors_from_warnings() {
    let directory = TempDir::new().unwrap();
    let good = file(&directory, "good.yaml", GOOD);
    let (status, text, _) = run(&mut lint(&[&good]));
    assert_eq!((status, text.as_str()), (Some(0), "0 errors, 0 warnings; 1 object in 1 file\n"));
    let dangling = file(&directory, "dangling.yaml", DANGLING);
    let (status, text, _) = run(&mut lint(&[&good, &dangling]));
    assert!(status == Some(0) && text.contains("warning[unresolved]") && text.contains("nowhere"), "{text}");
    let bad = file(&directory, "bad.yaml", BAD);
    let (status, text, _) = run(&mut lint(&[&good, &bad]));
    assert_eq!(status, Some(1));
    assert!(text.contains(&format!("{bad}:4:20")) && text.contains("^^^^^^^^^^^"), "{text}");
}

#[test]
fn what_cannot_be_checked_is_another_status() {
    let directory = TempDir::new().unwrap();
    let missing = directory.path().join("missing.yaml");
    let (status, _, error) = run(&mut lint(&[missing.to_str().unwrap()]));
    assert!(status == Some(2) && error.contains("missing.yaml"), "{error}");
    let (status, _, error) = run(&mut lint(&[directory.path().to_str().unwrap()]));
    assert!(status == Some(2) && error.contains("holds no file that ends in .yaml"), "{error}");
    for usage in [&[][..], &["--output=xml", "-"], &["--context=c", "-"]] {
        assert_eq!(run(&mut lint(usage)).0, Some(2), "{usage:?}");
    }
}

#[test]
fn directories_and_standard_input_are_read() {
    let directory = TempDir::new().unwrap();
    file(&directory, "b/bad.yml", BAD);
    file(
        &directory,
        "a.json",
        r#"{"apiVersion": "metallb.io/v1beta1", "kind": "Community", "metadata": {"name": "c"}}"#,
    );
    file(&directory, "notes.txt", "kind: [");
    let (status, text, _) = run(&mut lint(&["--output=github", directory.path().to_str().unwrap()]));
    assert_eq!(status, Some(1));
    assert!(text.starts_with("::error file=") && text.contains("/b/bad.yml,line=4"), "{text}");

    let mut child = lint(&["-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(BAD.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(1) && text.contains("<stdin>:4:20"), "{text}");
}

/// A kubectl that holds one pool, and nothing of any other kind.
fn kubectl(directory: &Path) -> String {
    let pool = r#"{"apiVersion":"metallb.io/v1beta1","kind":"IPAddressPool","metadata":{"name":"stored","namespace":"ns","creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"addresses":["10.0.0.0/16"]}}"#;
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in\n*broken*) echo 'no such context' >&2; exit 1 ;;\n*ipaddresspools*--namespace=ns*--context=c*) echo '{{\"items\":[{pool}]}}' ;;\n*) echo '{{\"items\":[]}}' ;;\nesac\n"
    );
    let path = directory.join("kubectl");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:/usr/bin:/bin", directory.display())
}

#[test]
fn the_cluster_is_asked_through_kubectl() {
    let directory = TempDir::new().unwrap();
    let path = kubectl(directory.path());
    let of = |arguments: &[&str]| {
        run(lint(&[&["--cluster", "--namespace=ns"], arguments].concat()).env("PATH", &path))
    };
    let (status, text, _) = of(&["--context=c"]);
    assert_eq!(status, Some(0), "{text}");
    let good = file(&directory, "good.yaml", GOOD);
    let (status, text, _) = of(&["--context=c", &good]);
    assert_eq!(status, Some(1));
    assert!(text.contains("overlaps with already defined CIDR") && text.contains("good.yaml"), "{text}");
    let (status, _, error) = of(&["--context=broken"]);
    assert!(status == Some(2) && error.contains("no such context"), "{error}");
}

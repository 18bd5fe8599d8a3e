//! Applies at a steady rate: what `kubectl apply --server-side` asks for, without a process for each.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use super::{NAMESPACE, Product};

/// `kubectl proxy`: the API server by plain HTTP.
pub struct Proxy {
    process: Child,
    address: String,
}

impl Proxy {
    pub fn start(product: &Product) -> Self {
        let mut command = product.lab.kubectl_command();
        let mut process = command.args(["proxy", "--port=0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().to_owned();
        Self { process, address }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An object that is applied, by its plural and content.
#[derive(Clone, Copy)]
pub struct Applied<'a> {
    pub plural: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
    /// What follows the metadata.
    pub rest: &'a str,
}

/// What the API server said to one apply.
#[derive(Debug)]
pub struct Answer {
    pub code: String,
    pub took: Duration,
    pub body: String,
}

impl Answer {
    pub fn is_taken(&self) -> bool {
        ["200", "201"].contains(&self.code.as_str())
    }
}

/// Applies that go on.
pub struct Load {
    curl: Child,
    answers: PathBuf,
    _folder: TempDir,
}

impl Load {
    /// Applies the object so many times a second, each time with another annotation, for so long at most.
    pub fn start(proxy: &Proxy, object: Applied<'_>, rate: u64, limit: Duration) -> Self {
        let Applied { plural, kind, name, rest } = object;
        let mut requests = String::new();
        for turn in 0..limit.as_secs() * rate {
            let body = format!(
                r#"{{"apiVersion": "metallb.io/v1beta1", "kind": "{kind}", "metadata": {{"name": "{name}", "annotations": {{"turn": "{turn}"}}}}{rest}}}"#
            );
            let path = format!("apis/metallb.io/v1beta1/namespaces/{NAMESPACE}/{plural}/{name}");
            let separator = if turn == 0 { "" } else { "next\n" };
            write!(
                requests,
                "{separator}url = \"http://{}/{path}?fieldManager=load&pretty=false\"\nrequest = PATCH\nheader = \"content-type: application/apply-patch+yaml\"\ndata = {}\nsilent\nmax-time = 10\nwrite-out = \"\\n%{{http_code}} %{{time_total}}\\n\"\n",
                proxy.address,
                serde_json::to_string(&body).unwrap(),
            )
            .unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let (file, answers) = (folder.path().join("requests"), folder.path().join("answers"));
        std::fs::write(&file, requests).unwrap();
        let curl = Command::new("curl")
            .args(["--rate", &format!("{rate}/s"), "--config"])
            .arg(&file)
            .stdout(std::fs::File::create(&answers).unwrap())
            .spawn()
            .unwrap();
        Self { curl, answers, _folder: folder }
    }

    /// All answers, once the limit is reached.
    pub fn wait(mut self) -> Vec<Answer> {
        let _ = self.curl.wait();
        self.read()
    }

    /// The answers so far; no more is asked.
    pub fn end(mut self) -> Vec<Answer> {
        let _ = self.curl.kill();
        self.wait()
    }

    fn read(&self) -> Vec<Answer> {
        let text = std::fs::read_to_string(&self.answers).unwrap();
        let mut answers = Vec::new();
        let mut body = String::new();
        for line in text.lines() {
            // What curl writes after each answer.
            let end = line.split_once(' ').filter(|(code, _)| code.len() == 3 && code.parse::<u16>().is_ok());
            match end.and_then(|(code, time)| Some((code.to_owned(), time.parse().ok()?))) {
                Some((code, took)) => {
                    let took = Duration::from_secs_f64(took);
                    answers.push(Answer { code, took, body: std::mem::take(&mut body) });
                }
                None => body.push_str(line),
            }
        }
        answers
    }
}

//! From texts (and what a cluster holds) to findings. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferrolb_api::conversion::to_v1beta2;
use ferrolb_api::v1beta1;
use ferrolb_api::well_known::{ADDED_GROUP, GROUP};
use ferrolb_core::admission::{Candidate, Operation, Verdict, admit};
use ferrolb_core::config::{Diagnostic, Kind, ObjectRef, Severity, compile};
use ferrolb_core::resources::Resources;
use serde::de::DeserializeOwned;

use super::document::{self, Node, Value};
use super::schema::{self, nearest, violations};
use super::{Finding, Place, Rule, Source};

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// In the order of the sources; what is about the cluster last.
    pub(crate) findings: Vec<Finding>,
    /// How many objects of ours the sources hold.
    pub(crate) objects: usize,
}

/// Checks the objects of the sources, together with those of a cluster (if any), which they replace.
pub(crate) fn check(sources: &[Source], cluster: Resources, namespace: &str) -> Checked {
    let mut checked = Checked::default();
    let mut documents = Vec::new();
    for (source, text) in sources.iter().enumerate() {
        let (read, errors) = document::read(&text.text);
        documents.extend(read.into_iter().map(|document| (source, document)));
        checked.findings.extend(errors.into_iter().map(|error| Finding {
            rule: Rule::Syntax,
            place: Some(Place { source, span: error.span }),
            object: String::new(),
            field: String::new(),
            message: error.message,
            help: String::new(),
        }));
    }
    let mut known = BTreeMap::new();
    let mut resources = cluster;
    for (source, document) in &documents {
        for node in objects(document) {
            let object = match Object::of(*source, node) {
                Ok(object) => object,
                Err(problem) => {
                    checked.findings.extend(problem.map(|it| *it));
                    continue;
                }
            };
            checked.objects += 1;
            let candidate = object.check(namespace, &mut checked.findings);
            let Some((reference, candidate)) = candidate else { continue };
            if let Some(earlier) = known.insert(reference.clone(), object) {
                checked.findings.push(repeated(&reference, &object, &earlier, sources));
            }
            resources = put(resources, candidate);
        }
    }
    // Where the schema objects already, the compiler says the same again.
    let of_schema = checked.findings.iter().filter(|it| it.rule == Rule::Schema);
    let said: BTreeSet<_> = of_schema.filter_map(|it| it.place.as_ref().map(Place::key)).collect();
    let found = compile(&resources).diagnostics;
    let found = found.iter().map(|it| of_compiler(it, known.get(&it.object)));
    checked
        .findings
        .extend(found.filter(|it| it.place.as_ref().is_none_or(|place| !said.contains(&place.key()))));
    checked.findings.sort_by(|a, b| {
        let place =
            |it: &Finding| (it.place.is_none(), it.place.as_ref().map(|it| (it.source, it.span.start)));
        (place(a), a.rule, &a.object, &a.message).cmp(&(place(b), b.rule, &b.object, &b.message))
    });
    checked
}

/// The objects of a document: one, or those of a list.
fn objects(document: &Node) -> Vec<&Node> {
    let is_list = document.text_at(&["kind"]).is_some_and(|kind| kind.ends_with("List"));
    match document.get("items").map(|entry| &entry.node.value) {
        Some(Value::List(items)) if is_list => items.iter().collect(),
        _ => vec![document],
    }
}

/// An object of our API groups in a source.
#[derive(Clone, Copy)]
struct Object<'a> {
    source: usize,
    node: &'a Node,
    group: &'a str,
    version: &'a str,
    kind: &'a str,
}

impl<'a> Object<'a> {
    /// The object; else what is wrong, if it is meant to be one of ours.
    fn of(source: usize, node: &'a Node) -> Result<Self, Option<Box<Finding>>> {
        let written = node.text_at(&["apiVersion"]).ok_or(None)?;
        let (group, version) = written.split_once('/').unwrap_or((written, ""));
        let kind = node.text_at(&["kind"]);
        let groups = || [GROUP, ADDED_GROUP].into_iter();
        let object = Self { source, node, group, version, kind: kind.unwrap_or_default() };
        let problem = |field, message: String, help: String| {
            Err(Some(Box::new(object.finding(Rule::UnknownKind, field, message, help))))
        };
        if !groups().any(|it| it == group) {
            // Other products have kinds of these names, too, so only a slip is one.
            let is_ours = schema::has_kind(object.kind);
            return match nearest(group, groups()).filter(|_| is_ours) {
                Some(near) => problem(
                    "apiVersion",
                    format!("{group:?} is no group of ours"),
                    format!("did you mean {near}?"),
                ),
                None => Err(None),
            };
        }
        match kind {
            None => problem("kind", "kind is missing".to_owned(), String::new()),
            Some(_) => Ok(object),
        }
    }

    fn finding(&self, rule: Rule, field: &str, message: String, help: String) -> Finding {
        let name = self.node.text_at(&["metadata", "name"]).unwrap_or_default();
        let span =
            if rule == Rule::UnknownField { self.node.locate_key(field) } else { self.node.locate(field) };
        Finding {
            rule,
            place: Some(Place { source: self.source, span }),
            object: format!("{} {name:?}", self.kind),
            field: field.to_owned(),
            message,
            help,
        }
    }

    /// What is wrong with the object in itself; what there is to compile.
    fn check(&self, namespace: &str, findings: &mut Vec<Finding>) -> Option<(ObjectRef, Candidate)> {
        let violations = violations(self.group, self.version, self.kind, self.node);
        let readable = violations.is_empty();
        findings
            .extend(violations.into_iter().map(|it| self.finding(it.rule, &it.field, it.message, it.help)));
        let name = self.node.text_at(&["metadata", "name"]);
        let metadata = self.node.get("metadata").map(|it| &it.node);
        let has = |field: &str| metadata.is_some_and(|it| it.get(field).is_some());
        if !has("name") && !has("generateName") {
            let message = "metadata.name is missing".to_owned();
            let help = "give the object a name".to_owned();
            findings.push(self.finding(Rule::Schema, "metadata.name", message, help));
        }
        if let Some(name) = name.filter(|name| !is_name(name)) {
            let message = format!("metadata.name {name:?} is no name");
            let help = "write up to 253 lower-case letters, digits, - and ., a letter or digit at both ends";
            findings.push(self.finding(Rule::Schema, "metadata.name", message, help.to_owned()));
        }
        let (kind, candidate) = match decode(self.version, self.kind, self.node.to_json()) {
            Ok(decoded) => decoded?,
            Err((field, message)) => {
                // Else the schema said so already.
                if readable {
                    findings.push(self.finding(Rule::Schema, &field, message, String::new()));
                }
                return None;
            }
        };
        let Some(kind) = kind else {
            self.admit(candidate, namespace, findings);
            return None;
        };
        let elsewhere = self.node.text_at(&["metadata", "namespace"]).filter(|it| *it != namespace);
        if elsewhere.is_some() {
            let message = format!("resource must be created in {namespace} namespace");
            let help = "correct the namespace, or name the product's with --namespace".to_owned();
            findings.push(self.finding(Rule::Namespace, "metadata.namespace", message, help));
            return None;
        }
        Some((ObjectRef::new(kind, name.unwrap_or_default()), candidate))
    }

    /// What is no part of the compiled configuration, as admission sees it.
    fn admit(&self, candidate: Candidate, namespace: &str, findings: &mut Vec<Finding>) {
        match admit(&Resources::default(), candidate, Operation::Create, namespace) {
            Verdict::Allowed { warnings } => findings.extend(
                warnings.into_iter().map(|it| self.finding(Rule::Deprecated, "spec", it, String::new())),
            ),
            Verdict::Denied { message } | Verdict::Unreadable { message } => {
                findings.push(self.finding(Rule::Invalid, "spec", message, String::new()));
            }
        }
    }
}

fn repeated(reference: &ObjectRef, again: &Object<'_>, earlier: &Object<'_>, sources: &[Source]) -> Finding {
    let name = sources.get(earlier.source).map_or("", |source| &source.name);
    let message = format!("{reference} is here again: whichever is applied last counts");
    let help = format!("the other one is in {name}: remove or rename one");
    again.finding(Rule::Repeated, "metadata.name", message, help)
}

fn of_compiler(diagnostic: &Diagnostic, object: Option<&Object<'_>>) -> Finding {
    let rule = match diagnostic.severity() {
        Severity::Invalid => Rule::Invalid,
        Severity::Unresolved => Rule::Unresolved,
        Severity::Deprecated => Rule::Deprecated,
        Severity::Doubtful => Rule::Doubtful,
    };
    Finding {
        rule,
        place: object.map(|it| Place { source: it.source, span: it.node.locate(&diagnostic.field) }),
        object: diagnostic.object.to_string(),
        field: diagnostic.field.clone(),
        message: diagnostic.message.to_string(),
        help: diagnostic.remedy(),
    }
}

const CONFIGURATION: [Kind; 7] = [
    Kind::BfdProfile,
    Kind::BgpPeer,
    Kind::Community,
    Kind::IpAddressPool,
    Kind::AddressReservation,
    Kind::L2Advertisement,
    Kind::BgpAdvertisement,
];

/// Whether Kubernetes takes it for a name (RFC 1123).
fn is_name(text: &str) -> bool {
    let is_edge = |byte: Option<u8>| byte.is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit());
    let is_part = |part: &str| {
        let known = part.bytes().all(|it| it == b'-' || is_edge(Some(it)));
        known && is_edge(part.bytes().next()) && is_edge(part.bytes().last())
    };
    text.len() <= 253 && text.split('.').all(is_part)
}

/// A value of its type, with its kind if it is of the configuration; none for kinds that nobody writes.
type Decoded = Option<(Option<Kind>, Candidate)>;
/// The field that cannot be read, and why.
type Unreadable = (String, String);

/// The object as a value of its type.
fn decode(version: &str, kind: &str, object: serde_json::Value) -> Result<Decoded, Unreadable> {
    fn read<K: DeserializeOwned>(object: serde_json::Value) -> Result<Arc<K>, Unreadable> {
        let read = serde_path_to_error::deserialize(object);
        read.map(Arc::new).map_err(|error| (error.path().to_string(), error.to_string()))
    }
    if kind == "MetalLB" {
        return Ok(Some((None, Candidate::MetalLb { object: read(object)?, old: None })));
    }
    let Some(kind) = CONFIGURATION.into_iter().find(|it| it.to_string() == kind) else { return Ok(None) };
    let candidate = match kind {
        Kind::BfdProfile => Candidate::BfdProfile(read(object)?),
        Kind::BgpPeer if version == "v1beta1" => {
            let old: Arc<v1beta1::BGPPeer> = read(object)?;
            let peer = to_v1beta2(Arc::unwrap_or_clone(old))
                .map_err(|error| ("metadata.annotations".to_owned(), error.to_string()))?;
            Candidate::BgpPeer(Arc::new(peer))
        }
        Kind::BgpPeer => Candidate::BgpPeer(read(object)?),
        Kind::Community => Candidate::Community(read(object)?),
        Kind::IpAddressPool => Candidate::IpAddressPool(read(object)?),
        Kind::AddressReservation => Candidate::AddressReservation(read(object)?),
        Kind::L2Advertisement => Candidate::L2Advertisement(read(object)?),
        Kind::BgpAdvertisement => Candidate::BgpAdvertisement(read(object)?),
    };
    Ok(Some((Some(kind), candidate)))
}

fn put(resources: Resources, candidate: Candidate) -> Resources {
    match candidate {
        Candidate::IpAddressPool(it) => resources.with_pools([it]),
        Candidate::AddressReservation(it) => resources.with_reservations([it]),
        Candidate::L2Advertisement(it) => resources.with_l2_advertisements([it]),
        Candidate::BgpAdvertisement(it) => resources.with_bgp_advertisements([it]),
        Candidate::BgpPeer(it) => resources.with_bgp_peers([it]),
        Candidate::BfdProfile(it) => resources.with_bfd_profiles([it]),
        Candidate::Community(it) => resources.with_communities([it]),
        Candidate::MetalLb { .. } => resources,
    }
}

#[cfg(test)]
mod tests;

//! From objects to the configuration in force: the only validation there is. Admission, controller,
//! speakers and command line all ask this one function.
//!
//! Decided here:
//! - every finding is reported, not only the first, and the bad object alone is left out;
//! - the result does not depend on the order of the input: where two objects exclude each other (pools that
//!   overlap, peers that are the same router for a node, aliases of one name, preferences of one prefix),
//!   the one that was created later is to blame (by creation time, then by name; one without a creation
//!   time is not stored yet and so the latest). An object that is left out excludes nobody;
//! - two objects exclude each other only where one node gets both;
//! - what is not known is not said to be missing: without any Node no node selector dangles, and without
//!   Secrets no password is missing.

mod advertisements;
mod peers;
mod pools;
mod reservations;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::communities::{Aliases, AnyCommunity};
use super::diagnostic::{CommunityProblem, Diagnostic, Kind, Message, ObjectRef};
use super::lookup::Lookup;
use super::{BfdProfile, Config, bfd};
use crate::resources::Resources;
use crate::selector::Labels;

/// What [`compile`] makes of the objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Compiled {
    /// What is in force.
    pub config: Config,
    /// Everything that is wrong, by object.
    pub diagnostics: Vec<Diagnostic>,
}

/// Compiles the configuration. Total: it has a result for every input.
pub fn compile(resources: &Resources) -> Compiled {
    compile_with_last(resources, None)
}

/// As [`compile`], but this object counts as the latest, whatever its creation time: so a change that makes
/// an old object exclude another is blamed on the change.
pub(crate) fn compile_with_last(resources: &Resources, last: Option<&ObjectRef>) -> Compiled {
    let no_labels = Labels::new();
    let pools = resources.pools.iter();
    let mut compiling = Compiling {
        resources,
        last,
        nodes: Lookup::new(resources.nodes.iter().map(|(name, node)| (name.as_str(), &node.labels))),
        pools: Lookup::new(
            pools.map(|(name, pool)| (name.as_str(), pool.metadata.labels.as_ref().unwrap_or(&no_labels))),
        ),
        compiled: Compiled::default(),
    };
    let profiles = compiling.bfd_profiles();
    compiling.peers(&profiles);
    let aliases = compiling.aliases();
    compiling.address_pools();
    compiling.reservations();
    compiling.l2_advertisements();
    compiling.bgp_advertisements(&aliases);
    let mut compiled = compiling.compiled;
    compiled.diagnostics.sort_by(|a, b| a.object.cmp(&b.object));
    compiled
}

struct Compiling<'a> {
    resources: &'a Resources,
    last: Option<&'a ObjectRef>,
    nodes: Lookup<'a>,
    pools: Lookup<'a>,
    compiled: Compiled,
}

/// Nodes that an object is for; none: all.
type Concern = Option<Arc<BTreeSet<String>>>;

impl<'a> Compiling<'a> {
    /// Reports findings; true if one of them leaves the object out.
    fn report<P>(
        &mut self,
        object: &ObjectRef,
        nodes: &Concern,
        findings: Vec<(String, P)>,
        message: impl Fn(P) -> Message,
    ) -> bool {
        let mut left_out = false;
        for (field, problem) in findings {
            let (object, nodes) = (object.clone(), nodes.clone());
            let diagnostic = Diagnostic { object, field, message: message(problem), nodes };
            left_out |= diagnostic.leaves_out();
            self.compiled.diagnostics.push(diagnostic);
        }
        left_out
    }

    /// Objects of a kind, those first that others give way to.
    fn by_age<K>(
        &self,
        kind: Kind,
        objects: &'a BTreeMap<String, Arc<K>>,
        metadata: impl Fn(&K) -> &ObjectMeta,
    ) -> Vec<(&'a String, &'a K)> {
        let last = self.last.filter(|last| last.kind == kind).map(|last| last.name.as_str());
        let mut objects: Vec<(&String, &K)> = objects.iter().map(|(name, it)| (name, &**it)).collect();
        let key = |(name, object): &(&'a String, &'a K)| {
            // No time is later than any.
            let created = metadata(object).creation_timestamp.as_ref();
            (last == Some(name.as_str()), created.is_none(), created.map(|time| time.0), *name)
        };
        objects.sort_by(|a, b| key(a).cmp(&key(b)));
        objects
    }

    /// The profiles that are right, by name.
    fn bfd_profiles(&mut self) -> BTreeMap<String, BfdProfile> {
        let mut profiles = BTreeMap::new();
        for (name, object) in &self.resources.bfd_profiles {
            let (profile, findings) = bfd::parse(object);
            let reference = ObjectRef::new(Kind::BfdProfile, name);
            let message = |problem| Message::BfdProfile { profile: name.clone(), problem };
            if !self.report(&reference, &None, findings, message) {
                profiles.insert(name.clone(), profile);
            }
        }
        profiles
    }

    /// What the aliases of communities stand for. Of an object with a wrong alias the others count.
    fn aliases(&mut self) -> Aliases {
        let mut aliases = Aliases::new();
        let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
        for (name, object) in self.by_age(Kind::Community, &self.resources.communities, |it| &it.metadata) {
            for (index, entry) in object.spec.communities.iter().enumerate() {
                let path = |field: &str| format!("spec.communities[{index}].{field}");
                let mut findings = Vec::new();
                if let Some(earlier) = owners.get(entry.name.as_str()) {
                    let problem = CommunityProblem::Repeated { earlier: (*earlier).to_owned() };
                    findings.push((path("name"), problem));
                }
                match entry.value.parse::<AnyCommunity>() {
                    Ok(community) if findings.is_empty() => {
                        owners.insert(&entry.name, name);
                        aliases.insert(entry.name.clone(), community);
                    }
                    Ok(_) => {}
                    Err(error) => findings.push((path("value"), CommunityProblem::Value(error))),
                }
                let reference = ObjectRef::new(Kind::Community, name);
                let alias = |problem| Message::Community { alias: entry.name.clone(), problem };
                self.report(&reference, &None, findings, alias);
            }
        }
        aliases
    }
}

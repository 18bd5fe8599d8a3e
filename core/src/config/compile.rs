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
mod cluster;
mod peers;
mod pools;
mod preferences;
mod reservations;
mod routers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferrolb_api::v1beta1::{BGPAdvertisement, IPAddressPool, L2Advertisement};
use ferrolb_api::v1beta2::BGPPeer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use self::cluster::Cluster;
use self::pools::Pools;
use super::communities::{Aliases, AnyCommunity};
use super::diagnostic::{CommunityProblem, Diagnostic, Kind, Message, ObjectRef};
use super::kept::Kept;
use super::lookup::{Labelled, Lookup};
use super::pools::Parsed;
use super::{BfdProfile, Config, bfd};
use crate::config;
use crate::node::Node;
use crate::resources::Resources;
use crate::selector::{FixedLabels, Labels};

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
    Compiler::default().compile(resources)
}

/// Compiles again and again: what was read of objects that are still the same ones is kept. The result is
/// that of [`compile`].
#[derive(Debug, Default)]
pub struct Compiler {
    namespaces: BTreeMap<String, Labels>,
    cluster: Cluster,
    pools: Kept<IPAddressPool, Parsed>,
    all_pools: Pools,
    peers: Kept<BGPPeer, config::peers::Reading>,
    l2_advertisements: Kept<L2Advertisement, config::advertisements::Reading>,
    bgp_advertisements: Kept<BGPAdvertisement, config::bgp_advertisements::Reading>,
    resolved_peers: peers::All,
    resolved: advertisements::All,
    of_pools: Lookup,
    nodes: BTreeMap<String, Node>,
    of_nodes: Lookup,
}

impl Compiler {
    /// As [`compile`].
    pub fn compile(&mut self, resources: &Resources) -> Compiled {
        self.compile_with_last(resources, None)
    }

    /// As [`compile`], but this object counts as the latest, whatever its creation time: so a change that
    /// makes an old object exclude another is blamed on the change.
    pub(crate) fn compile_with_last(&mut self, resources: &Resources, last: Option<&ObjectRef>) -> Compiled {
        self.read(resources);
        let mut compiling = Compiling {
            resources,
            last,
            nodes: &mut self.of_nodes,
            pools: &mut self.of_pools,
            readings: &self.pools,
            compiled: Compiled::default(),
        };
        let profiles = compiling.bfd_profiles();
        compiling.peers(&self.peers, &profiles, &mut self.resolved_peers);
        let aliases = compiling.aliases();
        compiling.address_pools(&mut self.all_pools);
        compiling.reservations();
        self.resolved.refresh(resources, &aliases, [compiling.pools.version(), compiling.nodes.version()]);
        compiling.l2_advertisements(&self.l2_advertisements, &mut self.resolved);
        compiling.bgp_advertisements(&self.bgp_advertisements, &aliases, &mut self.resolved);
        let mut compiled = compiling.compiled;
        compiled.diagnostics.sort_by(|a, b| a.object.cmp(&b.object));
        compiled
    }

    /// Reads what is not known yet.
    fn read(&mut self, resources: &Resources) {
        let cluster = Cluster::new(resources);
        let mut forgotten = Vec::new();
        if self.namespaces != resources.namespaces || self.cluster != cluster {
            // What is found with a pool depends on them.
            self.namespaces.clone_from(&resources.namespaces);
            self.cluster = cluster;
            forgotten = self.pools.forget();
        }
        let (namespaces, cluster) = (&self.namespaces, &self.cluster);
        let mut changes = self.pools.read(&resources.pools, |pool| pools::read(pool, namespaces, cluster));
        changes.gone.extend(forgotten);
        let (gone, new) = changes.labelled();
        if gone == new {
            self.of_pools.keep()
        } else {
            self.of_pools.change(gone, new)
        }
        self.all_pools.update(changes);
        if self.nodes == resources.nodes {
            self.of_nodes.keep();
        } else {
            self.of_nodes.change(labelled(&self.nodes), labelled(&resources.nodes));
            self.nodes.clone_from(&resources.nodes);
        }
        self.peers.read(&resources.bgp_peers, config::peers::parse);
        self.l2_advertisements.read(&resources.l2_advertisements, config::advertisements::parse);
        self.bgp_advertisements.read(&resources.bgp_advertisements, config::bgp_advertisements::parse);
    }
}

fn labelled(nodes: &BTreeMap<String, Node>) -> Vec<Labelled> {
    nodes
        .iter()
        .map(|(name, node)| (name.as_str().into(), Arc::new(FixedLabels::from(&node.labels))))
        .collect()
}

struct Compiling<'a> {
    resources: &'a Resources,
    last: Option<&'a ObjectRef>,
    nodes: &'a mut Lookup,
    pools: &'a mut Lookup,
    /// What the pools are by themselves.
    readings: &'a Kept<IPAddressPool, Parsed>,
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
    fn by_age<'o, T>(
        &self,
        kind: Kind,
        objects: impl IntoIterator<Item = (&'o String, T)>,
        metadata: impl Fn(&T) -> &ObjectMeta,
    ) -> Vec<(&'o String, T)> {
        let last = self.last.filter(|last| last.kind == kind).map(|last| last.name.as_str());
        let mut objects: Vec<(&String, T)> = objects.into_iter().collect();
        objects.sort_by_cached_key(|(name, object)| {
            // No time is later than any.
            let created = metadata(object).creation_timestamp.as_ref();
            (last == Some(name.as_str()), created.is_none(), created.map(|time| time.0), *name)
        });
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
        let communities = self.by_age(Kind::Community, &self.resources.communities, |it| &it.metadata);
        for (name, object) in communities {
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

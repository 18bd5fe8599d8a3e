//! What the controller has to do with the ConfigurationStates of speakers: it heeds the conflicts that they
//! tell of, and deletes those of speakers whose node is gone. Mostly they go with the pod that owns them; one that
//! outlives it (its owner was never there, or the object was restored from a backup) would speak for ever of
//! a configuration that nobody runs. The controller deletes it: it is the one process that knows all nodes.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ferrolb_api::v1beta1::ConfigurationState;
use ferrolb_api::well_known::{component, label};
use ferrolb_core::config::Diagnostic;
use ferrolb_core::status;
use kube::ResourceExt;

/// Whether something that the controller works with is left out.
pub(crate) fn is_ours(diagnostic: &Diagnostic) -> bool {
    diagnostic.leaves_out() && status::concerns_controller(diagnostic)
}

/// Those of `states` that a speaker wrote on a node that does not exist.
pub(crate) fn stale(
    states: Vec<Arc<ConfigurationState>>,
    node_exists: impl Fn(&str) -> bool,
) -> Vec<Arc<ConfigurationState>> {
    let is_stale = |state: &Arc<ConfigurationState>| {
        let label = |key: &str| state.labels().get(key).map(String::as_str);
        label(label::COMPONENT_TYPE) == Some(component::SPEAKER)
            && label(label::NODE_NAME).is_some_and(|node| !node_exists(node))
    };
    states.into_iter().filter(is_stale).collect()
}

/// Addresses that hosts have which are no speakers, by the word of any speaker.
pub(crate) fn conflicts(states: &[Arc<ConfigurationState>]) -> BTreeSet<IpAddr> {
    status::conflicts_told(states.iter().map(Arc::as_ref))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_speaker_is_heard_about_strangers() {
        let state = |told: Option<&str>| {
            let mut state = ConfigurationState::default();
            let told = told.map(|it| ("ferrolb.io/address-conflicts".to_owned(), it.to_owned()));
            state.metadata.annotations = told.map(|it| [it].into());
            Arc::new(state)
        };
        let states =
            [state(None), state(Some("10.0.0.1,fd00::1")), state(Some("x,10.0.0.2")), state(Some(""))];
        let texts: Vec<String> = conflicts(&states).iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["10.0.0.1", "10.0.0.2", "fd00::1"]);
    }

    #[test]
    fn only_what_speakers_of_gone_nodes_wrote() {
        let state = |name: &str, labels: &[(&str, &str)]| {
            let mut state = ConfigurationState::default();
            state.metadata.name = Some(name.to_owned());
            let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            state.metadata.labels = Some(labels.collect());
            Arc::new(state)
        };
        let speaker = ("metallb.io/component-type", "speaker");
        let states = vec![
            state("controller", &[("metallb.io/component-type", "controller")]),
            state("speaker-here", &[speaker, ("metallb.io/node-name", "here")]),
            state("speaker-gone", &[speaker, ("metallb.io/node-name", "gone")]),
            state("speaker-of-nobody", &[speaker]),
            state("other", &[("metallb.io/node-name", "gone")]),
        ];
        let names: Vec<String> =
            stale(states, |node| node == "here").iter().map(|it| it.name_any()).collect();
        assert_eq!(names, ["speaker-gone"]);
    }
}

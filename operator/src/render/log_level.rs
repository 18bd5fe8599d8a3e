//! The log level: in a ConfigMap that running processes follow, so that nobody restarts for it. Without
//! the operator it is a flag of each process.

use std::collections::BTreeMap;

use ferrolb_api::well_known::{component, object};
use ferrolb_runtime::log::LOG_LEVEL_KEY;
use k8s_openapi::api::core::v1::ConfigMap;

use super::{Context, Installer, Object, pod};

pub(super) fn flag(context: &Context<'_>) -> String {
    match context.settings.installer {
        Installer::Operator => format!("--log-level-from={}", object::LOG_LEVEL),
        Installer::Manifest => pod::log_level(context.metallb.spec.log_level.unwrap_or_default()),
    }
}

pub(super) fn configuration(context: &Context<'_>) -> Option<Object> {
    let level = context.metallb.spec.log_level.unwrap_or_default().as_str();
    (context.settings.installer == Installer::Operator).then(|| {
        ConfigMap {
            metadata: context.namespaced(object::LOG_LEVEL, component::CONTROLLER),
            data: Some(BTreeMap::from([(LOG_LEVEL_KEY.into(), level.into())])),
            ..Default::default()
        }
        .into()
    })
}

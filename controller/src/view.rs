//! The Services of the store, read once for each change of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use ferrolb_core::allocator::LoadBalancers;
use ferrolb_core::service::ServiceKey;

use crate::assumed::Seen;
use crate::stored::Stored;

/// What a pass looks at.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// All Services.
    pub(crate) services: BTreeMap<Arc<ServiceKey>, Arc<Stored>>,
    /// Those that this process handles, as decisions see them.
    pub(crate) handled: LoadBalancers,
}

impl View {
    /// Takes over what the store holds now.
    pub(crate) fn refresh(&mut self, stored: Vec<Arc<Stored>>, class: Option<&str>) {
        let mut services = BTreeMap::new();
        for service in stored {
            let lb = &service.lb;
            let before = self.services.get_key_value(&lb.key);
            let key = before.map_or_else(|| Arc::new(lb.key.clone()), |(key, _)| Arc::clone(key));
            if !before.is_some_and(|(_, before)| Arc::ptr_eq(before, &service)) {
                if lb.is_handled_by(class) {
                    self.handled.insert(Arc::clone(&key), Arc::clone(lb));
                } else {
                    self.handled.remove(&key);
                }
            }
            services.insert(key, service);
        }
        self.handled.retain(|key, _| services.contains_key(key));
        self.services = services;
    }

    /// What the store shows of a Service.
    pub(crate) fn seen(&self, key: &ServiceKey) -> Option<Seen> {
        self.services.get(key).map(|service| service.seen())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrolb_core::testing::{ServiceBuilder, service};

    #[test]
    fn services_come_change_class_and_go() {
        let object = |it: ServiceBuilder, class: Option<&str>| {
            let mut object = it.build();
            object.spec.as_mut().unwrap().load_balancer_class = class.map(ToOwned::to_owned);
            Arc::new(Stored::read(object))
        };
        let mut view = View::default();
        let mut names = |stored: &[&Arc<Stored>]| {
            view.refresh(stored.iter().map(|it| Arc::clone(it)).collect(), None);
            let ports = view.handled.values().map(|it| it.ports.len());
            let handled: Vec<String> =
                view.handled.keys().zip(ports).map(|(key, ports)| format!("{} {ports}", key.name)).collect();
            (view.services.len(), handled.join(", "))
        };
        let (a, b) = (object(service("ns", "a"), None), object(service("ns", "b"), Some("other")));
        assert_eq!(names(&[&a, &b]), (2, "a 1".to_owned()));
        let changed = object(service("ns", "a").ports(&[("TCP", 1), ("TCP", 2)]), None);
        assert_eq!(names(&[&changed, &b]), (2, "a 2".to_owned()));
        let (theirs, ours) = (object(service("ns", "a"), Some("other")), object(service("ns", "b"), None));
        assert_eq!(names(&[&theirs, &ours]), (2, "b 1".to_owned()));
        assert_eq!(names(&[]), (0, String::new()));
    }
}

//! The Services of the store, read once for each change of one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ferrolb_core::allocator::LoadBalancers;
use ferrolb_core::service::ServiceKey;

use crate::assumed::Seen;
use crate::stored::Stored;

/// What a pass looks at.
#[derive(Debug, Default)]
pub(crate) struct View {
    /// As the store listed them last.
    listed: Vec<Arc<Stored>>,
    /// All Services.
    pub(crate) services: BTreeMap<Arc<ServiceKey>, Arc<Stored>>,
    /// Those that this process handles, as decisions see them.
    pub(crate) handled: LoadBalancers,
}

impl View {
    /// Takes over what the store holds now. Mostly that is what it held before, in the same order, but for a few.
    pub(crate) fn refresh(&mut self, stored: Vec<Arc<Stored>>, class: Option<&str>) {
        let before = std::mem::replace(&mut self.listed, stored);
        let pairs = || before.iter().zip(&self.listed);
        let in_place = before.len() == self.listed.len()
            && pairs().all(|(before, now)| Arc::ptr_eq(before, now) || before.lb.key == now.lb.key);
        let changed: Vec<Arc<Stored>> = if in_place {
            pairs()
                .filter(|(before, now)| !Arc::ptr_eq(before, now))
                .map(|(_, now)| Arc::clone(now))
                .collect()
        } else {
            let exist: BTreeSet<&ServiceKey> = self.listed.iter().map(|it| &*it.lb.key).collect();
            self.services.retain(|key, _| exist.contains(&**key));
            self.handled.retain(|key, _| exist.contains(&**key));
            self.listed.clone()
        };
        for service in changed {
            self.take(service, class);
        }
    }

    fn take(&mut self, service: Arc<Stored>, class: Option<&str>) {
        let lb = &service.lb;
        // A key goes with the Service that it was read with.
        if self.services.remove(&lb.key).is_some_and(|before| !Arc::ptr_eq(&before, &service)) {
            self.handled.remove(&lb.key);
        }
        if lb.is_handled_by(class) {
            self.handled.insert(Arc::clone(&lb.key), Arc::clone(lb));
        }
        self.services.insert(Arc::clone(&lb.key), service);
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
        // In another order, with a change, and one goes as another comes.
        assert_eq!(names(&[&b, &a]), (2, "a 1".to_owned()));
        let c = object(service("ns", "c"), None);
        assert_eq!(names(&[&b, &c]), (2, "c 1".to_owned()));
        assert_eq!(names(&[&a, &b]), (2, "a 1".to_owned()));
        let (theirs, ours) = (object(service("ns", "a"), Some("other")), object(service("ns", "b"), None));
        assert_eq!(names(&[&theirs, &ours]), (2, "b 1".to_owned()));
        assert_eq!(names(&[]), (0, String::new()));
    }
}

//! The Services as decisions see them. Each version of a Service, and of its endpoints, is read once: a
//! value that is the same one as before says that nothing about the Service changed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ferrolb_api::well_known::label;
use ferrolb_core::service::{LoadBalancer, ServiceKey};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;

/// Services by their keys.
pub type LoadBalancers = BTreeMap<ServiceKey, Arc<LoadBalancer>>;

/// What was read last.
#[derive(Debug, Default)]
pub struct Readings {
    by_key: BTreeMap<ServiceKey, Reading>,
}

#[derive(Debug)]
struct Reading {
    service: Arc<Service>,
    slices: Vec<Arc<EndpointSlice>>,
    read: Arc<LoadBalancer>,
}

impl Readings {
    /// The Services that may hold an address and are of this class, with their endpoints.
    pub fn read(
        &mut self,
        services: &[Arc<Service>],
        slices: &[Arc<EndpointSlice>],
        class: Option<&str>,
    ) -> LoadBalancers {
        let mut of_service: HashMap<(&str, &str), Vec<&Arc<EndpointSlice>>> = HashMap::new();
        for slice in slices {
            let metadata = &slice.metadata;
            let name = metadata.labels.as_ref().and_then(|labels| labels.get(label::SERVICE_NAME_OF_SLICE));
            if let (Some(namespace), Some(name)) = (&metadata.namespace, name) {
                of_service.entry((namespace, name)).or_default().push(slice);
            }
        }
        let candidates = services.iter().filter(|service| may_hold_addresses(service));
        let read = candidates.map(|service| {
            let metadata = &service.metadata;
            let key = (metadata.namespace.as_deref().unwrap_or(""), metadata.name.as_deref().unwrap_or(""));
            let mut slices = of_service.remove(&key).unwrap_or_default();
            // A store holds them in no order.
            slices.sort_unstable_by_key(|slice| Arc::as_ptr(slice));
            let key = ServiceKey { namespace: key.0.to_owned(), name: key.1.to_owned() };
            let reading = match self.by_key.remove(&key) {
                Some(reading) if reading.is_of(service, &slices) => reading,
                _ => Reading::new(service, &slices),
            };
            (key, reading)
        });
        self.by_key = read.collect();
        let handled = self.by_key.iter().filter(|(_, it)| it.read.is_handled_by(class));
        handled.map(|(key, it)| (key.clone(), Arc::clone(&it.read))).collect()
    }
}

impl Reading {
    fn new(service: &Arc<Service>, slices: &[&Arc<EndpointSlice>]) -> Self {
        let read = Arc::new(LoadBalancer::new(service, slices.iter().map(|slice| slice.as_ref())));
        let slices = slices.iter().map(|slice| Arc::clone(slice)).collect();
        Self { service: Arc::clone(service), slices, read }
    }

    fn is_of(&self, service: &Arc<Service>, slices: &[&Arc<EndpointSlice>]) -> bool {
        let same = |(a, b): (&Arc<EndpointSlice>, &&Arc<EndpointSlice>)| Arc::ptr_eq(a, b);
        Arc::ptr_eq(&self.service, service)
            && self.slices.len() == slices.len()
            && self.slices.iter().zip(slices).all(same)
    }
}

fn may_hold_addresses(service: &Service) -> bool {
    let is_load_balancer =
        service.spec.as_ref().is_some_and(|it| it.type_.as_deref() == Some("LoadBalancer"));
    let balancer = service.status.as_ref().and_then(|it| it.load_balancer.as_ref());
    is_load_balancer || balancer.is_some_and(|it| it.ingress.as_ref().is_some_and(|it| !it.is_empty()))
}

/// A Service whose endpoints all seem to be gone keeps those that it had.
pub fn keep_endpoints(services: &mut LoadBalancers, before: &LoadBalancers) {
    for (key, service) in services.iter_mut().filter(|(_, service)| !service.endpoints.any_serving) {
        if let Some(before) = before.get(key).filter(|before| before.uid == service.uid) {
            Arc::make_mut(service).endpoints.clone_from(&before.endpoints);
        }
    }
}

#[cfg(test)]
mod tests {
    use ferrolb_core::testing::{endpoint, service, slice};

    use super::*;

    #[test]
    fn endpoints_that_all_seem_to_be_gone_are_kept_and_others_are_believed() {
        let read = |uid: &str, ready: &[(&str, bool)]| {
            let slice = slice(ready.iter().map(|(node, ready)| endpoint(node, Some(*ready), None)));
            let mut read = LoadBalancer::new(&service("demo", "hello").build(), [&slice]);
            read.uid = uid.into();
            BTreeMap::from([((*read.key).clone(), Arc::new(read))])
        };
        let before = read("1", &[("a", true), ("b", true)]);
        let kept = |mut now: LoadBalancers| {
            keep_endpoints(&mut now, &before);
            let now = now.into_values().next().unwrap();
            now.endpoints.nodes.iter().cloned().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(kept(read("1", &[("a", false), ("b", false)])), "a b");
        assert_eq!(kept(read("1", &[])), "a b");
        assert_eq!(kept(read("1", &[("a", true), ("b", false)])), "a", "what is left is true");
        assert_eq!(kept(read("2", &[])), "", "another Service of that name");
    }

    #[test]
    fn what_did_not_change_is_not_read_again() {
        let services: Vec<_> = ["a", "b"].map(|name| Arc::new(service("demo", name).build())).into();
        let of = |name: &str, ready: bool| {
            let mut slice = slice([endpoint("n1", Some(ready), None)]);
            slice.metadata.namespace = Some("demo".to_owned());
            slice.metadata.labels = Some([(label::SERVICE_NAME_OF_SLICE.to_owned(), name.to_owned())].into());
            Arc::new(slice)
        };
        let slices = [of("a", true), of("a", false), of("b", true)];
        let mut readings = Readings::default();
        let first = readings.read(&services, &slices, None);
        let again = |now: &LoadBalancers| -> Vec<bool> {
            first.values().zip(now.values()).map(|(before, now)| Arc::ptr_eq(before, now)).collect()
        };
        let [one, two, three] = slices;
        let same = readings.read(&services, &[Arc::clone(&three), two, Arc::clone(&one)], None);
        assert_eq!(again(&same), [true, true], "in whatever order");
        let now = readings.read(&services, &[one, of("a", true), three], None);
        assert_eq!(again(&now), [false, true]);
        assert_eq!(readings.read(&services[1..], &[], None).len(), 1);
        assert_eq!(readings.read(&services, &[], Some("other")).len(), 0);
    }
}

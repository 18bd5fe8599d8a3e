//! What a pass costs with very many Services, by parts: `hack/bench plan`.

use std::time::Instant;

use ferrolb_api::v1beta1::BGPAdvertisementSpec;
use ferrolb_core::testing::{bgp_advertisement, bgp_peer, endpoint, node, pool, service, slice};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::readings::LoadBalancers;
use super::*;

const NODES: [&str; 3] = ["a", "b", "c"];
const RUNS: usize = 30;

fn objects(count: usize) -> (Vec<Arc<Service>>, Vec<Arc<EndpointSlice>>) {
    let one = |number: usize| {
        let name = format!("many-{number}");
        let address = std::net::Ipv4Addr::from(0x0ac8_0000 + u32::try_from(number).unwrap()).to_string();
        let service = service("demo", &name).uid(&name).from_pool("many").labels(&[("many", "there")]);
        let mut slice = slice(NODES.map(|node| endpoint(node, Some(true), None)));
        slice.metadata.namespace = Some("demo".to_owned());
        let label = ("kubernetes.io/service-name".to_owned(), name);
        slice.metadata.labels = Some([label].into());
        (Arc::new(service.holding(&[&address]).build()), Arc::new(slice))
    };
    (0..count).map(one).unzip()
}

#[test]
#[ignore = "a measurement: hack/bench plan"]
fn a_pass_by_parts() {
    for count in [200, 2000, 20_000] {
        let (mut services, slices) = objects(count);
        let resources = Resources::default()
            .with_pools([pool("many", &["10.200.0.0/16"])])
            .with_bgp_advertisements([bgp_advertisement("many", BGPAdvertisementSpec::default())])
            .with_bgp_peers([bgp_peer("router", "10.0.0.1")])
            .with_nodes(NODES.map(|name| node(name, &[])));
        let beginning = testing::world(&resources, LoadBalancers::new());
        let mut parts: BTreeMap<&str, Duration> = BTreeMap::new();
        let mut readings = Readings::default();
        let mut last_world = None;
        let (mut last_plan, mut last_peers, mut last_report) = (Plan::default(), Peers::new(), None);
        for run in 0..=RUNS {
            services.remove(run);
            let mut at = Instant::now();
            let mut part = |name| {
                // The first pass has everything to do.
                if run > 0 {
                    *parts.entry(name).or_default() += at.elapsed();
                }
                at = Instant::now();
            };
            let read = readings.read(&services, &slices, None);
            part("1 read");
            let world = World { services: read, ..beginning.clone() };
            std::hint::black_box(last_world.as_ref() == Some(&world));
            std::hint::black_box(view::kernel(&world.services, &Links::default()));
            part("2 compare");
            let plan = plan(&world, last_world.as_ref(), &last_plan);
            part("3 plan");
            let peers = view::peers(&world, &plan.routes);
            std::hint::black_box(peers == last_peers);
            part("4 peers");
            for protocol in PROTOCOLS {
                std::hint::black_box(transitions(&last_plan.services, &plan.services, protocol));
            }
            view::tell_withheld(&last_plan, &plan);
            part("5 tell");
            let before = last_report.as_ref().map(|report| (&last_plan, report));
            let report = Report::new(&plan, &[], &world, before);
            std::hint::black_box(last_report.as_ref() == Some(&report));
            part("6 report");
            (last_world, last_plan, last_peers, last_report) = (Some(world), plan, peers, Some(report));
            part("7 drop");
        }
        println!("{count} Services:");
        for (name, time) in parts {
            println!("  {name}: {:.2} ms", time.as_secs_f64() * 1e3 / RUNS as f64);
        }
    }
}

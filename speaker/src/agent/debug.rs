//! `/debug/plan`: for every Service of this node's view, each address with its decision and why.

use ferrolb_core::planner::{Protocol, Seen, ServicePlan, Withheld};
use ferrolb_core::service::ServiceKey;
use serde_json::{Value, json};

use super::view::Plan;

/// The page for a plan.
pub(super) fn page(plan: &Plan) -> String {
    let services: Vec<Value> = plan.services.iter().map(|(key, of)| service(plan, key, of)).collect();
    format!("{:#}\n", json!({ "services": services }))
}

fn service(plan: &Plan, key: &ServiceKey, of: &ServicePlan) -> Value {
    let why = |withheld: &Withheld| json!({"reason": withheld.reason(Protocol::Layer2), "message": withheld.to_string()});
    let bgp = match &of.bgp {
        Ok(plan) => json!({"peers": plan.routes.keys().collect::<Vec<_>>()}),
        Err(withheld) => json!({"reason": withheld.reason(Protocol::Bgp), "message": withheld.to_string()}),
    };
    let addresses = match &of.layer2 {
        Err(withheld) => {
            return json!({"service": key.to_string(), "pool": of.pool, "withheld": why(withheld), "bgp": bgp});
        }
        Ok(layer2) => layer2.addresses.iter().map(|(address, it)| {
            let election = plan.elections.get(address);
            let candidates = election.iter().flat_map(|it| &it.candidates);
            let candidates: Vec<Value> =
                candidates.map(|(node, score)| json!({"node": node, "preference": score})).collect();
            let owner = plan.wire.get(address).map(|seen| match seen {
                Seen::Here => json!("this node"),
                Seen::Elsewhere(node) => json!(node.as_deref().unwrap_or("a node that did not say which")),
                Seen::Conflict(mac) => json!(format!("stranger {mac}")),
            });
            json!({
                "address": address,
                "announced": it.decision.is_ok(),
                "withheld": it.decision.as_ref().err().map(why),
                "owner": owner,
                "candidates": candidates,
                "turn": plan.claims.get(address).and_then(|claim| claim.claim.turn),
                "contested": election.is_some_and(|it| it.contested),
                "kernelAnswersFrom": plan.kernel.get(address),
            })
        }),
    };
    json!({"service": key.to_string(), "pool": of.pool, "addresses": addresses.collect::<Vec<_>>(), "bgp": bgp})
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use ferrolb_core::config::Interfaces;
    use ferrolb_core::planner::{AddressPlan, Election, Layer2Plan};

    use super::*;

    #[test]
    fn the_page_names_address_owner_and_reason() {
        let key = ServiceKey { namespace: "default".to_owned(), name: "hello".to_owned() };
        let address = "192.168.10.200".parse().unwrap();
        let withheld = Withheld::NotElected { winner: Some("b".to_owned()) };
        let plans = BTreeMap::from([(address, AddressPlan { decision: Err(withheld) })]);
        let layer2 = Ok(Layer2Plan { addresses: plans });
        let of = ServicePlan {
            service: key.clone(),
            pool: Some("lan".to_owned()),
            layer2,
            bgp: Err(Withheld::NoPeer),
        };
        let election = Election {
            candidates: vec![("b".to_owned(), 0), ("a".to_owned(), 0)],
            contested: false,
            preempt: false,
            interfaces: Interfaces::All,
            withheld: BTreeMap::new(),
        };
        let plan = Plan {
            services: BTreeMap::from([(key, Arc::new(of))]),
            elections: BTreeMap::from([(address, Arc::new(election))]),
            wire: BTreeMap::from([(address, Seen::Elsewhere(Some("b".to_owned())))]),
            kernel: BTreeMap::from([(address, "kube-ipvs0".to_owned())]),
            ..Plan::default()
        };
        let page: Value = serde_json::from_str(&page(&plan)).unwrap();
        let service = &page["services"][0];
        assert_eq!((&service["service"], &service["pool"]), (&json!("default/hello"), &json!("lan")));
        let address = &service["addresses"][0];
        assert_eq!((&address["owner"], &address["announced"]), (&json!("b"), &json!(false)));
        assert_eq!(address["withheld"]["message"], "node b owns the address");
        assert_eq!(address["candidates"][1]["node"], "a");
        assert_eq!(address["kernelAnswersFrom"], "kube-ipvs0");
    }
}

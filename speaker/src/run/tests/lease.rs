//! Speakers that learn by Leases which of them live.

use super::*;

const BY_LEASES: &[&str] =
    &["--membership=lease", "--lease-duration=3s", "--lease-renew-deadline=1s", "--lease-retry-period=200ms"];

fn leases(server: &Server) -> Vec<serde_json::Value> {
    server.list("leases")
}

#[test]
fn each_node_renews_one_lease_and_a_crashed_owner_is_replaced() {
    in_own_network(|| async {
        let mut cluster = Cluster::start_with(BY_LEASES).await;
        let found = leases(&cluster.server);
        let names: BTreeSet<_> = found.iter().map(|it| it["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, BTreeSet::from(["speaker-node-a", "speaker-node-b", "speaker-node-c"]));
        for lease in &found {
            assert_eq!(lease["metadata"]["ownerReferences"][0]["kind"], "Pod", "{lease}");
            assert_eq!(lease["spec"]["leaseDurationSeconds"], 3, "{lease}");
        }
        let owner = cluster.owner;
        cluster.take(owner).crash();
        let heir = cluster.answers(&others(owner)).await;
        // A node that comes back takes nothing.
        let node = Node::start(owner, &cluster.server, BY_LEASES);
        node.ready().await;
        cluster.nodes.push(node);
        cluster.answers(&[heir]).await;
    });
}

#[test]
fn an_owner_that_ends_says_so_and_hands_over_without_a_gap() {
    in_own_network(|| async {
        let mut cluster = Cluster::start_with(BY_LEASES).await;
        let owner = cluster.owner;
        let mut node = cluster.end_without_a_gap(owner).await;
        let name = format!("speaker-{}", NODES[owner]);
        let lease = leases(&cluster.server).into_iter().find(|it| it["metadata"]["name"] == name.as_str());
        assert_eq!(lease.unwrap()["spec"]["holderIdentity"], "");
        cluster.answers(&others(owner)).await;
        node.join();
    });
}

/// For longer than a Lease lasts nothing moves.
async fn keeps(cluster: &mut Cluster, owner: usize) {
    let end = Instant::now() + Duration::from_secs(4);
    while Instant::now() < end {
        let answered = cluster.asker.ask(VIP, Duration::from_millis(100)).await;
        assert!(answered.iter().eq([&mac(owner)]), "{answered:?}");
    }
}

#[test]
fn while_no_lease_is_renewed_nobody_is_dead() {
    in_own_network(|| async {
        let mut cluster = Cluster::start_with(BY_LEASES).await;
        let owner = cluster.owner;
        // Writes are refused, watches go on.
        cluster.server.set_broken(true);
        keeps(&mut cluster, owner).await;
        cluster.server.set_broken(false);
        keeps(&mut cluster, owner).await;
        cluster.take(owner).crash();
        cluster.answers(&others(owner)).await;
    });
}

#[test]
fn without_the_api_server_everybody_keeps_what_it_owns() {
    in_own_network(|| async {
        let mut cluster = Cluster::start_with(BY_LEASES).await;
        let owner = cluster.owner;
        cluster.server.close();
        keeps(&mut cluster, owner).await;
    });
}

#[test]
fn speakers_go_over_from_gossip_to_leases_one_by_one() {
    in_own_network(|| async {
        let mut cluster = Cluster::start().await;
        let (mut asked, mut unanswered) = (0, 0);
        for index in 0..NODES.len() {
            let mut node = cluster.take(index);
            node.shutdown.begin();
            while !node.thread.as_ref().unwrap().is_finished() {
                asked += 1;
                let answered = cluster.asker.ask(VIP, Duration::from_millis(200)).await;
                unanswered += usize::from(answered.is_empty());
            }
            node.join();
            let node = Node::start(index, &cluster.server, BY_LEASES);
            node.ready().await;
            cluster.nodes.push(node);
            cluster.answers(&[0, 1, 2]).await;
        }
        assert_eq!(unanswered, 0, "of {asked} requests");
        let conflicts = cluster.server.list("events");
        assert!(conflicts.iter().all(|event| event["reason"] != "AddressConflict"), "{conflicts:?}");
    });
}

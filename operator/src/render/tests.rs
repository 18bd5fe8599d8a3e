//! Golden files are blessed with `INSTA_UPDATE=always cargo test -p ferrolb-operator`.

use ferrolb_api::well_known::object;
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use super::*;

fn settings() -> Settings {
    Settings {
        installer: Installer::Operator,
        namespace: "metallb-system".into(),
        image: "ferrolb.io/ferrolb:v0.1.0".parse().unwrap(),
        version: "v0.1.0".into(),
        certificate: None,
    }
}

fn observed() -> Observed {
    Observed {
        crd_uid: Some("crd-uid".into()),
        memberlist_key: Some("key".into()),
        peer_secrets: ["bgp-password".into()].into(),
        api_ports: [6443].into(),
        openshift: None,
        leases_are_used: false,
        absent: BTreeSet::new(),
    }
}

fn metallb(spec: Value) -> MetalLB {
    serde_json::from_value(json!({
        "apiVersion": "metallb.io/v1beta1",
        "kind": "MetalLB",
        "metadata": {"name": "metallb", "namespace": "metallb-system", "uid": "cr-uid"},
        "spec": spec,
    }))
    .unwrap()
}

fn every_field() -> MetalLB {
    let config = |name: &str| {
        json!({
            "priorityClassName": format!("{name}-priority"),
            "runtimeClassName": format!("{name}-runtime"),
            "annotations": {"example.com/who": name, "prometheus.io/scrape": "false"},
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 10, "preference": {"matchExpressions": [{"key": name, "operator": "Exists"}]}},
            ]}},
            "resources": {"limits": {"cpu": "100m"}},
        })
    };
    metallb(json!({
        "bgpBackend": "native",
        "logLevel": "debug",
        "loadBalancerClass": "example.com/metallb",
        "nodeSelector": {"worker": "true"},
        "controllerNodeSelector": {"infra": "true"},
        "speakerTolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
        "controllerTolerations": [{"key": "b", "operator": "Exists"}],
        "speakerConfig": config("speaker"),
        "controllerConfig": config("controller"),
        "controllerReplicas": 2,
        "imagePullSecrets": [{"name": "pull"}],
        "updateStrategy": {"type": "OnDelete"},
        "ignoreExcludeLB": true,
        "bgpListenPort": 179,
        "networkPolicies": {"enabled": true},
        "metrics": {"serviceMonitors": true, "prometheusRule": true},
        "tls": {
            "minVersion": "VersionTLS12",
            "cipherSuites": ["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"],
            "curves": ["X25519", "24"],
        },
    }))
}

/// Objects for which every property below must hold.
fn matrix() -> Vec<MetalLB> {
    let mut matrix = vec![metallb(json!({})), every_field()];
    matrix.extend(["native", "frr", "frr-k8s"].map(|backend| metallb(json!({"bgpBackend": backend}))));
    matrix.extend(
        [
            json!({"metrics": {"enabled": false}, "networkPolicies": {"enabled": true, "apiPort": 16443}}),
            json!({"networkPolicies": {"enabled": false, "apiPort": 16443}}),
            json!({"metrics": {"serviceMonitors": true, "prometheusRule": true, "additionalLabels": {"release": "prometheus"}}}),
            json!({"metrics": {"enabled": false, "serviceMonitors": true, "prometheusRule": true}}),
            json!({"controllerReplicas": 3, "tls": {}, "bgpListenPort": 1179}),
            json!({"membership": {"mode": "lease", "leaseDuration": "3s", "renewDeadline": "1s", "retryPeriod": "200ms"}}),
        ]
        .map(metallb),
    );
    matrix
}

fn rendered(metallb: &MetalLB) -> Vec<Object> {
    render(metallb, &settings(), &observed()).unwrap()
}

fn pods(objects: &[Object]) -> Vec<PodSpec> {
    let template = |object: &Object| match object {
        Object::Deployment(deployment) => deployment.spec.template.spec.clone(),
        Object::DaemonSet(daemon_set) => daemon_set.spec.template.spec.clone(),
        _ => None,
    };
    objects.iter().filter_map(template).collect()
}

#[test]
fn a_plain_object_renders_as_in_the_golden_file() {
    let values: Vec<Value> = rendered(&metallb(json!({}))).iter().map(Object::to_value).collect();
    insta::assert_yaml_snapshot!("plain", values);
}

#[test]
fn every_field_has_its_effect() {
    let objects = rendered(&every_field());
    let configured = |object: &&Object| {
        matches!(
            object.kind(),
            Kind::ConfigMap
                | Kind::NetworkPolicy
                | Kind::PodDisruptionBudget
                | Kind::Deployment
                | Kind::DaemonSet
        )
    };
    let configured: Vec<Value> = objects.iter().filter(configured).map(Object::to_value).collect();
    insta::assert_yaml_snapshot!("every_field", configured);
}

#[test]
fn each_object_of_the_matrix_differs_from_the_plain_one_as_in_the_golden_file() {
    let plain: BTreeMap<ObjectKey, Value> =
        rendered(&metallb(json!({}))).iter().map(|object| (object.key(), object.to_value())).collect();
    let differences: Vec<Value> = matrix()
        .iter()
        .skip(2)
        .map(|metallb| {
            let objects = rendered(metallb);
            let changed =
                objects.iter().filter(|object| plain.get(&object.key()) != Some(&object.to_value()));
            let gone = plain.keys().filter(|key| objects.iter().all(|object| object.key() != **key));
            json!({
                "spec": metallb.spec,
                "changed": changed.map(Object::to_value).collect::<Vec<_>>(),
                "gone": gone.map(ToString::to_string).collect::<Vec<_>>(),
            })
        })
        .collect();
    insta::assert_yaml_snapshot!("matrix", differences);
}

#[test]
fn on_openshift_objects_differ_as_in_the_golden_file() {
    let plain: BTreeMap<ObjectKey, Value> =
        rendered(&metallb(json!({}))).iter().map(|object| (object.key(), object.to_value())).collect();
    let tls = json!({"spec": {"tlsSecurityProfile": {"type": "Intermediate"}}});
    let facts = Observed { openshift: Some(OpenShift::of(&tls)), ..observed() };
    let objects = render(&metallb(json!({})), &settings(), &facts).unwrap();
    let changed = objects.iter().filter(|object| plain[&object.key()] != object.to_value());
    insta::assert_yaml_snapshot!("openshift", changed.map(Object::to_value).collect::<Vec<_>>());
    // What the object asks for goes before.
    let own = metallb(json!({"tls": {"minVersion": "VersionTLS13"}}));
    let objects = render(&own, &settings(), &facts).unwrap();
    for pod in pods(&objects) {
        let args = pod.containers[0].args.clone().unwrap();
        assert!(args.contains(&"--tls-min-version=VersionTLS13".to_owned()), "{args:?}");
    }
}

#[test]
fn the_log_level_is_in_no_pod_template_that_the_operator_applies() {
    let workloads = |level: &str| -> Vec<Value> {
        let objects = rendered(&metallb(json!({"logLevel": level})));
        let workloads = objects.iter().filter(|it| matches!(it.kind(), Kind::Deployment | Kind::DaemonSet));
        workloads.map(Object::to_value).collect()
    };
    assert_eq!(workloads("debug"), workloads("none"), "nobody restarts for it");
    let said = |level: &str| {
        let objects = rendered(&metallb(json!({"logLevel": level})));
        objects.iter().find(|it| it.key().name == object::LOG_LEVEL).unwrap().to_value()["data"].clone()
    };
    assert_eq!(said("warn"), json!({"logLevel": "warn"}));
    let manifest = Settings { installer: Installer::Manifest, ..settings() };
    let objects = render(&metallb(json!({"logLevel": "warn"})), &manifest, &Observed::default()).unwrap();
    assert!(objects.iter().all(|object| object.key().name != object::LOG_LEVEL));
    for pod in pods(&objects) {
        assert!(pod.containers[0].args.iter().flatten().any(|arg| arg == "--log-level=warn"));
    }
}

#[test]
fn every_flag_that_is_rendered_is_one_that_the_processes_know() {
    // The flags of every process are CommonArgs and its own; the common ones are tested here by parsing.
    #[derive(clap::Parser)]
    struct Common {
        #[command(flatten)]
        common: ferrolb_runtime::CommonArgs,
    }
    let known = |argument: &str| {
        ["--port=", "--health-probe-", "--log-level", "--tls-"]
            .iter()
            .any(|start| argument.starts_with(start))
    };
    for metallb in matrix() {
        for pod in pods(&rendered(&metallb)) {
            let args = pod.containers[0].args.clone().unwrap();
            let common = args.into_iter().filter(|argument| known(argument));
            let parsed =
                <Common as clap::Parser>::try_parse_from(std::iter::once("process".to_owned()).chain(common));
            let common = parsed.map(|parsed| parsed.common).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(common.log_level_from.as_deref(), Some(object::LOG_LEVEL));
            common.tls.policy().unwrap();
        }
    }
}

#[test]
fn tls_that_no_server_can_do_is_refused_with_what_one_can() {
    for (tls, part) in [
        (json!({"cipherSuites": ["TLS_RSA_WITH_RC4_128_SHA"]}), "use TLS_"),
        (json!({"curves": ["P-521"]}), "use X25519MLKEM768"),
        (json!({"curves": ["X25519", "x25519"]}), "duplicate curve preference"),
        (json!({"cipherSuites": ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]}), "take VersionTLS12"),
    ] {
        let refusal = render(&metallb(json!({"tls": tls})), &settings(), &observed()).unwrap_err();
        assert!(refusal.to_string().starts_with("tls: ") && refusal.to_string().contains(part), "{refusal}");
    }
}

#[test]
fn containers_have_no_privilege_but_the_speakers_raw_sockets() {
    for metallb in matrix() {
        let pods = pods(&rendered(&metallb));
        assert_eq!(pods.len(), 3);
        for pod in pods {
            assert_eq!((pod.host_pid, pod.host_ipc), (None, None));
            let speaker = pod.host_network == Some(true);
            assert_eq!(pod.security_context.clone().unwrap().run_as_non_root, (!speaker).then_some(true));
            for container in pod.containers.iter().chain(pod.init_containers.iter().flatten()) {
                let context = container.security_context.clone().unwrap();
                let capabilities = context.capabilities.unwrap();
                let allowed = match metallb.spec.bgp_listen_port {
                    Some(179) => vec!["NET_RAW".to_owned(), "NET_BIND_SERVICE".to_owned()],
                    _ => vec!["NET_RAW".to_owned()],
                };
                let allowed = speaker.then_some(allowed);
                assert_eq!(capabilities.add, allowed, "{}", container.name);
                assert_eq!(capabilities.drop, Some(vec!["ALL".into()]), "{}", container.name);
                assert_eq!(context.allow_privilege_escalation, Some(false), "{}", container.name);
                assert_eq!(context.read_only_root_filesystem, Some(true), "{}", container.name);
                assert_eq!(context.privileged, None, "{}", container.name);
                assert_eq!(container.image.as_deref(), Some("ferrolb.io/ferrolb:v0.1.0"));
            }
        }
    }
}

#[test]
fn every_object_can_be_found_again_and_has_an_owner_that_can_own_it() {
    for metallb in matrix() {
        for object in rendered(&metallb) {
            let metadata = object.metadata();
            for (key, value) in owned_labels("metallb-system") {
                assert_eq!(metadata.labels.as_ref().unwrap().get(&key), Some(&value), "{}", object.key());
            }
            let owners = metadata.owner_references.clone().unwrap();
            let owner = (owners.len(), owners[0].kind.as_str(), owners[0].uid.as_str());
            match object.kind().scope() {
                Scope::Namespaced => {
                    assert_eq!(metadata.namespace.as_deref(), Some("metallb-system"));
                    assert_eq!(owner, (1, "MetalLB", "cr-uid"), "{}", object.key());
                }
                Scope::Cluster => {
                    assert_eq!(metadata.namespace, None);
                    assert_eq!(owner, (1, "CustomResourceDefinition", "crd-uid"), "{}", object.key());
                }
            }
        }
    }
}

#[test]
fn keys_are_unique_and_every_kind_is_rendered() {
    let objects = rendered(&every_field());
    let mut keys: Vec<_> = objects.iter().map(Object::key).collect();
    keys.sort();
    let mut kinds: Vec<_> = keys.iter().map(|key| key.kind).collect();
    keys.dedup();
    assert_eq!(keys.len(), objects.len());
    kinds.dedup();
    assert_eq!(kinds, Kind::ALL, "a kind that is not rendered needs no watch and no rights");
}

#[test]
fn selectors_match_the_pods_and_never_change() {
    for metallb in matrix() {
        for object in rendered(&metallb) {
            let (selector, template) = match object {
                Object::Deployment(deployment) => (deployment.spec.selector, deployment.spec.template),
                Object::DaemonSet(daemon_set) => (daemon_set.spec.selector, daemon_set.spec.template),
                _ => continue,
            };
            let selector = selector.match_labels.unwrap();
            assert_eq!(selector.keys().collect::<Vec<_>>(), ["app", "component"]);
            assert_eq!(Some(selector), template.metadata.unwrap().labels);
        }
    }
}

#[test]
fn the_operator_holds_every_right_that_it_grants() {
    let rules = |objects: &[Object], scope: Scope| -> Vec<PolicyRule> {
        let of = |object: &Object| match object {
            Object::ClusterRole(role) if scope == Scope::Cluster => role.rules.clone(),
            Object::Role(role) if scope == Scope::Namespaced => role.rules.clone(),
            _ => None,
        };
        objects.iter().filter_map(of).flatten().collect()
    };
    let own = rbac::operator("metallb-system");
    for spec in [json!({}), json!({"membership": {"mode": "lease"}})] {
        let granted = rendered(&metallb(spec));
        for scope in [Scope::Cluster, Scope::Namespaced] {
            let held = rules(&own, scope);
            for rule in rules(&granted, scope) {
                assert!(held.iter().any(|held| covers(held, &rule)), "{rule:?}");
            }
        }
    }
}

/// The rules about a resource in the speakers' own Role.
fn of_speaker(metallb: &MetalLB, observed: &Observed, resource: &str) -> Vec<PolicyRule> {
    let objects = render(metallb, &settings(), observed).unwrap();
    let rules = |object: &Object| match object {
        Object::Role(role) if role.metadata.name.as_deref() == Some("speaker") => role.rules.clone(),
        _ => None,
    };
    let rules = objects.iter().filter_map(rules).flatten();
    rules.filter(|rule| rule.resources.iter().flatten().any(|it| it == resource)).collect()
}

fn covers(held: &PolicyRule, granted: &PolicyRule) -> bool {
    let all = |a: &Option<Vec<String>>, b: &Option<Vec<String>>| {
        b.iter().flatten().all(|it| a.iter().flatten().any(|held| held == it))
    };
    all(&held.api_groups, &granted.api_groups)
        && all(&held.resources, &granted.resources)
        && granted.verbs.iter().all(|verb| held.verbs.contains(verb))
        && (held.resource_names.is_none() || held.resource_names == granted.resource_names)
}

#[test]
fn a_speaker_reads_the_secrets_that_peers_name_and_no_other() {
    let rules = |observed: &Observed| of_speaker(&metallb(json!({})), observed, "secrets");
    assert_eq!(rules(&Observed::default()), []);
    let names: Vec<_> = rules(&observed()).into_iter().map(|rule| rule.resource_names).collect();
    assert_eq!(names, [Some(vec!["bgp-password".to_owned()])]);
}

/// And as long as a running one does, which the next replaces.
#[test]
fn speakers_write_leases_only_where_they_renew_them() {
    let by_leases = metallb(json!({"membership": {"mode": "lease"}}));
    let pods = pods(&rendered(&by_leases));
    let renewing = pods.iter().map(|spec| Pod { spec: Some(spec.clone()), ..Default::default() });
    assert_eq!(renewing.filter(renews_lease).count(), 1);
    let used = Observed { leases_are_used: true, ..observed() };
    for (metallb, observed, expected) in [
        (metallb(json!({})), observed(), 0),
        (metallb(json!({"membership": {"mode": "gossip"}})), observed(), 0),
        (by_leases, observed(), 1),
        (metallb(json!({})), used, 1),
    ] {
        assert_eq!(of_speaker(&metallb, &observed, "leases").len(), expected, "{:?}", metallb.spec);
    }
}

#[test]
fn no_rule_is_a_wildcard_and_no_secret_is_readable_in_other_namespaces() {
    let mut objects = rendered(&metallb(json!({})));
    objects.extend(rbac::operator("metallb-system"));
    for object in objects {
        let (rules, everywhere) = match &object {
            Object::ClusterRole(role) => (role.rules.clone(), true),
            Object::Role(role) => (role.rules.clone(), false),
            _ => continue,
        };
        for rule in rules.unwrap() {
            let text = serde_json::to_string(&rule).unwrap();
            assert!(!text.contains('*'), "{}: {text}", object.key());
            assert!(!(everywhere && text.contains("secrets")), "{}: {text}", object.key());
        }
    }
}

fn node_affinity(weight: i32) -> Value {
    json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "preference": {}}]}})
}

fn pod_terms(weight: i32) -> Value {
    json!({"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": weight, "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"}},
    ]})
}

#[test]
fn what_cannot_be_done_is_refused() {
    let brief = json!([{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}]);
    let table = [
        (json!({"bgpBackend": "frr-k8s-external"}), Refusal::ExternalBackend),
        (json!({"bgpBackend": "quagga"}), Refusal::UnknownBackend("quagga".into())),
        (json!({"speakerTolerations": brief}), Refusal::TolerationSeconds("SpeakerToleration")),
        (json!({"controllerTolerations": brief}), Refusal::TolerationSeconds("ControllerToleration")),
        (
            json!({"speakerConfig": {"affinity": node_affinity(101)}}),
            Refusal::AffinityWeight("SpeakerConfig", "NodeAffinity"),
        ),
        (
            json!({"controllerConfig": {"affinity": node_affinity(0)}}),
            Refusal::AffinityWeight("ControllerConfig", "NodeAffinity"),
        ),
        (
            json!({"controllerConfig": {"affinity": {"podAffinity": pod_terms(0)}}}),
            Refusal::AffinityWeight("ControllerConfig", "PodAffinity"),
        ),
        (
            json!({"speakerConfig": {"affinity": {"podAntiAffinity": pod_terms(101)}}}),
            Refusal::AffinityWeight("SpeakerConfig", "PodAntiAffinity"),
        ),
        (
            json!({"frrk8sConfig": {"alwaysBlock": ["10.0.0.0/8", " 10.0.0.0/33"]}}),
            Refusal::AlwaysBlock(" 10.0.0.0/33".into()),
        ),
        (
            json!({"frrk8sConfig": {"alwaysBlock": ["invalid_cidr"]}}),
            Refusal::AlwaysBlock("invalid_cidr".into()),
        ),
        (json!({"frrk8sConfig": {"alwaysBlock": ["::/+1"]}}), Refusal::AlwaysBlock("::/+1".into())),
        (json!({"membership": {"renewDeadline": "20s"}}), Refusal::Membership(LeaseTimesError::LateDeadline)),
    ];
    let fine = json!({
        "speakerConfig": {"affinity": node_affinity(100)},
        "controllerConfig": {"affinity": {"podAffinity": pod_terms(1)}},
        "frrk8sConfig": {"alwaysBlock": ["10.0.0.0/8 ", "2001:db8::/32"]},
    });
    assert!(render(&metallb(fine), &settings(), &observed()).is_ok());
    for (spec, refusal) in table {
        assert_eq!(render(&metallb(spec.clone()), &settings(), &observed()), Err(refusal), "{spec}");
    }
}

#[test]
fn without_a_key_its_secret_is_left_out_and_without_a_cluster_nobody_owns() {
    let mut metallb = metallb(json!({}));
    metallb.metadata.uid = None;
    let objects = render(&metallb, &settings(), &Observed::default()).unwrap();
    let secrets = objects.iter().filter(|object| object.kind() == Kind::Secret);
    let names: Vec<_> = secrets.map(|object| object.key().name).collect();
    assert_eq!(names, ["metallb-webhook-cert"]);
    assert!(objects.iter().all(|object| object.metadata().owner_references.is_none()));
}

#[test]
fn certificate_and_ca_bundle_are_left_to_the_webhook() {
    let objects = rendered(&metallb(json!({})));
    let certificate = objects.iter().find(|o| o.key().name == "metallb-webhook-cert").unwrap().to_value();
    assert_eq!((&certificate["data"], &certificate["stringData"]), (&Value::Null, &Value::Null));
    let registration = objects.iter().find(|o| o.kind() == Kind::ValidatingWebhookConfiguration).unwrap();
    assert!(!registration.to_value().to_string().contains("caBundle"));
}

/// Labels that pods of others often have: a Service that selects them hands them our reviews.
#[test]
fn services_select_our_pods_and_no_others() {
    let objects = rendered(&metallb(json!({})));
    let foreign = [
        json!({"component": "controller", "app.kubernetes.io/component": "controller", "app.kubernetes.io/name": "ingress-nginx"}),
        json!({"component": "webhook-server", "app": "cert-manager", "app.kubernetes.io/name": "webhook"}),
        json!({"component": "speaker", "k8s-app": "cilium"}),
        json!({"app": "metallb"}),
    ];
    let labels = |pod: &Value| pod["spec"]["template"]["metadata"]["labels"].clone();
    let ours: Vec<Value> = objects.iter().map(|object| labels(&object.to_value())).collect();
    let mut services = 0;
    for service in objects.iter().filter(|object| object.kind() == Kind::Service).map(Object::to_value) {
        let selector = service["spec"]["selector"].as_object().unwrap().clone();
        let selects = |pod: &&Value| selector.iter().all(|(key, value)| pod[key] == *value);
        assert_eq!(foreign.iter().filter(selects).count(), 0, "{service}");
        assert_eq!(ours.iter().filter(selects).count(), 1, "{service}");
        services += 1;
    }
    assert!(services > 0);
}

#[test]
fn what_runs_more_than_once_has_a_budget_that_lets_a_drain_through_and_prefers_different_nodes() {
    for (replicas, expected) in [(1, vec![object::WEBHOOK]), (3, vec![object::WEBHOOK, object::CONTROLLER])] {
        let objects = rendered(&metallb(json!({"controllerReplicas": replicas})));
        let mut named = Vec::new();
        for object in &objects {
            if let Object::PodDisruptionBudget(budget) = object {
                let spec = budget.spec.clone().unwrap();
                assert_eq!((spec.max_unavailable, spec.min_available), (Some(IntOrString::Int(1)), None));
                named.push(object.key().name);
            }
        }
        assert_eq!(named, expected);
        for pod in pods(&objects).iter().filter(|pod| pod.host_network.is_none()) {
            let affinity = pod.affinity.clone().and_then(|affinity| affinity.pod_anti_affinity);
            let replicated = expected.contains(&pod.service_account_name.as_deref().unwrap());
            let required =
                affinity.clone().and_then(|it| it.required_during_scheduling_ignored_during_execution);
            assert_eq!((affinity.is_some(), required), (replicated, None));
        }
    }
}

#[test]
fn a_file_cannot_hold_a_key_so_a_pod_makes_it() {
    let settings = Settings { installer: Installer::Manifest, ..settings() };
    let objects = render(&metallb(json!({})), &settings, &Observed::default()).unwrap();
    let controller =
        pods(&objects).into_iter().find(|pod| pod.service_account_name.as_deref() == Some("controller"));
    let init = controller.unwrap().init_containers.unwrap();
    assert_eq!(init[0].command.as_ref().unwrap()[1], "--make-memberlist-key");
    let secret = objects.iter().find(|it| it.key().name == object::MEMBERLIST_SECRET).unwrap().to_value();
    assert_eq!(secret["data"], Value::Null);
    for object in &objects {
        let labels = object.metadata().labels.clone().unwrap();
        assert!(!labels.contains_key(label::MANAGED_BY), "{}: no operator watches it", object.key());
    }
}

#[test]
fn the_operators_own_deployment_is_as_in_the_golden_file() {
    insta::assert_yaml_snapshot!("manager", Object::from(manager::deployment(&settings())).to_value());
}

#[test]
fn a_certificate_of_others_is_mounted_and_no_secret_is_the_webhooks() {
    let rendered = |tell_authority| {
        let certificate = Some(Certificate { secret: "given".into(), tell_authority });
        render(&metallb(json!({})), &Settings { certificate, ..settings() }, &observed()).unwrap()
    };
    let values: Vec<Value> = rendered(true).iter().map(Object::to_value).collect();
    let named = |kind: &str, name: &str| {
        values.iter().find(|it| it["kind"] == kind && it["metadata"]["name"] == name).cloned()
    };
    assert_eq!(named("Secret", object::WEBHOOK_SECRET), None);
    let pod = named("Deployment", object::WEBHOOK).unwrap()["spec"]["template"]["spec"].clone();
    assert_eq!(pod["volumes"], json!([{"name": "certificate", "secret": {"secretName": "given"}}]));
    let container = &pod["containers"][0];
    assert_eq!(
        container["volumeMounts"],
        json!([{"name": "certificate", "mountPath": "/certificate", "readOnly": true}])
    );
    let flags = container["args"].as_array().unwrap();
    for flag in ["--cert-dir=/certificate", "--cert-ca=/certificate/ca.crt"] {
        assert!(flags.contains(&json!(flag)), "{flags:?}");
    }
    let role = named("Role", object::WEBHOOK).unwrap();
    assert!(!role["rules"].to_string().contains("secrets"), "{role}");
    let left: Vec<Value> = rendered(false).iter().map(Object::to_value).collect();
    assert!(!format!("{left:?}").contains("--cert-ca"));
}

#[test]
fn of_kinds_that_the_cluster_does_not_have_nothing_is_rendered() {
    let metallb = metallb(json!({"metrics": {"serviceMonitors": true, "prometheusRule": true}}));
    let kinds = |absent: BTreeSet<Kind>| -> BTreeSet<Kind> {
        let observed = Observed { absent: absent.clone(), ..observed() };
        let kinds = render(&metallb, &settings(), &observed).unwrap().iter().map(Object::kind).collect();
        assert_eq!(monitoring::missing(&metallb, &absent), absent.into_iter().collect::<Vec<_>>());
        kinds
    };
    let all = kinds(BTreeSet::new());
    assert!(all.contains(&Kind::ServiceMonitor) && all.contains(&Kind::PrometheusRule));
    let some = kinds([Kind::ServiceMonitor].into());
    assert!(!some.contains(&Kind::ServiceMonitor) && some.contains(&Kind::PrometheusRule));
}

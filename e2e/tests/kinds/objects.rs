//! Objects of every kind of the configuration.

use serde_json::{Value, json};

use crate::support::NAMESPACE;

pub(crate) fn object(version: &str, kind: &str, name: &str, spec: Value) -> Value {
    let mut object =
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}});
    if !spec.is_null() {
        object["spec"] = spec;
    }
    object
}

fn v1beta1(kind: &str, name: &str, spec: Value) -> Value {
    object("metallb.io/v1beta1", kind, name, spec)
}

fn v1beta2(name: &str, spec: Value) -> Value {
    object("metallb.io/v1beta2", "BGPPeer", name, spec)
}

/// A label selector with every field.
fn selector() -> Value {
    json!({
        "matchLabels": {"foo": "bar"},
        "matchExpressions": [
            {"key": "bar", "operator": "In", "values": ["quux"]}, {"key": "gpu", "operator": "DoesNotExist"},
        ],
    })
}

/// A peer with every field that goes together.
pub(crate) fn peer_spec() -> Value {
    json!({
        "myASN": 64512, "dynamicASN": "external", "localASN": 64514, "peerAddress": "192.168.10.99",
        "sourceAddress": "10.20.30.40", "peerPort": 1179, "holdTime": "180s", "keepaliveTime": "1m0s",
        "connectTime": "10s", "routerID": "10.20.30.40", "nodeSelectors": [selector(), {}],
        "passwordSecret": {"name": "kinds", "namespace": NAMESPACE}, "bfdProfile": "kinds",
        "enableGracefulRestart": true, "ebgpMultiHop": true, "vrf": "red", "disableMP": false,
        "dualStackAddressFamily": true,
    })
}

pub(crate) fn with_every_field() -> Vec<Value> {
    vec![
        v1beta1(
            "BFDProfile",
            "kinds",
            json!({"receiveInterval": 10, "transmitInterval": 60000, "detectMultiplier": 255, "echoInterval": 50,
                   "echoMode": false, "passiveMode": true, "minimumTtl": 254}),
        ),
        object(
            "ferrolb.io/v1alpha1",
            "AddressReservation",
            "kinds",
            json!({"addresses": ["192.168.10.207", "192.168.10.208-192.168.10.209"],
                   "service": {"namespace": "default", "name": "kinds"},
                   "quotas": [{"namespace": "default", "maxAddresses": 0}]}),
        ),
        v1beta1(
            "Community",
            "kinds",
            json!({"communities": [{"name": "kinds", "value": "64512:1234"},
                                   {"name": "kinds-large", "value": "large:64512:1:4294967295"}]}),
        ),
        v1beta1(
            "IPAddressPool",
            "kinds",
            json!({"addresses": ["10.20.0.0/16", "10.50.0.0-10.50.0.255", "2001:db8:9::/64"], "autoAssign": false,
                   "avoidBuggyIPs": true,
                   "serviceAllocation": {"priority": 50, "namespaces": ["kinds"], "namespaceSelectors": [selector()],
                                         "serviceSelectors": [selector(), {"matchLabels": {"a": "b"}}]}}),
        ),
        v1beta2("kinds", peer_spec()),
        v1beta2(
            "kinds-unnumbered",
            json!({"myASN": 64512, "peerASN": 4294967295_u32, "interface": "eth9", "peerPort": 16384, "password": "secret",
                   "disableMP": false, "dualStackAddressFamily": false}),
        ),
        v1beta1(
            "BGPAdvertisement",
            "kinds",
            json!({"aggregationLength": 24, "aggregationLengthV6": 64, "localPref": 100, "communities": ["kinds", "64512:1"],
                   "ipAddressPools": ["kinds"], "ipAddressPoolSelectors": [selector()], "nodeSelectors": [selector()],
                   "peers": ["kinds"], "serviceSelectors": []}),
        ),
        v1beta1(
            "L2Advertisement",
            "kinds",
            json!({"ipAddressPools": ["kinds"], "ipAddressPoolSelectors": [selector()], "nodeSelectors": [selector()],
                   "interfaces": ["ens18"], "serviceSelectors": [selector()],
                   "preferredNodeSelectors": [{"weight": 100, "preference": selector()}]}),
        ),
    ]
}

/// Objects with what they must have, and the spec that the API server makes of it.
pub(crate) fn with_what_must_be() -> Vec<(Value, Option<Value>)> {
    vec![
        (
            v1beta1("IPAddressPool", "bare", json!({"addresses": ["10.60.0.0/24"]})),
            Some(json!({"addresses": ["10.60.0.0/24"], "autoAssign": true, "avoidBuggyIPs": false})),
        ),
        (
            v1beta2("bare", json!({"myASN": 64512, "peerASN": 64513, "peerAddress": "192.168.10.98"})),
            Some(json!({"myASN": 64512, "peerASN": 64513, "peerAddress": "192.168.10.98", "peerPort": 179,
                        "disableMP": false, "dualStackAddressFamily": false})),
        ),
        (
            v1beta1("BGPAdvertisement", "bare-spec", json!({})),
            Some(json!({"aggregationLength": 32, "aggregationLengthV6": 128})),
        ),
        (v1beta1("BGPAdvertisement", "bare", Value::Null), None),
        (v1beta1("L2Advertisement", "bare", Value::Null), None),
        (v1beta1("BFDProfile", "bare", Value::Null), None),
        (v1beta1("Community", "bare", Value::Null), None),
    ]
}

/// Objects that the API server refuses by itself, and what it says.
pub(crate) fn wrong() -> Vec<(Value, &'static str)> {
    let peer = |field: &str, value: Value| {
        let mut spec = json!({"myASN": 64512, "peerASN": 64513, "peerAddress": "192.168.10.97"});
        spec[field] = value;
        v1beta2("wrong", spec)
    };
    let reservation = |spec: Value| object("ferrolb.io/v1alpha1", "AddressReservation", "wrong", spec);
    vec![
        (
            reservation(
                json!({"addresses": ["192.168.10.207"], "namespace": "a", "service": {"namespace": "a", "name": "b"}}),
            ),
            "addresses are for a Service or for a namespace: give service or namespace, not both",
        ),
        (
            reservation(json!({"quotas": [{"namespace": "a", "maxAddresses": -1}]})),
            "should be greater than or equal to 0",
        ),
        (v1beta1("IPAddressPool", "wrong", Value::Null), "spec: Required value"),
        (v1beta1("IPAddressPool", "wrong", json!({})), "spec.addresses: Required value"),
        (
            v1beta1("BFDProfile", "wrong", json!({"receiveInterval": 9})),
            "should be greater than or equal to 10",
        ),
        (
            v1beta1("BFDProfile", "wrong", json!({"detectMultiplier": 256})),
            "should be less than or equal to 255",
        ),
        (v1beta1("BFDProfile", "wrong", json!({"minimumTtl": 255})), "should be less than or equal to 254"),
        (v1beta1("BFDProfile", "wrong", json!({"minimumTTL": 254})), "unknown field \"spec.minimumTTL\""),
        (v1beta1("BGPAdvertisement", "wrong", json!({"aggregationLength": 0})), "greater than or equal to 1"),
        (
            v1beta1(
                "BGPAdvertisement",
                "wrong",
                json!({"aggregationLength": 24, "serviceSelectors": [{"matchLabels": {"a": "b"}}]}),
            ),
            "serviceSelectors and aggregationLength are mutually exclusive, can only be used together with default aggregationLength (32) and aggregationLengthV6 (128)",
        ),
        (peer("myASN", json!(-1)), "should be greater than or equal to 0"),
        (peer("myASN", json!(4294967296_u64)), "should be less than or equal to 4294967295"),
        (peer("localASN", json!(0)), "should be greater than or equal to 1"),
        (peer("peerPort", json!(16385)), "should be less than or equal to 16384"),
        (peer("dynamicASN", json!("both")), "Unsupported value: \"both\""),
        (peer("connectTime", json!("0s")), "connect time should be between 1 seconds to 65535"),
        (peer("connectTime", json!("1500ms")), "connect time should contain a whole number of seconds"),
        (
            object(
                "metallb.io/v1beta1",
                "BGPPeer",
                "wrong",
                json!({"myASN": 1, "peerASN": 2, "peerAddress": "192.168.10.97",
                       "nodeSelectors": [{"matchExpressions": [{"key": "a", "operator": "Exists", "values": []}]}]}),
            ),
            "should have at least 1 items",
        ),
        (
            v1beta1(
                "L2Advertisement",
                "wrong",
                json!({"preferredNodeSelectors": [{"weight": 101, "preference": {}}]}),
            ),
            "should be less than or equal to 100",
        ),
    ]
}

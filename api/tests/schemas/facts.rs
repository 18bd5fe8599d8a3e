//! The facts: what MetalLB 0.16 and its operator serve, and what is added to it (`v1alpha1`).

/// Kind, resource, version, whether it is the stored one, and the warning of a deprecated one.
pub(crate) const VERSIONS: &str = "
AddressReservation | addressreservations | v1alpha1 | stored |
BFDProfile         | bfdprofiles         | v1beta1 | stored |
BGPAdvertisement   | bgpadvertisements   | v1beta1 | stored |
BGPPeer            | bgppeers            | v1beta1 |        | v1beta1 is deprecated, please use v1beta2
BGPPeer            | bgppeers            | v1beta2 | stored |
BGPSession         | bgpsessions         | v1alpha1 | stored |
Community          | communities         | v1beta1 | stored |
ConfigurationState | configurationstates | v1beta1 | stored |
IPAddressPool      | ipaddresspools      | v1beta1 | stored |
L2Advertisement    | l2advertisements    | v1beta1 | stored |
MetalLB            | metallbs            | v1beta1 | stored |
ServiceBGPStatus   | servicebgpstatuses  | v1beta1 | stored |
ServiceL2Status    | servicel2statuses   | v1beta1 | stored |
";

/// Resource, name of the column, type, path, priority.
pub(crate) const COLUMNS: &str = "
addressreservations | Addresses               | string  | .spec.addresses              |
addressreservations | Namespace               | string  | .spec.namespace              |
addressreservations | Service                 | string  | .spec.service.name           |
addressreservations | Service Namespace       | string  | .spec.service.namespace      | 10
bfdprofiles         | Passive Mode            | boolean | .spec.passiveMode            |
bfdprofiles         | Transmit Interval       | integer | .spec.transmitInterval       |
bfdprofiles         | Receive Interval        | integer | .spec.receiveInterval        |
bfdprofiles         | Multiplier              | integer | .spec.detectMultiplier       |
bgpadvertisements   | IPAddressPools          | string  | .spec.ipAddressPools         |
bgpadvertisements   | IPAddressPool Selectors | string  | .spec.ipAddressPoolSelectors |
bgpadvertisements   | Peers                   | string  | .spec.peers                  |
bgpadvertisements   | Node Selectors          | string  | .spec.nodeSelectors          | 10
bgppeers            | Address                 | string  | .spec.peerAddress            |
bgppeers            | ASN                     | string  | .spec.peerASN                |
bgppeers            | BFD Profile             | string  | .spec.bfdProfile             |
bgppeers            | Multi Hops              | string  | .spec.ebgpMultiHop           |
bgpsessions         | Node                    | string  | .status.node                 |
bgpsessions         | Peer                    | string  | .status.peer                 |
bgpsessions         | Address                 | string  | .status.address              |
bgpsessions         | AS                      | integer | .status.peerASN              |
bgpsessions         | State                   | string  | .status.state                |
bgpsessions         | Since                   | date    | .status.since                |
bgpsessions         | Sent                    | integer | .status.prefixesSent         |
bgpsessions         | Received                | integer | .status.prefixesReceived     |
bgpsessions         | BFD                     | string  | .status.bfdState             |
bgpsessions         | Last Error              | string  | .status.lastError            | 10
configurationstates | Result                  | string  | .status.result               |
configurationstates | ErrorSummary            | string  | .status.errorSummary         |
configurationstates | Age                     | date    | .metadata.creationTimestamp  |
ipaddresspools      | Auto Assign             | boolean | .spec.autoAssign             |
ipaddresspools      | Avoid Buggy IPs         | boolean | .spec.avoidBuggyIPs          |
ipaddresspools      | Addresses               | string  | .spec.addresses              |
l2advertisements    | IPAddressPools          | string  | .spec.ipAddressPools         |
l2advertisements    | IPAddressPool Selectors | string  | .spec.ipAddressPoolSelectors |
l2advertisements    | Interfaces              | string  | .spec.interfaces             |
l2advertisements    | Node Selectors          | string  | .spec.nodeSelectors          | 10
metallbs            | Available               | string  | .status.conditions[?(@.type=='Available')].status   |
metallbs            | Degraded                | string  | .status.conditions[?(@.type=='Degraded')].status    |
metallbs            | Progressing             | string  | .status.conditions[?(@.type=='Progressing')].status |
metallbs            | Age                     | date    | .metadata.creationTimestamp  |
servicebgpstatuses  | Node                    | string  | .status.node                 |
servicebgpstatuses  | Service Name            | string  | .status.serviceName          |
servicebgpstatuses  | Service Namespace       | string  | .status.serviceNamespace     |
servicel2statuses   | Allocated Node          | string  | .status.node                 |
servicel2statuses   | Service Name            | string  | .status.serviceName          |
servicel2statuses   | Service Namespace       | string  | .status.serviceNamespace     |
";

/// Where types of Kubernetes stand whose schemas are not ours.
pub(crate) const FOREIGN: &[(&str, &str)] = &[
    ("spec.controllerConfig.affinity", "Affinity"),
    ("spec.controllerConfig.resources", "ResourceRequirements"),
    ("spec.controllerTolerations", "Toleration"),
    ("spec.speakerConfig.affinity", "Affinity"),
    ("spec.speakerConfig.resources", "ResourceRequirements"),
    ("spec.speakerTolerations", "Toleration"),
];

/// Resource and version, and of each field: path, type, default, whether it must be there, rules.
pub(crate) const FIELDS: &[(&str, &str, &str)] = &[
    (
        "addressreservations",
        "v1alpha1",
        "
        spec                        | object        | | yes |
        spec.addresses              | []string      | | |
        spec.namespace              | string        | | |
        spec.service                | object        | | |
        spec.service.namespace      | string        | | yes |
        spec.service.name           | string        | | yes |
        spec.quotas                 | []object      | | |
        spec.quotas[].namespace     | string        | | yes |
        spec.quotas[].maxAddresses  | integer int64 | | yes | 0..
        status                      | object        | | |
        ",
    ),
    (
        "bfdprofiles",
        "v1beta1",
        "
        spec                  | object        | | |
        spec.receiveInterval  | integer int32 | | | 10..60000
        spec.transmitInterval | integer int32 | | | 10..60000
        spec.detectMultiplier | integer int32 | | | 2..255
        spec.echoInterval     | integer int32 | | | 10..60000
        spec.echoMode         | boolean       | | |
        spec.passiveMode      | boolean       | | |
        spec.minimumTtl       | integer int32 | | | 1..254
        status                | object        | | |
        ",
    ),
    (
        "bgpadvertisements",
        "v1beta1",
        "
        spec                        | object          |     | |
        spec.aggregationLength      | integer int32   | 32  | | 1..
        spec.aggregationLengthV6    | integer int32   | 128 | |
        spec.localPref              | integer int32   |     | |
        spec.communities            | []string        |     | |
        spec.ipAddressPools         | []string        |     | |
        spec.ipAddressPoolSelectors | []LabelSelector |     | |
        spec.nodeSelectors          | []LabelSelector |     | |
        spec.peers                  | []string        |     | |
        spec.serviceSelectors       | []LabelSelector |     | |
        status                      | object          |     | |
        ",
    ),
    (
        "bgppeers",
        "v1beta1",
        "
        spec                                           | object        | |     |
        spec.myASN                                     | integer int64 | | yes | 0..4294967295
        spec.peerASN                                   | integer int64 | | yes | 0..4294967295
        spec.peerAddress                               | string        | | yes |
        spec.sourceAddress                             | string        | |     |
        spec.peerPort                                  | integer       | |     | 0..16384
        spec.holdTime                                  | string        | |     |
        spec.keepaliveTime                             | string        | |     |
        spec.routerID                                  | string        | |     |
        spec.nodeSelectors                             | []object      | |     |
        spec.nodeSelectors[].matchLabels               | map           | |     |
        spec.nodeSelectors[].matchExpressions          | []object      | |     |
        spec.nodeSelectors[].matchExpressions[].key      | string      | | yes |
        spec.nodeSelectors[].matchExpressions[].operator | string      | | yes |
        spec.nodeSelectors[].matchExpressions[].values   | []string    | | yes | minItems 1
        spec.password                                  | string        | |     |
        spec.bfdProfile                                | string        | |     |
        spec.ebgpMultiHop                              | boolean       | |     |
        status                                         | object        | |     |
        ",
    ),
    (
        "bgppeers",
        "v1beta2",
        "
        spec                          | object          |       |     |
        spec.myASN                    | integer int64   |       | yes | 0..4294967295
        spec.peerASN                  | integer int64   |       |     | 0..4294967295
        spec.localASN                 | integer int64   |       |     | 1..4294967295
        spec.dynamicASN               | string          |       |     | internal or external
        spec.peerAddress              | string          |       |     |
        spec.interface                | string          |       |     |
        spec.sourceAddress            | string          |       |     |
        spec.peerPort                 | integer         | 179   |     | 1..16384
        spec.holdTime                 | string          |       |     |
        spec.keepaliveTime            | string          |       |     |
        spec.connectTime              | string          |       |     |
        spec.routerID                 | string          |       |     |
        spec.nodeSelectors            | []LabelSelector |       |     |
        spec.password                 | string          |       |     |
        spec.passwordSecret           | object          |       |     | map atomic
        spec.passwordSecret.name      | string          |       |     |
        spec.passwordSecret.namespace | string          |       |     |
        spec.bfdProfile               | string          |       |     |
        spec.enableGracefulRestart    | boolean         |       |     |
        spec.ebgpMultiHop             | boolean         |       |     |
        spec.vrf                      | string          |       |     |
        spec.disableMP                | boolean         | false |     |
        spec.dualStackAddressFamily   | boolean         | false |     |
        status                        | object          |       |     |
        ",
    ),
    (
        "communities",
        "v1beta1",
        "
        spec                     | object   | | |
        spec.communities         | []object | | |
        spec.communities[].name  | string   | | |
        spec.communities[].value | string   | | |
        status                   | object   | | |
        ",
    ),
    (
        "configurationstates",
        "v1beta1",
        "
        status              | object      | | |
        status.result       | string      | | | Valid or Invalid or Unknown
        status.errorSummary | string      | | |
        status.conditions   | []Condition | | | list map type
        ",
    ),
    (
        "ipaddresspools",
        "v1beta1",
        "
        spec                                      | object          |       | yes |
        spec.addresses                            | []string        |       | yes |
        spec.autoAssign                           | boolean         | true  |     |
        spec.avoidBuggyIPs                        | boolean         | false |     |
        spec.serviceAllocation                    | object          |       |     |
        spec.serviceAllocation.priority           | integer         |       |     |
        spec.serviceAllocation.namespaces         | []string        |       |     |
        spec.serviceAllocation.namespaceSelectors | []LabelSelector |       |     |
        spec.serviceAllocation.serviceSelectors   | []LabelSelector |       |     |
        status                                    | object          |       |     |
        status.assignedIPv4                       | integer int64   |       | yes |
        status.assignedIPv6                       | integer int64   |       | yes |
        status.availableIPv4                      | integer int64   |       | yes |
        status.availableIPv6                      | integer int64   |       | yes |
        ",
    ),
    (
        "l2advertisements",
        "v1beta1",
        "
        spec                                     | object          | |     |
        spec.ipAddressPools                      | []string        | |     |
        spec.ipAddressPoolSelectors              | []LabelSelector | |     |
        spec.nodeSelectors                       | []LabelSelector | |     |
        spec.interfaces                          | []string        | |     |
        spec.serviceSelectors                    | []LabelSelector | |     |
        spec.preferredNodeSelectors              | []object        | |     |
        spec.preferredNodeSelectors[].weight     | integer int32   | | yes | 1..100
        spec.preferredNodeSelectors[].preference | LabelSelector   | | yes | map atomic
        status                                   | object          | |     |
        ",
    ),
    // From controllerReplicas on, and status.components: additions, without effect where they are absent.
    (
        "metallbs",
        "v1beta1",
        r"
        spec                                    | object               | | |
        spec.image                              | string               | | |
        spec.bgpBackend                         | string               | | |
        spec.logLevel                           | string               | | | all or debug or info or warn or error or none
        spec.loadBalancerClass                  | string               | | | pattern ^([a-z0-9A-Z]([\w.\-]*[a-z0-9A-Z])?/)?[a-z0-9A-Z]([\w.\-]*[a-z0-9A-Z])?$
        spec.nodeSelector                       | map                  | | |
        spec.controllerNodeSelector             | map                  | | |
        spec.speakerTolerations                 | []Toleration         | | |
        spec.controllerTolerations              | []Toleration         | | |
        spec.speakerConfig                      | object               | | |
        spec.speakerConfig.priorityClassName    | string               | | |
        spec.speakerConfig.runtimeClassName     | string               | | |
        spec.speakerConfig.annotations          | map                  | | |
        spec.speakerConfig.affinity             | Affinity             | | |
        spec.speakerConfig.resources            | ResourceRequirements | | |
        spec.controllerConfig                   | object               | | |
        spec.controllerConfig.priorityClassName | string               | | |
        spec.controllerConfig.runtimeClassName  | string               | | |
        spec.controllerConfig.annotations       | map                  | | |
        spec.controllerConfig.affinity          | Affinity             | | |
        spec.controllerConfig.resources         | ResourceRequirements | | |
        spec.frrk8sConfig                       | object               | | |
        spec.frrk8sConfig.alwaysBlock           | []string             | | |
        spec.frrk8sConfig.namespace             | string               | | |
        spec.frrk8sConfig.secretPassthrough     | boolean              | | |
        spec.metrics                            | object               | | |
        spec.metrics.additionalLabels           | map                  | | |
        spec.metrics.enabled                    | boolean              | | |
        spec.metrics.prometheusRule             | boolean              | | |
        spec.metrics.serviceMonitors            | boolean              | | |
        spec.membership                         | object               | | |
        spec.membership.mode                    | string               | | | gossip or lease
        spec.membership.leaseDuration           | string               | | |
        spec.membership.renewDeadline           | string               | | |
        spec.membership.retryPeriod             | string               | | |
        spec.networkPolicies                    | object               | | |
        spec.networkPolicies.enabled            | boolean              | | |
        spec.networkPolicies.apiPort            | integer int32        | | | 1..65535
        spec.tls                                | object               | | |
        spec.tls.minVersion                     | string               | | | VersionTLS12 or VersionTLS13
        spec.tls.cipherSuites                   | []string             | | |
        spec.tls.curves                         | []string             | | |
        spec.controllerReplicas                 | integer int32        | | | 1..9
        spec.imagePullSecrets                   | []object             | | |
        spec.imagePullSecrets[].name            | string               | | yes |
        spec.updateStrategy                     | object               | | |
        spec.updateStrategy.type                | string               | | |
        spec.updateStrategy.rollingUpdate       | object               | | |
        spec.updateStrategy.rollingUpdate.maxSurge       | ?           | | |
        spec.updateStrategy.rollingUpdate.maxUnavailable | ?           | | |
        spec.ignoreExcludeLB                    | boolean              | | |
        spec.bgpListenPort                      | integer int32        | | | 1..65535
        spec.paused                             | boolean              | | |
        status                                  | object               | | |
        status.conditions                       | []Condition          | | | list map type
        status.components                       | []object             | | |
        status.components[].name                | string               | | yes |
        status.components[].kind                | string               | | yes |
        status.components[].desired             | integer int32        | | yes |
        status.components[].ready               | integer int32        | | yes |
        status.components[].version             | string               | | |
        ",
    ),
    (
        "bgpsessions",
        "v1alpha1",
        "
        status                              | object           | | |
        status.node                         | string           | | yes |
        status.peer                         | string           | | yes |
        status.address                      | string           | | yes |
        status.localASN                     | integer int64    | | yes |
        status.peerASN                      | integer int64    | | |
        status.state                        | string           | | yes | Connect or Established
        status.since                        | string date-time | | |
        status.established                  | integer int64    | | yes |
        status.negotiated                   | object           | | |
        status.negotiated.peerIdentifier    | string           | | yes |
        status.negotiated.localIdentifier   | string           | | yes |
        status.negotiated.holdTimeSeconds   | integer int64    | | yes |
        status.negotiated.keepaliveSeconds  | integer int64    | | yes |
        status.negotiated.families          | []string         | | yes |
        status.negotiated.capabilities      | []string         | | yes |
        status.prefixesSent                 | integer int64    | | yes |
        status.prefixesWanted               | integer int64    | | yes |
        status.prefixesReceived             | integer int64    | | yes |
        status.unsent                       | []string         | | |
        status.lastError                    | string           | | |
        status.lastNotificationSent         | string           | | |
        status.lastNotificationReceived     | string           | | |
        status.bfdState                     | string           | | |
        ",
    ),
    (
        "servicebgpstatuses",
        "v1beta1",
        "
        spec                    | object   | | |
        status                  | object   | | |
        status.node             | string   | | |
        status.serviceName      | string   | | |
        status.serviceNamespace | string   | | |
        status.peers            | []string | | |
        ",
    ),
    (
        "servicel2statuses",
        "v1beta1",
        "
        spec                     | object   | | |
        status                   | object   | | |
        status.node              | string   | | |
        status.serviceName       | string   | | |
        status.serviceNamespace  | string   | | |
        status.interfaces        | []object | | |
        status.interfaces[].name | string   | | |
        ",
    ),
];

const IMMUTABLE: &str = "Value is immutable";

/// Resource, version, path, rule (CEL) and message.
pub(crate) const RULES: &[(&str, &str, &str, &str, &str)] = &[
    (
        "addressreservations",
        "v1alpha1",
        "spec",
        "!has(self.service) || !has(self.namespace)",
        "addresses are for a Service or for a namespace: give service or namespace, not both",
    ),
    (
        "bgpadvertisements",
        "v1beta1",
        "spec",
        "!has(self.serviceSelectors) || self.serviceSelectors.size() == 0 || ((!has(self.aggregationLength) || self.aggregationLength == 32) && (!has(self.aggregationLengthV6) || self.aggregationLengthV6 == 128))",
        "serviceSelectors and aggregationLength are mutually exclusive, can only be used together with default aggregationLength (32) and aggregationLengthV6 (128)",
    ),
    (
        "bgppeers",
        "v1beta2",
        "spec.connectTime",
        "duration(self).getSeconds() >= 1 && duration(self).getSeconds() <= 65535",
        "connect time should be between 1 seconds to 65535",
    ),
    (
        "bgppeers",
        "v1beta2",
        "spec.connectTime",
        "duration(self).getMilliseconds() % 1000 == 0",
        "connect time should contain a whole number of seconds",
    ),
    (
        "bgppeers",
        "v1beta2",
        "spec.enableGracefulRestart",
        "self == oldSelf",
        "EnableGracefulRestart cannot be changed after creation",
    ),
    // An addition: the operator honours one object, so another name is refused where it is applied.
    (
        "metallbs",
        "v1beta1",
        "",
        "self.metadata.name == 'metallb'",
        "the operator honours one MetalLB object only: name it metallb",
    ),
    ("servicebgpstatuses", "v1beta1", "status.node", "self == oldSelf", IMMUTABLE),
    ("servicebgpstatuses", "v1beta1", "status.serviceName", "self == oldSelf", IMMUTABLE),
    ("servicebgpstatuses", "v1beta1", "status.serviceNamespace", "self == oldSelf", IMMUTABLE),
    ("servicel2statuses", "v1beta1", "status.node", "self == oldSelf", IMMUTABLE),
    ("servicel2statuses", "v1beta1", "status.serviceName", "self == oldSelf", IMMUTABLE),
    ("servicel2statuses", "v1beta1", "status.serviceNamespace", "self == oldSelf", IMMUTABLE),
];

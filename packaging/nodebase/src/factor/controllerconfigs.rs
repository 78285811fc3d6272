// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ControllerConfigs from which an MCO image's own `machine-config-controller bootstrap` renders the inputs of factor.

use nodebase_generator::platform::Table;
use serde_json::{Map, Value, json};

/// Addresses for documentation (RFC 5737): what is a fact must be recognisable in the renderings.
const API_VIP: &str = "192.0.2.5";
const INGRESS_VIP: &str = "192.0.2.4";

/// A kind of cluster.
#[derive(Clone, Debug)]
pub struct Kind {
    /// The directory's name.
    pub name: String,
    /// `node.json` of factor's input.
    pub node: Value,
    /// The ControllerConfig.
    pub config: Value,
}

/// All kinds of the table: each cluster platform on the platform that it is the default of, else on metal.
pub fn kinds(table: &Table) -> Vec<Kind> {
    let mut out = Vec::new();
    for row in table.cluster_platforms().iter().filter(|r| !r.name.is_empty()) {
        let on_prem = row.column("class") == Some("on-prem");
        let mut platforms: Vec<&str> = table
            .platforms()
            .iter()
            .filter(|p| row.name != "None" && p.column("clusterPlatform") == Some(row.name.as_str()))
            .map(|p| p.name.as_str())
            .collect();
        if platforms.is_empty() {
            platforms.push(match row.name.as_str() {
                "EquinixMetal" => "packet",
                "Libvirt" => "qemu",
                "oVirt" => "openstack",
                _ => "metal",
            });
        }
        for platform in &platforms {
            let lower = row.name.to_lowercase();
            let name = if platforms.len() > 1 { format!("{lower}-{platform}") } else { lower };
            match row.name.as_str() {
                "External" => {
                    out.push(kind(&format!("{name}-ccm"), platform, &row.name, on_prem, Some("External")));
                    out.push(kind(&format!("{name}-none"), platform, &row.name, on_prem, Some("None")));
                }
                "VSphere" => {
                    out.push(kind(&format!("{name}-upi"), platform, &row.name, false, None));
                    out.push(kind(&name, platform, &row.name, true, None));
                }
                _ => out.push(kind(&name, platform, &row.name, on_prem, None)),
            }
        }
    }
    out
}

fn kind(name: &str, platform: &str, cluster: &str, vips: bool, ccm: Option<&str>) -> Kind {
    let image = |name: &str| format!("quay.example.com/release@sha256:{name}");
    let images: Map<String, Value> = [
        "machineConfigOperator",
        "baremetalRuntimeCfgImage",
        "infraImageKey",
        "keepalivedImage",
        "corednsImage",
        "haproxyImage",
        "kubeRbacProxyImage",
        "apiServerWatcherKey",
    ]
    .iter()
    .map(|n| ((*n).to_owned(), image(&n.to_lowercase()).into()))
    .collect();
    let mut node = json!({
        "platform": platform, "clusterPlatform": cluster, "controlPlaneTopology": "HighlyAvailable",
        "ipFamilies": "IPv4", "networkType": "OVNKubernetes",
        "images": {"baremetalRuntimeCfgImage": images["baremetalRuntimeCfgImage"]},
    });
    let mut status = json!({"type": cluster});
    let mut own = json!({});
    if vips {
        node["apiServerInternalIPs"] = json!([API_VIP]);
        node["ingressIPs"] = json!([INGRESS_VIP]);
        own = json!({"apiServerInternalIP": API_VIP, "apiServerInternalIPs": [API_VIP],
            "ingressIP": INGRESS_VIP, "ingressIPs": [INGRESS_VIP]});
    }
    if let Some(ccm) = ccm {
        node["cloudControllerManager"] = ccm.into();
        own["cloudControllerManager"] = json!({"state": ccm});
    }
    if own.as_object().is_some_and(|o| !o.is_empty()) {
        status[cluster.to_lowercase()] = own;
    }
    let config = json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "ControllerConfig",
        "metadata": {"name": "machine-config-controller"},
        "spec": {
            "additionalTrustBundle": null,
            "cloudProviderCaData": null,
            "cloudProviderConfig": "",
            "clusterDNSIP": "172.30.0.10",
            "dns": {"apiVersion": "config.openshift.io/v1", "kind": "DNS", "metadata": {"name": "cluster"},
                "spec": {"baseDomain": "cluster.example.com"}, "status": {}},
            "images": images,
            "infra": {"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"},
                "spec": {"cloudConfig": {"name": ""}, "platformSpec": {"type": cluster}},
                "status": {
                    "apiServerInternalURI": "https://api-int.cluster.example.com:6443",
                    "apiServerURL": "https://api.cluster.example.com:6443",
                    "controlPlaneTopology": "HighlyAvailable", "infrastructureTopology": "HighlyAvailable",
                    "cpuPartitioning": "None", "etcdDiscoveryDomain": "", "infrastructureName": "cluster",
                    "platform": cluster, "platformStatus": status}},
            "ipFamilies": "IPv4",
            "kubeAPIServerServingCAData": "",
            "network": {"mtuMigration": null},
            "networkType": "OVNKubernetes",
            "osImageURL": image("os"),
            "proxy": null,
            "pullSecret": {"name": "pull-secret", "namespace": "openshift-config"},
            "releaseImage": image("release"),
            "rootCAData": "",
        },
    });
    Kind { name: name.to_owned(), node, config }
}

//! Metrics by HTTPS, for those whom the API server lets read them; and the log level of a running
//! process, for those whom it lets change that.

mod support;

use std::time::Duration;

use support::metrics::{READER, request, token};
use support::{ADDRESS, NAMESPACE, Product, WORKERS, until};

#[test]
fn metrics_are_read_and_levels_changed_by_those_who_may() {
    let product = Product::ready();
    product.lab.apply(READER).unwrap();
    let (reader, nobody) = (token(&product, "metrics-reader"), token(&product, "nobody"));
    let owner = product.owner().unwrap();
    let node = product.lab.host(&owner).unwrap().ipv4().to_string();

    assert_eq!(request(&product, &node, "/metrics", None, &[]).1, "401");
    assert_eq!(request(&product, &node, "/metrics", Some("garbage"), &[]).1, "401");
    let (body, status) = request(&product, &node, "/metrics", Some(&nobody), &[]);
    assert_eq!(
        (body.trim(), status.as_str()),
        ("Authorization denied for user system:serviceaccount:demo:nobody", "403")
    );
    let series = [
        format!(
            "metallb_speaker_announced{{ip=\"192.168.10.200\",node=\"{owner}\",protocol=\"layer2\",service=\"demo/hello-lb\"}} 1"
        ),
        "metallb_k8s_client_config_loaded_bool 1".to_owned(),
        "metallb_k8s_client_config_stale_bool 0".to_owned(),
        "process_resident_memory_bytes".to_owned(),
    ];
    support::arp::ask(&product.lab, "client", ADDRESS, 1);
    until("the speaker's series", Duration::from_secs(30), || {
        let (body, status) = request(&product, &node, "/metrics", Some(&reader), &[]);
        let missing: Vec<_> = series.iter().filter(|it| !body.contains(it.as_str())).collect();
        let counted = ["requests_received", "responses_sent", "gratuitous_sent"].iter().all(|name| {
            let series = format!("metallb_layer2_{name}{{ip=\"{ADDRESS}\"}} ");
            body.lines().filter_map(|line| line.strip_prefix(&series)).any(|count| count != "0")
        });
        if status == "200" && missing.is_empty() && counted {
            Ok(())
        } else {
            Err(format!("{status}, without {missing:?}\n{body}"))
        }
    });

    // Who does not announce the Service says nothing of it.
    let other = WORKERS.into_iter().find(|it| *it != owner).unwrap();
    let other = product.lab.host(other).unwrap().ipv4().to_string();
    let (body, status) = request(&product, &other, "/metrics", Some(&reader), &[]);
    assert_eq!(status, "200");
    let announced = |line: &&str| line.starts_with("metallb_speaker_announced{") && line.ends_with(" 1");
    let wrong: Vec<&str> = body.lines().filter(announced).filter(|it| it.contains("demo/hello-lb")).collect();
    assert!(wrong.is_empty(), "{wrong:?}");

    let level =
        |level: &str| request(&product, &node, "/log-level", Some(&reader), &["-X", "PUT", "-d", level]);
    assert_eq!(request(&product, &node, "/log-level", Some(&nobody), &["-X", "PUT", "-d", "debug"]).1, "403");
    let (body, status) = level("loud");
    assert!(status == "400" && body.contains("use all, debug, info"), "{status}: {body}");
    assert_eq!(level("debug").1, "200");
    let pod = ["-n", NAMESPACE, "get", "pods", "-l", "component=speaker", "--field-selector"];
    let on_owner = format!("spec.nodeName={owner}");
    let name =
        product.kubectl(&[&pod[..], &[&on_owner, "-o", "jsonpath={.items[0].metadata.name}"]].concat());
    until("an answered request in the debug log", Duration::from_secs(30), || {
        support::arp::ask(&product.lab, "client", support::ADDRESS, 1);
        let log = product.kubectl(&["-n", NAMESPACE, "logs", &name, "--tail=200"]);
        let wanted = "got ARP request for service IP, sending response";
        if log.contains(wanted) { Ok(()) } else { Err("no such line".to_owned()) }
    });
    assert_eq!(level("info").1, "200");
    product.lab.delete(READER).unwrap();
}

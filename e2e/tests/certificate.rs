//! The webhook's certificate: lost or spoilt it comes back, and no change of the configuration is refused
//! meanwhile.

mod support;

use std::time::Duration;

use support::{NAMESPACE, Product, throughout, until};

const SECRET: &str = "secret/metallb-webhook-cert";

fn data(product: &Product) -> Result<serde_json::Value, String> {
    let secret = product.get(&["-n", NAMESPACE, SECRET])?;
    let owner = &secret["metadata"]["ownerReferences"][0]["kind"];
    if owner == "MetalLB" { Ok(secret["data"].clone()) } else { Err(format!("owned by {owner}")) }
}

#[test]
fn a_lost_or_spoilt_certificate_comes_back_as_it_was() {
    let product = Product::ready();
    let before = until("the Secret", Duration::from_secs(10), || data(&product));
    let spoil = r#"{"data":{"tls.crt":"Z2FyYmFnZQ=="}}"#;
    for harm in [vec!["delete", SECRET], vec!["patch", SECRET, "--type=merge", "-p", spoil]] {
        product.kubectl(&[&["-n", NAMESPACE], &harm[..]].concat());
        until("the certificate is back", Duration::from_secs(20), || {
            if data(&product)? == before { Ok(()) } else { Err("it is another".to_owned()) }
        });
        let mut count = 0;
        throughout("changes are admitted", Duration::from_secs(2), || {
            count += 1;
            let look = format!("looked-at={count}");
            let change = ["-n", NAMESPACE, "annotate", "ipaddresspool", "default", "--overwrite", &look];
            product.lab.kubectl(&change).map(drop).map_err(|error| error.to_string())
        });
    }
    product.kubectl(&["-n", NAMESPACE, "annotate", "ipaddresspool", "default", "looked-at-"]);
}

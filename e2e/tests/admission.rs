//! Admission beside the API server's own work: what it costs, and how soon it is back when both pods are
//! killed. FERROLB_LOAD_SECONDS says how long requests are made.

mod support;

use std::time::{Duration, Instant};

use support::load::{Answer, Applied, Load, Proxy};
use support::{NAMESPACE, NODES, Product, measured, seconds, until};

const POOL: Applied<'_> = Applied {
    plural: "ipaddresspools",
    kind: "IPAddressPool",
    name: "load",
    rest: r#", "spec": {"addresses": ["192.168.78.0/24"]}"#,
};
/// Of a kind that no webhook reviews.
const STATE: Applied<'_> =
    Applied { plural: "configurationstates", kind: "ConfigurationState", name: "load", rest: "" };

/// Applies it 50 times a second; how long each took, sorted.
fn times(proxy: &Proxy, object: Applied<'_>, time: Duration) -> Vec<Duration> {
    let answers = Load::start(proxy, object, 50, time).wait();
    let refused: Vec<&Answer> = answers.iter().filter(|it| !it.is_taken()).collect();
    assert!(refused.is_empty() && !answers.is_empty(), "{refused:?}");
    let mut times: Vec<Duration> = answers.iter().map(|it| it.took).collect();
    times.sort();
    times
}

#[test]
fn a_review_adds_little_to_an_apply() {
    let product = Product::ready();
    let time = seconds("FERROLB_LOAD_SECONDS", 5);
    let proxy = Proxy::start(&product);
    // Once each, so that connections and caches are there.
    for object in [STATE, POOL] {
        times(&proxy, object, Duration::from_secs(1));
    }
    let [plain, reviewed] = [STATE, POOL].map(|object| times(&proxy, object, time));
    for object in ["ipaddresspool", "configurationstate"] {
        product.kubectl(&["-n", NAMESPACE, "delete", object, "load"]);
    }
    let at = |times: &[Duration], percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1000.0;
    for percent in [50, 99] {
        let (plain, reviewed) = (at(&plain, percent), at(&reviewed, percent));
        measured(
            &format!("apply at 50 a second, p{percent}"),
            format!(
                "{plain:.1} ms without a webhook, {reviewed:.1} ms with, {:.1} ms more",
                reviewed - plain
            ),
        );
    }
    assert!(at(&reviewed, 99) < at(&plain, 99) + 500.0);
}

/// How long after the harm changes are admitted again, and stay so.
fn back_after(product: &Product, harm: impl FnOnce()) -> Duration {
    harm();
    let begin = Instant::now();
    let (mut good, mut since) = (0, Duration::ZERO);
    let mut turn = 0;
    until("changes are admitted again", Duration::from_secs(60), || {
        turn += 1;
        let pool = format!(
            "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {{name: back, namespace: {NAMESPACE}, annotations: {{turn: \"{turn}\"}}}}\nspec: {{addresses: [192.168.79.0/24]}}\n"
        );
        match product.lab.apply(&pool) {
            Ok(_) => good += 1,
            Err(error) => {
                (good, since) = (0, begin.elapsed());
                return Err(error.to_string());
            }
        }
        if good < 20 { Err(format!("{good} in a row")) } else { Ok(()) }
    });
    since
}

#[test]
fn both_pods_may_be_killed() {
    let product = Product::ready();
    let killed = back_after(&product, || {
        for node in NODES {
            product.lab.host(node).unwrap().output(&["pkill", "-KILL", "--exact", "webhook"]).unwrap();
        }
    });
    measured("SIGKILL of both webhooks, last refused apply after", format!("{:.1} s", killed.as_secs_f64()));
    product.wait_available(Duration::from_secs(60));
    let deleted = back_after(&product, || {
        let pods = [
            "-n",
            NAMESPACE,
            "delete",
            "pods",
            "-l",
            "component=webhook-server",
            "--force",
            "--grace-period=0",
        ];
        product.kubectl(&pods);
    });
    measured(
        "both pods of the webhook deleted, last refused apply after",
        format!("{:.1} s", deleted.as_secs_f64()),
    );
    product.kubectl(&["-n", NAMESPACE, "delete", "ipaddresspool", "back"]);
    product.wait_available(Duration::from_secs(60));
}

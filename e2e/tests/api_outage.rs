//! Without an API server everything stays as it is: the wire needs none.

mod support;

use std::time::Duration;

use ferrolb_e2e::progress::Progress;
use support::{Product, measured, throughout, until};

#[test]
fn the_service_answers_throughout_and_nothing_restarts() {
    let product = Product::ready();
    let before = product.restarts();
    product.lab.api_stop().unwrap();
    throughout("the Service answers without an API server", Duration::from_secs(60), || {
        product.curl().map(drop)
    });
    product.lab.api_start(&Progress::quiet()).unwrap();
    // Kubernetes itself marks nodes and endpoints unready for some seconds now: what kube-proxy does not
    // forward is not ours. Afterwards everything is as before.
    let begin = std::time::Instant::now();
    let mut failed = 0;
    while begin.elapsed() < Duration::from_secs(20) {
        failed += u32::from(product.curl().is_err());
        std::thread::sleep(Duration::from_millis(100));
    }
    measured("requests that failed in 20 s after the API server's return", failed);
    product.wait_nodes_ready();
    product.wait_pods_ready();
    until("the Service answers", Duration::from_secs(30), || product.curl());
    until("its announcement is told", Duration::from_secs(30), || product.owner());
    assert_eq!(product.restarts(), before);
    product.wait_available(Duration::from_secs(60));
}

//! Leaving without a review lost. API servers keep connections to webhooks and speak HTTP/1.1 on them; one
//! that is closed while it is idle may have a review on its way, which then ends with EOF. So from the
//! beginning of the shutdown each answer asks for the end of its connection (RFC 9112 §9.6): the next
//! review comes on another one, and what is left to be closed in the end was not used any more.

use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Version};
use axum::middleware::{self, Next};
use axum::response::Response;
use ferrolb_runtime::Shutdown;

/// The router, with answers that part from their clients once the shutdown began.
pub(crate) fn parting(router: Router, shutdown: Shutdown) -> Router {
    router.layer(middleware::from_fn_with_state(shutdown, part))
}

async fn part(State(shutdown): State<Shutdown>, request: Request, next: Next) -> Response {
    // HTTP/2 knows no such header: there, GOAWAY tells what was not begun.
    let is_http1 = request.version() == Version::HTTP_11;
    let mut response = next.run(request).await;
    if is_http1 && shutdown.begun() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn answers_part_from_the_begin_of_the_shutdown() {
        let shutdown = Shutdown::default();
        let router = parting(Router::new().route("/", get(async || "word")), shutdown.clone());
        let closes = async |version| {
            let request = Request::builder().version(version).uri("/").body(Body::empty()).unwrap();
            router.clone().oneshot(request).await.unwrap().headers().contains_key(CONNECTION)
        };
        assert!(!closes(Version::HTTP_11).await);
        shutdown.begin();
        assert!(closes(Version::HTTP_11).await);
        assert!(!closes(Version::HTTP_2).await);
    }
}

//! Who may read metrics: the bearer token of a request is shown to the API server (TokenReview), and
//! the user it stands for must be allowed the verb on the non-resource URL (SubjectAccessReview).
//! Answers are remembered for a minute, by a digest of the token.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{SHA256, digest};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};

use crate::write::{self, WriteError};

const REMEMBER: Duration = Duration::from_secs(60);
const REMEMBERED: usize = 64;

type Key = (Vec<u8>, String, String);

#[derive(Clone)]
pub(crate) struct Access {
    client: Client,
    answers: Arc<Mutex<HashMap<Key, (Instant, Verdict)>>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    Allowed,
    Unauthenticated,
    Denied { user: String },
}

impl Access {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, answers: Arc::default() }
    }

    async fn verdict(&self, token: &str, verb: &str, path: &str) -> Result<Verdict, (String, WriteError)> {
        let key = (digest(&SHA256, token.as_bytes()).as_ref().to_vec(), verb.to_owned(), path.to_owned());
        if let Some((at, verdict)) = self.lock().get(&key)
            && at.elapsed() < REMEMBER
        {
            return Ok(verdict.clone());
        }
        let verdict = self.ask(token, verb, path).await?;
        let mut answers = self.lock();
        answers.retain(|_, (at, _)| at.elapsed() < REMEMBER);
        // Refusals are not worth a place: a flood of wrong tokens must not push out the scraper's.
        if verdict == Verdict::Allowed && answers.len() < REMEMBERED {
            answers.insert(key, (Instant::now(), verdict.clone()));
        }
        Ok(verdict)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, (Instant, Verdict)>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ask(&self, token: &str, verb: &str, path: &str) -> Result<Verdict, (String, WriteError)> {
        let review = TokenReview {
            spec: TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() },
            ..TokenReview::default()
        };
        let tokens: Api<TokenReview> = Api::all(self.client.clone());
        let answer = write::bounded(tokens.create(&PostParams::default(), &review))
            .await
            .map_err(|error| ("Authentication failed".to_owned(), error))?;
        let status = answer.status.unwrap_or_default();
        let Some(user) = status.user.filter(|_| status.authenticated == Some(true)) else {
            return Ok(Verdict::Unauthenticated);
        };
        let name = user.username.clone().unwrap_or_default();
        let accesses: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer =
            write::bounded(accesses.create(&PostParams::default(), &access_review(user, verb, path)))
                .await
                .map_err(|error| (format!("Authorization for user {name} failed"), error))?;
        Ok(match answer.status.is_some_and(|s| s.allowed) {
            true => Verdict::Allowed,
            false => Verdict::Denied { user: name },
        })
    }
}

fn access_review(user: UserInfo, verb: &str, path: &str) -> SubjectAccessReview {
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(NonResourceAttributes {
                path: Some(path.to_owned()),
                verb: Some(verb.to_owned()),
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

/// Lets a request through if the API server allows its bearer.
pub(crate) async fn authorize(State(access): State<Access>, request: Request, next: Next) -> Response {
    let token = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .map(str::to_owned);
    let Some(token) = token.filter(|t| !t.is_empty()) else {
        return (StatusCode::UNAUTHORIZED, "Unauthorized\n").into_response();
    };
    let verb = request.method().as_str().to_lowercase();
    match access.verdict(&token, &verb, request.uri().path()).await {
        Ok(Verdict::Allowed) => next.run(request).await,
        Ok(Verdict::Unauthenticated) => (StatusCode::UNAUTHORIZED, "Unauthorized\n").into_response(),
        Ok(Verdict::Denied { user }) => {
            (StatusCode::FORBIDDEN, format!("Authorization denied for user {user}\n")).into_response()
        }
        Err((what, error)) => {
            tracing::warn!(op = "authorize", error = crate::log::chain(&error), "{what}");
            (StatusCode::INTERNAL_SERVER_ERROR, format!("{what}\n")).into_response()
        }
    }
}

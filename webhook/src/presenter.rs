//! Which certificate is presented, and whether the API server can believe it.
//!
//! A new certificate may be signed by an authority that the API server does not know yet. So the one that
//! is offered is presented only once everything that the API server was told (`caBundle` of our webhooks,
//! and of the conversion if it is ours) has trusted it for a while; until then the old one goes on. Where the
//! old one is not believed either, or there is none, nobody gains from waiting.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ferrolb_runtime::Shutdown;
use ferrolb_runtime::latest::publish;
use ferrolb_runtime::log::chain;
use ferrolb_runtime::readiness::Condition;
use ferrolb_runtime::tls::{self, CertificateError, Identity};
use ferrolb_runtime::watch::{Changed, Store};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::registration::conversion;

/// How long after we see what the API server was told all its instances act upon it.
const SETTLE: Duration = Duration::from_secs(3);
/// How often the clock is looked at: certificates end.
const LOOK: Duration = Duration::from_secs(600);

/// A certificate that could be presented, PEM.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    /// With what leads to its authority.
    pub(crate) chain: String,
    pub(crate) key: String,
    /// Whom the API server is to trust for it; none: others tell it.
    pub(crate) authority: Option<String>,
}

/// What the API server was told to trust, by everything that makes it ask us.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Registered {
    bundles: Vec<String>,
}

impl Registered {
    pub(crate) fn of(
        configuration: Option<&ValidatingWebhookConfiguration>,
        definition: Option<&CustomResourceDefinition>,
        service: &conversion::Service,
    ) -> Self {
        let text = |bundle: Option<&ByteString>| {
            bundle.map(|it| String::from_utf8_lossy(&it.0).into_owned()).unwrap_or_default()
        };
        let webhooks = configuration.and_then(|it| it.webhooks.as_deref()).unwrap_or_default();
        let mut bundles: Vec<String> =
            webhooks.iter().map(|it| text(it.client_config.ca_bundle.as_ref())).collect();
        bundles.extend(conversion::bundle(definition, service).map(|bundle| text(Some(bundle))));
        bundles.sort();
        bundles.dedup();
        Self { bundles }
    }

    /// Whether the certificate is believed, whoever asks.
    fn trusts(&self, offer: &Offer, dns_names: &[String], now: SystemTime) -> Result<(), CertificateError> {
        self.bundles.iter().try_for_each(|bundle| tls::accepted(bundle, &offer.chain, dns_names, now))
    }
}

/// What to do about an offer.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Present,
    /// Until then nothing is lost by waiting.
    Wait(Option<Instant>),
}

/// Watches offers and what was registered.
pub(crate) struct Presenter {
    pub(crate) offers: watch::Receiver<Option<Offer>>,
    pub(crate) configuration: Store<ValidatingWebhookConfiguration>,
    pub(crate) configuration_name: String,
    pub(crate) definitions: Store<CustomResourceDefinition>,
    pub(crate) definition_name: String,
    pub(crate) service: conversion::Service,
    /// The first is the one by which the API server calls the Service.
    pub(crate) dns_names: Vec<String>,
    pub(crate) identity: Identity,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) trusted: Condition,
    /// The bundle that is registered for our webhooks, once our certificate is believed by it.
    pub(crate) believed: watch::Sender<Option<String>>,
}

#[derive(Default)]
struct State {
    presented: Option<Offer>,
    /// Since when the offered one has been trusted.
    trusted_since: Option<(Offer, Instant)>,
    /// What was said of it.
    told: Option<String>,
    /// Whether it was ever good: until the API server is told, it is not.
    was_good: bool,
}

impl Presenter {
    /// Works until the shutdown.
    pub(crate) async fn run(mut self, mut changed: Changed, shutdown: Shutdown) {
        tokio::select! {
            () = async { tokio::join!(self.configuration.listed(), self.definitions.listed()); } => {}
            () = shutdown.requested() => return,
        }
        let mut state = State::default();
        loop {
            let again = self.pass(&mut state).unwrap_or_else(|| Instant::now() + LOOK);
            tokio::select! {
                () = changed.next() => {}
                Ok(()) = self.offers.changed() => {}
                () = tokio::time::sleep_until(again) => {}
                () = shutdown.requested() => return,
            }
        }
    }

    /// When to look again.
    fn pass(&mut self, state: &mut State) -> Option<Instant> {
        let offered = self.offers.borrow_and_update().clone()?;
        let configuration = self.configuration.get_global(&self.configuration_name);
        let definition = self.definitions.get_global(&self.definition_name);
        let registered = Registered::of(configuration.as_deref(), definition.as_deref(), &self.service);
        let now = (Instant::now(), SystemTime::now());
        let names = self.dns_names.get(..1).unwrap_or_default();
        let mut again = None;
        if state.presented.as_ref() != Some(&offered) {
            match state.decide(&offered, &registered, names, now) {
                Decision::Present => match self.present(&offered) {
                    Ok(()) => state.presented = Some(offered),
                    Err(error) => state.tell(Some(chain(&error))),
                },
                Decision::Wait(until) => again = until,
            }
        }
        let Some(presented) = &state.presented else { return again };
        let believed = registered.trusts(presented, names, now.1);
        if let Some(bundle) = bundle_that_trusts(configuration.as_deref(), presented, names, now.1) {
            publish(&self.believed, Some(bundle));
        }
        // Conversions are asked for once this process is ready; until then a bundle of an installation that is
        // gone may stand there.
        let reviews = Registered::of(configuration.as_deref(), None, &self.service);
        self.trusted.set(reviews.trusts(presented, names, now.1).is_ok());
        state.tell(believed.err().map(|error| chain(&error)));
        again
    }

    fn present(&self, offer: &Offer) -> Result<(), CertificateError> {
        self.identity.set(tls::certified_key(&offer.chain, &offer.key)?);
        self.metrics.certificate_expires(tls::expires(&offer.chain)?);
        tracing::debug!(event = "certificateServed", "serving the certificate");
        Ok(())
    }
}

/// What whoever asks for conversions is to trust too, whatever he trusts now: he may still have the bundle of an
/// installation that is gone.
fn bundle_that_trusts(
    configuration: Option<&ValidatingWebhookConfiguration>,
    presented: &Offer,
    dns_names: &[String],
    now: SystemTime,
) -> Option<String> {
    let bundle = configuration?.webhooks.as_deref()?.first()?.client_config.ca_bundle.as_ref()?;
    let bundle = String::from_utf8(bundle.0.clone()).ok()?;
    tls::accepted(&bundle, &presented.chain, dns_names, now).is_ok().then_some(bundle)
}

impl State {
    fn decide(
        &mut self,
        offered: &Offer,
        registered: &Registered,
        names: &[String],
        (instant, time): (Instant, SystemTime),
    ) -> Decision {
        let Some(presented) = &self.presented else { return Decision::Present };
        if registered.trusts(offered, names, time).is_err() {
            self.trusted_since = None;
            // Neither is believed: the newer one is what whoever makes certificates means.
            return match registered.trusts(presented, names, time) {
                Ok(()) => Decision::Wait(None),
                Err(_) => Decision::Present,
            };
        }
        let since = match &self.trusted_since {
            Some((of, since)) if of == offered => *since,
            _ => instant,
        };
        self.trusted_since = Some((offered.clone(), since));
        if instant >= since + SETTLE { Decision::Present } else { Decision::Wait(Some(since + SETTLE)) }
    }

    /// Says once why the API server does not believe us.
    fn tell(&mut self, problem: Option<String>) {
        if self.told == problem {
            return;
        }
        match &problem {
            Some(reason) if !self.was_good => {
                tracing::info!(
                    op = "certificate",
                    reason,
                    "the API server does not believe the certificate yet"
                );
            }
            Some(error) => {
                tracing::warn!(op = "certificate", error, "the API server would not believe the certificate");
            }
            None => tracing::info!(op = "certificate", "the API server believes the certificate"),
        }
        self.was_good |= problem.is_none();
        self.told = problem;
    }
}

#[cfg(test)]
mod tests {
    use ferrolb_runtime::tls::Bundle;
    use k8s_openapi::api::admissionregistration::v1::ValidatingWebhook;

    use super::*;

    fn names() -> Vec<String> {
        vec!["webhook.ns.svc".into()]
    }

    fn offer() -> Offer {
        let Bundle { ca, certificate, key, .. } = Bundle::generate(&names(), SystemTime::now()).unwrap();
        Offer { chain: certificate, key, authority: Some(ca) }
    }

    fn registered(offers: &[&[&Offer]]) -> Registered {
        let authority = |it: &&Offer| it.authority.clone().unwrap();
        let bundle = |trusted: &&[&Offer]| trusted.iter().map(authority).collect::<String>();
        Registered { bundles: offers.iter().map(bundle).collect() }
    }

    #[test]
    fn a_new_certificate_waits_until_all_who_ask_trust_it() {
        let (old, new) = (offer(), offer());
        let time = SystemTime::now();
        let begin = Instant::now();
        let mut state = State { presented: Some(old.clone()), ..State::default() };
        let mut decide = |bundles: &[&[&Offer]], after: Duration| {
            state.decide(&new, &registered(bundles), &names(), (begin + after, time))
        };
        let seconds = Duration::from_secs;
        assert_eq!(decide(&[&[&old]], seconds(0)), Decision::Wait(None));
        // The conversion is not told yet.
        assert_eq!(decide(&[&[&new, &old], &[&old]], seconds(1)), Decision::Wait(None));
        let both: &[&[&Offer]] = &[&[&new, &old], &[&new, &old]];
        assert_eq!(decide(both, seconds(2)), Decision::Wait(Some(begin + seconds(2) + SETTLE)));
        assert_eq!(decide(both, seconds(3)), Decision::Wait(Some(begin + seconds(2) + SETTLE)));
        // Taken back meanwhile: the time begins anew.
        assert_eq!(decide(&[&[&old]], seconds(4)), Decision::Wait(None));
        assert_eq!(decide(both, seconds(5)), Decision::Wait(Some(begin + seconds(5) + SETTLE)));
        assert_eq!(decide(both, seconds(5) + SETTLE), Decision::Present);
    }

    #[test]
    fn nobody_waits_for_what_is_not_believed_anyway() {
        let (old, new) = (offer(), offer());
        let now = (Instant::now(), SystemTime::now());
        let mut state = State::default();
        assert_eq!(state.decide(&new, &registered(&[&[&old]]), &names(), now), Decision::Present);
        state.presented = Some(old);
        for bundles in [registered(&[&[]]), registered(&[&[&offer()]])] {
            assert_eq!(state.decide(&new, &bundles, &names(), now), Decision::Present);
        }
    }

    #[test]
    fn the_bundle_that_trusts_us_is_passed_on() {
        let (old, new) = (offer(), offer());
        let registered = |offer: &Offer| {
            let mut webhook = ValidatingWebhook::default();
            webhook.client_config.ca_bundle = offer.authority.clone().map(|it| ByteString(it.into_bytes()));
            ValidatingWebhookConfiguration { webhooks: Some(vec![webhook]), ..Default::default() }
        };
        let passed_on = |of: &ValidatingWebhookConfiguration| {
            bundle_that_trusts(Some(of), &new, &names(), SystemTime::now())
        };
        assert_eq!(passed_on(&registered(&new)), new.authority);
        assert_eq!(passed_on(&registered(&old)), None);
    }

    #[test]
    fn every_bundle_that_is_registered_counts_and_a_missing_one_trusts_nobody() {
        let offer = offer();
        let trusts = |registered: &Registered| registered.trusts(&offer, &names(), SystemTime::now()).is_ok();
        assert!(trusts(&Registered::default()), "nobody asks");
        assert!(trusts(&registered(&[&[&offer], &[&offer]])));
        assert!(!trusts(&registered(&[&[&offer], &[]])));
        let other = registered(&[&[&offer]]);
        assert!(other.trusts(&offer, &["other.ns.svc".into()], SystemTime::now()).is_err());
    }
}

//! Readiness as a set of named conditions: the process is ready when all of them hold.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// All conditions of one process.
#[derive(Clone, Debug)]
pub struct Readiness {
    conditions: Arc<Mutex<BTreeMap<String, bool>>>,
    unmet: Arc<watch::Sender<Vec<String>>>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self { conditions: Arc::default(), unmet: Arc::new(watch::channel(Vec::new()).0) }
    }
}

/// One condition; unmet until told otherwise.
#[derive(Clone, Debug)]
pub struct Condition {
    name: String,
    of: Readiness,
}

impl Condition {
    /// Says whether the condition holds.
    pub fn set(&self, met: bool) {
        self.of.set(&self.name, met);
    }
}

impl Readiness {
    /// Adds a condition, unmet, under a name that a person reading `/readyz` understands.
    pub fn condition(&self, name: impl Into<String>) -> Condition {
        let name = name.into();
        self.set(&name, false);
        Condition { name, of: self.clone() }
    }

    /// Whether there is no condition yet: nothing has begun that could be ready.
    pub fn is_empty(&self) -> bool {
        self.conditions.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The conditions that do not hold; empty means ready.
    pub fn unmet(&self) -> Vec<String> {
        self.unmet.borrow().clone()
    }

    /// Returns once every condition holds.
    pub async fn wait(&self) {
        let mut unmet = self.unmet.subscribe();
        // The sender lives in `self`, so this cannot fail.
        let _ = unmet.wait_for(Vec::is_empty).await;
    }

    fn set(&self, name: &str, met: bool) {
        let mut conditions = self.conditions.lock().unwrap_or_else(PoisonError::into_inner);
        if conditions.insert(name.to_owned(), met) == Some(met) {
            return;
        }
        let unmet = conditions.iter().filter(|(_, met)| !**met).map(|(name, _)| name.clone()).collect();
        self.unmet.send_replace(unmet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ready_when_every_condition_holds() {
        let readiness = Readiness::default();
        assert!(readiness.is_empty());
        let (a, b) = (readiness.condition("services"), readiness.condition("pools"));
        a.set(true);
        assert_eq!(readiness.unmet(), ["pools"]);
        b.set(true);
        readiness.wait().await;
        b.set(false);
        assert_eq!(readiness.unmet(), ["pools"]);
    }
}

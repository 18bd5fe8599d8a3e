//! A certificate that somebody else makes and renews (cert-manager, OLM, or by hand), as files: a Secret
//! that is mounted, as a rule. They are read again and again; what cannot be used changes nothing.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use ferrolb_runtime::latest::publish;
use ferrolb_runtime::{Shutdown, tls};
use tokio::sync::watch;

use crate::presenter::Offer;

/// How often the files are read.
const LOOK: Duration = Duration::from_secs(5);

/// Where the files are.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    /// Folder of `tls.crt` and `tls.key`.
    pub(crate) folder: PathBuf,
    /// The authority, if the API server is to be told by us.
    pub(crate) authority: Option<PathBuf>,
}

impl Files {
    /// Offers what is in the files until the shutdown.
    pub(crate) async fn run(self, offers: watch::Sender<Option<Offer>>, shutdown: Shutdown) {
        let mut told = None;
        loop {
            match self.read() {
                Ok(offer) => {
                    told = None;
                    publish(&offers, Some(offer));
                }
                Err(error) => {
                    let error = format!("{error:#}");
                    if told.as_ref() != Some(&error) {
                        tracing::warn!(op = "readCertificate", error, "what was read before goes on");
                        told = Some(error);
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = shutdown.requested() => return,
            }
        }
    }

    fn read(&self) -> anyhow::Result<Offer> {
        let text = |path: &Path| {
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        };
        let offer = Offer {
            chain: text(&self.folder.join("tls.crt"))?,
            key: text(&self.folder.join("tls.key"))?,
            authority: self.authority.as_deref().map(text).transpose()?,
        };
        // While files are replaced they may not belong together.
        tls::certified_key(&offer.chain, &offer.key)
            .with_context(|| format!("cannot use the certificate in {}", self.folder.display()))?;
        Ok(offer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use ferrolb_runtime::tls::Bundle;

    use super::*;

    fn write(folder: &Path, bundle: &Bundle) {
        for (name, text) in
            [("tls.crt", &bundle.certificate), ("tls.key", &bundle.key), ("ca.crt", &bundle.ca)]
        {
            std::fs::write(folder.join(name), text).unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn new_files_are_offered_and_unusable_ones_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let [first, second] =
            [(); 2].map(|()| Bundle::generate(&["w.ns.svc".into()], SystemTime::now()).unwrap());
        let (offers, mut offered) = watch::channel(None);
        let files = Files { folder: path.to_owned(), authority: Some(path.join("ca.crt")) };
        tokio::spawn(files.run(offers, Shutdown::default()));
        assert!(offered.borrow().is_none());

        write(path, &first);
        offered.changed().await.unwrap();
        let offer = offered.borrow_and_update().clone().unwrap();
        assert!(offer.chain == first.certificate && offer.authority == Some(first.ca.clone()));

        // A key of another certificate, then the certificate too.
        std::fs::write(path.join("tls.key"), &second.key).unwrap();
        tokio::time::sleep(3 * LOOK).await;
        assert!(!offered.has_changed().unwrap());
        write(path, &second);
        offered.changed().await.unwrap();
        assert!(offered.borrow().as_ref().unwrap().chain == second.certificate);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files { folder: folder.path().to_owned(), authority: None };
        let error = files.read().err().unwrap().to_string();
        assert!(error.starts_with("cannot read ") && error.ends_with("/tls.crt"), "{error}");
    }
}

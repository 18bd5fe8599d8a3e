//! A cable between two hosts besides the LAN: a link with two ends and no address but link-local ones.

use crate::error::Result;
use crate::lab::Lab;
use crate::namespaces::{Depth, inside};
use crate::network::batch;
use crate::process::Process;

/// The cable; it is taken out when this goes.
#[derive(Debug)]
pub struct Cable {
    host: Process,
    interface: String,
}

impl Lab {
    /// Connects two hosts, each by a new interface of this name.
    ///
    /// # Errors
    /// No host is called so, or it has such an interface.
    pub fn cable(&self, (host, interface): (&str, &str), (other, far): (&str, &str)) -> Result<Cable> {
        let (host, other) = (self.host(host)?.init, self.host(other)?.init);
        let link = format!(
            "link add {interface} type veth peer name {far} netns {}\nlink set {interface} up\n",
            other.pid
        );
        inside(&host, Depth::Network, || batch(&link))?;
        let cable = Cable { host, interface: interface.to_owned() };
        inside(&other, Depth::Network, || batch(&format!("link set {far} up\n")))?;
        Ok(cable)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        // Where the host is gone, so is the cable.
        let _ = inside(&self.host, Depth::Network, || batch(&format!("link del {}\n", self.interface)));
    }
}

//! What faults do to the nodes, the wire and the API server.

use std::sync::Arc;

use ferrolb_proto::conflict::{Claimant, Input, Liveness};

use super::{Config, Happening, View, World, link};
use crate::script::{Fault, MS, SECOND};

impl World {
    pub(super) fn start(&mut self, node: usize) {
        let sim = &mut self.nodes[node];
        if sim.running {
            return;
        }
        (sim.running, sim.leaving, sim.settled, sim.hold_until) = (true, false, false, 0);
        sim.holds = false;
        sim.life += 1;
        sim.config = None;
        sim.claims.clear();
        sim.views.fill(None);
        let life = sim.life;
        self.boot_link(node);
        self.push(self.now + 3 * SECOND, Happening::Settled { at: node, life });
        let config = Arc::new(self.truth.clone());
        self.soon(5 * MS, 200 * MS, Happening::Config { at: node, config, hold: false });
        self.follow_wire();
    }

    fn boot_link(&mut self, node: usize) {
        let sim = &mut self.nodes[node];
        sim.known.fill(None);
        let up = sim.running && sim.plugged;
        sim.machine = up.then(|| Claimant::new(link(node), self.rules.machine));
        self.plan(node);
    }

    pub(super) fn stop(&mut self, node: usize) {
        let sim = &mut self.nodes[node];
        (sim.running, sim.machine) = (false, None);
        self.drain(node);
        self.follow_wire();
    }

    /// What the membership makes of who hears whom.
    fn spread(&mut self, config: &Config, hold: bool) {
        for at in 0..self.nodes.len() {
            let config = Arc::new(config.clone());
            self.soon(5 * MS, 200 * MS, Happening::Config { at, config, hold });
        }
    }

    pub(super) fn fault(&mut self, fault: &Fault) {
        match *fault {
            Fault::Crash(node) => self.stop(node),
            Fault::Leave(node) => {
                if self.nodes[node].running {
                    self.nodes[node].leaving = true;
                    self.input(node, Input::Leave);
                    let life = self.nodes[node].life;
                    for at in 0..self.nodes.len() {
                        if self.hears[at][node] {
                            self.hears[at][node] = false;
                            self.epochs[at][node] += 1;
                            let epoch = self.epochs[at][node];
                            let view = View { liveness: Liveness::Left, life };
                            self.soon(2 * MS, 60 * MS, Happening::View { at, of: node, view, epoch });
                        }
                    }
                    self.push(self.now + 2 * SECOND, Happening::Ends { node, life });
                }
            }
            Fault::Start(node) => {
                self.stop(node);
                self.start(node);
            }
            Fault::Unplug(node) | Fault::Plug(node) => {
                self.nodes[node].plugged = matches!(fault, Fault::Plug(_));
                self.boot_link(node);
                self.drain(node);
                self.follow_wire();
            }
            Fault::Partition(mask) => {
                self.side = mask;
                self.follow_wire();
            }
            Fault::Heal => {
                self.side = 0;
                self.follow_wire();
            }
            Fault::Deafen(a, b) => {
                self.deaf = Some((a, b));
                self.follow_wire();
            }
            Fault::Listen => {
                self.deaf = None;
                self.follow_wire();
            }
            Fault::Loss(percent) => self.loss = percent,
            Fault::ApiAway => {
                self.api_away = true;
                self.nodes.iter_mut().for_each(|it| it.lost = true);
            }
            Fault::ApiBack(node) => {
                self.api_away = false;
                let mut told = self.truth.clone();
                told.eligible.iter_mut().for_each(|mask| *mask &= !(1 << node));
                self.spread(&told, true);
            }
            Fault::ApiSettled => self.spread(&self.truth.clone(), false),
            Fault::Toggle(node, address) => {
                self.truth.eligible[address] ^= 1 << node;
                self.spread(&self.truth.clone(), false);
            }
            Fault::Prefer(node, address) => {
                self.truth.preference[address] = [0; 8];
                self.truth.preference[address][node] = 1;
                self.spread(&self.truth.clone(), false);
            }
            Fault::Suspect(node) => {
                for at in (0..self.nodes.len()).filter(|at| *at != node) {
                    if self.hears[at][node] {
                        let (epoch, life) = (self.epochs[at][node], self.nodes[node].life);
                        let view =
                            |liveness| Happening::View { at, of: node, view: View { liveness, life }, epoch };
                        self.soon(MS, 100 * MS, view(Liveness::Suspect));
                        self.soon(300 * MS, 900 * MS, view(Liveness::Alive));
                    }
                }
            }
        }
    }
}

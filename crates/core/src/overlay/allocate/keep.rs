//! What nodes keep: what they run with, then what they claim.

use ipnet::IpNet;

use super::{Applicant, Claim, Finding, NodeId, Resource, Running, Unusable, Work};
use crate::name::NodeName;
use crate::net::Family;

impl Work<'_> {
    /// Keeps for a node what it runs with, as far as its annotations agree with it, or as far as they do not.
    pub(super) fn keep_running(&mut self, node: &Applicant, agreed: bool) {
        let Some(Running { id, subnets }) = node.running else { return };
        let claimed = matches!(&node.id, Claim::Says(says) if *says == u64::from(id.number()));
        if claimed == agreed && id.number() <= self.last_id {
            let kept = self.keep_id(node, id);
            self.note_lingering(node, Resource::Id, agreed, kept);
        }
        for net in subnets.iter().filter(|net| self.networks.gives(*net)) {
            let claimed = matches!(&node.subnets, Claim::Says(nets) if nets.contains(&net));
            if claimed == agreed {
                let kept = self.keep_subnet(node, net);
                self.note_lingering(node, Resource::Subnet(Family::of_net(net)), agreed, kept);
            }
        }
    }

    /// A node whose annotations agree is told by [`claim`](Work::claim) that it cannot have it; one whose annotations
    /// say something else already has only not followed yet.
    fn note_lingering(&mut self, node: &Applicant, what: Resource, agreed: bool, kept: Result<(), NodeName>) {
        if let (false, Err(by)) = (agreed, kept) {
            self.findings.push(Finding::Lingers { node: node.name.clone(), what, by });
        }
    }

    pub(super) fn claim(&mut self, node: &Applicant) {
        match &node.id {
            Claim::Absent => {}
            Claim::Mangled(text) => self.unusable(node, Resource::Id, Unusable::Mangled(text.clone())),
            Claim::Says(says) => self.claim_id(node, *says),
        }
        match &node.subnets {
            Claim::Absent => {}
            Claim::Mangled(text) => self.unusable(node, Resource::Subnets, Unusable::Mangled(text.clone())),
            Claim::Says(nets) => self.claim_subnets(node, nets),
        }
    }

    fn claim_id(&mut self, node: &Applicant, says: u64) {
        let id = NodeId::new(says).filter(|id| id.number() <= self.last_id);
        match (id, self.kept(node).id) {
            (None, _) => self.unusable(node, Resource::Id, Unusable::NoSuchId(says)),
            (Some(id), Some(runs)) if id == runs => {}
            (Some(_), Some(runs)) => {
                self.unusable(node, Resource::Id, Unusable::RunsWithId { says, runs });
            }
            (Some(id), None) => {
                let kept = self.keep_id(node, id);
                self.note_taken(node, Resource::Id, kept);
            }
        }
    }

    fn claim_subnets(&mut self, node: &Applicant, nets: &[IpNet]) {
        for family in [Family::V4, Family::V6] {
            let mut of_family = nets.iter().copied().filter(|net| Family::of_net(*net) == family);
            match (of_family.next(), of_family.next()) {
                (None, _) => {}
                (Some(net), None) => self.claim_subnet(node, family, net),
                (Some(a), Some(b)) => {
                    self.unusable(node, Resource::Subnet(family), Unusable::TwoOfAFamily(a, b));
                }
            }
        }
    }

    fn claim_subnet(&mut self, node: &Applicant, family: Family, says: IpNet) {
        let what = Resource::Subnet(family);
        match self.kept(node).subnet(family) {
            _ if !self.networks.gives(says) => {
                let around = self.networks.cluster_of(family).find(|range| range.net().contains(&says));
                let other_size = around.filter(|range| range.host_prefix() != says.prefix_len());
                let why = other_size.map(|range| Unusable::OtherSize(says, range));
                self.unusable(node, what, why.unwrap_or(Unusable::OutsideRanges(says)));
            }
            Some(runs) if runs == says => {}
            Some(runs) => self.unusable(node, what, Unusable::RunsWithSubnet { says, runs }),
            None => {
                let kept = self.keep_subnet(node, says);
                self.note_taken(node, what, kept);
            }
        }
    }

    fn note_taken(&mut self, node: &Applicant, what: Resource, kept: Result<(), NodeName>) {
        if let Err(by) = kept {
            self.findings.push(Finding::Taken { node: node.name.clone(), what, by });
        }
    }

    /// Keeps an id for a node, or says whose it is.
    fn keep_id(&mut self, node: &Applicant, id: NodeId) -> Result<(), NodeName> {
        if let Some(by) = self.ids.get(&id) {
            return Err(by.clone());
        }
        self.ids.insert(id, node.name.clone());
        self.kept.entry(node.name.clone()).or_default().id = Some(id);
        Ok(())
    }

    /// Keeps a subnet a range gives for a node, or says whose it is.
    fn keep_subnet(&mut self, node: &Applicant, net: IpNet) -> Result<(), NodeName> {
        if let Some(by) = self.space.owner(net) {
            return Err(by.clone());
        }
        self.space.take(net, &node.name);
        let kept = self.kept.entry(node.name.clone()).or_default();
        match net {
            IpNet::V4(net) => kept.v4 = Some(net),
            IpNet::V6(net) => kept.v6 = Some(net),
        }
        Ok(())
    }

    fn unusable(&mut self, node: &Applicant, what: Resource, why: Unusable) {
        self.findings.push(Finding::Unusable { node: node.name.clone(), what, why });
    }
}

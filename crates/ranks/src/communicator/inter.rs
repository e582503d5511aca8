//! Inter-communicators: two groups that don't overlap (MPI 4.1, 7.6).

use std::cmp::Ordering;

use crate::communicator::Communicator;
use crate::error::{Error, Result};
use crate::group::{Comparison, Group};
use crate::header::{Context, Rank, Tag};

/// Two groups, a local and a remote one; each rank sends to and receives from ranks of the other.
#[derive(Debug)]
pub struct InterCommunicator {
    /// Its group is the remote one, its context both groups'.
    remote: Communicator,
    local: Communicator,
}

impl Communicator {
    /// Joins this communicator's group and another, whose ranks call this likewise (`MPI_Intercomm_create`). The `leader` of
    /// each names a communicator in which it reaches the other, and the other's rank there; others' `peer` is not used. Collective
    /// over both groups.
    pub fn create_inter(
        &self,
        leader: Rank,
        peer: Option<(&Self, Rank)>,
        tag: Tag,
    ) -> Result<InterCommunicator> {
        self.group().member(leader)?;
        let process = self.process();
        // The group's counters for both contexts, its leader in the domain, its members.
        let mut mine = [process.next_context(), process.next_context(), process.rank()];
        let mut theirs = Vec::new();
        let mut led = Ok(());
        if self.rank() == leader {
            led = self.exchange_groups(&mine, peer, tag).map(|other| theirs = other);
        }
        self.broadcast(&mut mine, leader).run()?;
        let mut length = [theirs.len()];
        self.broadcast(&mut length, leader).run()?;
        led?;
        if length[0] == 0 {
            let problem = "the leader could not exchange groups with the other leader".to_owned();
            return Err(Error::Argument { argument: "leader", problem });
        }
        theirs.resize(length[0], 0);
        self.broadcast(&mut theirs, leader).run()?;
        let remote = Group::of(theirs[3..].into());
        if self.group().intersection(&remote).size() > 0 {
            let problem = "its group and this communicator's have a rank in common".to_owned();
            return Err(Error::Argument { argument: "peer", problem });
        }
        let first = if mine[2] < theirs[2] { &mine[..] } else { &theirs[..] };
        let context = Context::new(first[2], first[0]);
        let local = Self::made(self, Context::new(mine[2], mine[1]), self.group().clone());
        Ok(InterCommunicator { remote: Self::towards(&local, context, remote), local })
    }

    fn exchange_groups(
        &self,
        mine: &[u32],
        peer: Option<(&Self, Rank)>,
        tag: Tag,
    ) -> Result<Vec<u32>> {
        let (peer, other) = peer.ok_or_else(|| Error::Argument {
            argument: "peer",
            problem: "the leader has to name how it reaches the other".to_owned(),
        })?;
        let mine = [mine, self.group().ranks()].concat();
        let mut length = [0];
        peer.sendrecv(&[mine.len()], other, tag, &mut length, other, tag)?;
        let mut theirs = vec![0; length[0]];
        peer.sendrecv(&mine, other, tag, &mut theirs, other, tag)?;
        Ok(theirs)
    }
}

impl InterCommunicator {
    /// The remote group, to and from whose ranks messages go.
    pub fn remote(&self) -> &Communicator {
        &self.remote
    }

    /// The local group, with a context of its own.
    pub fn local(&self) -> &Communicator {
        &self.local
    }

    /// This process's rank in the local group.
    pub fn rank(&self) -> Rank {
        self.local.rank()
    }

    /// Ranks of the local group.
    pub fn size(&self) -> u32 {
        self.local.size()
    }

    /// Ranks of the remote group (`MPI_Comm_remote_size`).
    pub fn remote_size(&self) -> u32 {
        self.remote.size()
    }

    /// How two compare (`MPI_Comm_compare`).
    pub fn compare(&self, other: &Self) -> Comparison {
        let local = self.local.group().compare(other.local.group());
        match (local, self.remote.compare(&other.remote)) {
            (Comparison::Identical, remote) => remote,
            (Comparison::Similar, Comparison::Identical | Comparison::Congruent) => {
                Comparison::Similar
            }
            (Comparison::Unequal, _) => Comparison::Unequal,
            (_, remote) => remote,
        }
    }

    /// The same groups in a context of their own (`MPI_Comm_dup`). Collective.
    pub fn dup(&self) -> Result<Self> {
        self.parts(0, 0).map(|(context, own, ..)| self.made(context, own, self.groups()))
    }

    /// Inter-communicators of those who give the same colour, in the order of their keys, then of their ranks; `None` for
    /// those without a colour, or with one that nobody of the other group has (`MPI_Comm_split`). Collective.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Self>> {
        let color = color.map_or(-1, i64::from);
        let (context, own, groups) = self.parts(color, key)?;
        let none = color < 0 || groups.iter().any(|group| group.size() == 0);
        Ok((!none).then(|| self.made(context, own, groups)))
    }

    /// Both groups in one communicator, the one that says `high` after the other (`MPI_Intercomm_merge`). If both say the same,
    /// their order is the same at all ranks. Collective.
    pub fn merge(&self, high: bool) -> Result<Communicator> {
        let [mine, theirs] = self.exchange(&[i64::from(high), self.counter()])?;
        let [local, remote] = self.groups();
        let order = mine[0][0].cmp(&theirs[0][0]).then(leaders(&local, &remote));
        let (group, counter) = match order {
            Ordering::Less => (local.union(&remote), mine[0][1]),
            _ => (remote.union(&local), theirs[0][1]),
        };
        let context = Context::new(group.member(0)?, narrow(counter));
        Ok(Communicator::made(&self.local, context, group))
    }

    fn groups(&self) -> [Group; 2] {
        [self.local.group().clone(), self.remote.group().clone()]
    }

    fn counter(&self) -> i64 {
        self.local.process().next_context().into()
    }

    /// What each rank of either group says, the local one's first.
    fn exchange<const N: usize>(&self, mine: &[i64; N]) -> Result<[Vec<[i64; N]>; 2]> {
        let mut all = [self.size(), self.remote_size()].map(|size| vec![0; size as usize * N]);
        let [local, remote] = &mut all;
        self.local.allgather(mine, local).run()?;
        self.allgather(mine, remote).run()?;
        Ok(all
            .map(|all| all.chunks_exact(N).filter_map(|one| one.first_chunk().copied()).collect()))
    }

    /// The part of both groups that gives this colour, and contexts for them: for both, and for the local one.
    fn parts(&self, color: i64, key: i32) -> Result<(Context, Context, [Group; 2])> {
        let said = [color, key.into(), self.counter(), self.counter()];
        let [mine, theirs] = self.exchange(&said)?;
        let part = |said: &[[i64; 4]], group: &Group| {
            let same = (0..).zip(said).filter(|(_, one)| one[0] == color);
            let mut same: Vec<(i64, Rank)> = same.map(|(rank, one)| (one[1], rank)).collect();
            same.sort_unstable();
            group.include(&same.iter().map(|&(_, rank)| rank).collect::<Vec<_>>())
        };
        let [local, remote] = self.groups();
        let groups = [part(&mine, &local)?, part(&theirs, &remote)?];
        let leader = |said: &[[i64; 4]], group: &Group, of: &Group, counter: usize| {
            let rank = group.ranks().first().copied().unwrap_or_default();
            let at = of.rank_of(rank).unwrap_or_default();
            Context::new(rank, narrow(said[at as usize][counter]))
        };
        let own = leader(&mine, &groups[0], &local, 3);
        let context = match leaders(&groups[0], &groups[1]) {
            Ordering::Less => leader(&mine, &groups[0], &local, 2),
            _ => leader(&theirs, &groups[1], &remote, 2),
        };
        Ok((context, own, groups))
    }

    /// A duplicate, from what the first rank of the local group counts for both groups' context and for the local one, and the
    /// first of the other for both groups'.
    pub(super) fn duplicated(&self, mine: [u32; 2], theirs: u32) -> Self {
        let [local, remote] = self.groups();
        let [ours, other] = [&local, &remote].map(|group| group.ranks()[0]);
        let context =
            if ours < other { Context::new(ours, mine[0]) } else { Context::new(other, theirs) };
        self.made(context, Context::new(ours, mine[1]), [local, remote])
    }

    fn made(&self, context: Context, own: Context, [local, remote]: [Group; 2]) -> Self {
        let local = Communicator::made(&self.local, own, local);
        Self { remote: Communicator::towards(&local, context, remote), local }
    }
}

/// By which both groups name the same of them first.
fn leaders(one: &Group, other: &Group) -> Ordering {
    one.ranks().first().cmp(&other.ranks().first())
}

/// A counter as it was before it was sent.
fn narrow(counter: i64) -> u32 {
    u32::try_from(counter).unwrap_or_default()
}

//! Communicators from communicators (MPI 4.1, 7.4). A new one's leader, its rank 0, makes the context.

#![expect(unsafe_code, reason = "a request holds a buffer of this function, which waits for it")]

use crate::buffer::{ReceiveBuffer, SendBuffer};
use crate::communicator::Communicator;
use crate::engine::SendArguments;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::header::{Context, Mode, Rank, Tag};
use crate::matching::Pattern;

impl Communicator {
    /// The same ranks and topology in a context of their own (`MPI_Comm_dup`). Collective.
    pub fn dup(&self) -> Result<Self> {
        let mut counter = [0; 1];
        if self.rank() == 0 {
            counter[0] = self.process().next_context();
        }
        self.broadcast(&mut counter, 0).run()?;
        let context = Context::new(self.group().member(0)?, counter[0]);
        let mut made = Self::made(self, context, self.group().clone());
        if let Some(topology) = self.topology() {
            made.set_topology(topology.clone());
        }
        Ok(made)
    }

    /// A communicator of those who give the same colour, in the order of their keys, then of their ranks; `None` for
    /// those without a colour (`MPI_Comm_split`). Collective.
    pub fn split(&self, color: Option<u32>, key: i32) -> Result<Option<Self>> {
        let counter = self.process().next_context();
        let mine = [color.map_or(-1, i64::from), i64::from(key), i64::from(counter)];
        let mut all = vec![0i64; 3 * self.size() as usize];
        self.allgather(&mine, &mut all).run()?;
        if color.is_none() {
            return Ok(None);
        }
        let same = (0..).zip(all.chunks_exact(3)).filter(|(_, other)| other[0] == mine[0]);
        let mut members: Vec<(i64, Rank, i64)> =
            same.map(|(rank, other)| (other[1], rank, other[2])).collect();
        members.sort_unstable();
        let group =
            self.group().include(&members.iter().map(|&(_, rank, _)| rank).collect::<Vec<_>>())?;
        let counter = u32::try_from(members[0].2).unwrap_or_default();
        Ok(Some(Self::made(self, Context::new(group.member(0)?, counter), group)))
    }

    /// A communicator of a part of the ranks, which alone call this, with the same tag (`MPI_Comm_create_group`).
    pub fn create_group(&self, group: &Group, tag: Tag) -> Result<Self> {
        if tag < 0 {
            return Err(Error::InvalidTag { tag });
        }
        let me = self.process().rank();
        let strangers = group.difference(self.group());
        if group.rank_of(me).is_none() || strangers.size() > 0 {
            let problem =
                "it has to be a part of the communicator, and to have this rank".to_owned();
            return Err(Error::Argument { argument: "group", problem });
        }
        // Tags of collective operations are above 0.
        let (context, tag) = (self.context().collective(), -1 - tag);
        let leader = group.member(0)?;
        let mut counter = self.process().next_context().to_le_bytes();
        if me == leader {
            for &to in &group.ranks()[1..] {
                let arguments = SendArguments { to, context, tag, mode: Mode::Standard };
                // SAFETY: `counter` is not changed here, and the request is waited for.
                let buffer = unsafe { SendBuffer::from_raw(counter.as_ptr(), counter.len()) };
                let request = self.process().with(|state| state.engine.send(arguments, buffer));
                self.process().wait(request)?;
            }
        } else {
            let pattern = Pattern { context, source: Some(leader), tag: Some(tag) };
            // SAFETY: the request is waited for.
            let buffer = unsafe { ReceiveBuffer::from_raw(counter.as_mut_ptr(), counter.len()) };
            let request = self.process().with(|state| state.engine.receive(pattern, buffer));
            self.process().wait(request)?;
        }
        Ok(Self::made(self, Context::new(leader, u32::from_le_bytes(counter)), group.clone()))
    }
}

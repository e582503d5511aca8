//! Algorithms by name. Every rank of a communicator has to name the same.

use crate::error::Error;

macro_rules! algorithms {
    ($($(#[doc = $doc:literal])+ $type:ident { $($(#[doc = $variant_doc:literal])+ $variant:ident = $name:literal,)+ })+) => { $(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type {
            $($(#[doc = $variant_doc])+ $variant,)+
        }

        impl $type {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }

        impl std::str::FromStr for $type {
            type Err = Error;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|algorithm| algorithm.name() == name).ok_or_else(|| {
                    let names: Vec<_> = Self::ALL.iter().map(|algorithm| algorithm.name()).collect();
                    Error::Argument {
                        argument: "algorithm",
                        problem: format!("there is no {name:?} here, but {}", names.join(", ")),
                    }
                })
            }
        }
    )+ };
}

algorithms! {
    /// How a broadcast goes.
    Broadcast {
        /// The root sends to each (paper 002, 3.4.2).
        Serial = "serial",
        /// Along a binomial tree (paper 002, 3.4.2).
        Binomial = "binomial",
        /// Scattered along a binomial tree, then gathered by all in a ring (Barnett et al. 1994).
        ScatterAllgather = "scatter-allgather",
    }
    /// How a gather or a scatter of equal blocks goes.
    Gather {
        /// Each with the root (paper 002, 3.4.3).
        Serial = "serial",
        /// Along a binomial tree (paper 002, 3.4.3).
        Binomial = "binomial",
    }
    /// How a barrier goes.
    Barrier {
        /// A serial gather and a serial broadcast of nothing (paper 002, 3.4.4).
        Serial = "serial",
        /// The same along binomial trees (paper 002, 3.4.4).
        GatherBroadcast = "gather-broadcast",
        /// Each tells one further and further away (Hensgen et al. 1988).
        Dissemination = "dissemination",
    }
    /// How an all-gather goes.
    Allgather {
        /// A gather and a broadcast.
        GatherBroadcast = "gather-broadcast",
        /// Each passes on what it got (any blocks).
        Ring = "ring",
        /// In as few steps as can be (Bruck et al. 1997).
        Bruck = "bruck",
    }
    /// How an all-to-all of equal blocks goes.
    Alltoall {
        /// All at once.
        Scattered = "scattered",
        /// One partner after the other.
        Pairwise = "pairwise",
        /// In as few steps as can be (Bruck et al. 1997).
        Bruck = "bruck",
    }
    /// How a reduction to one rank goes.
    Reduce {
        /// The root receives from each and reduces in the order of ranks (paper 002, 3.4.5).
        Serial = "serial",
        /// Along a binomial tree (paper 002, 3.4.5).
        Binomial = "binomial",
    }
    /// How a reduction to all goes. The last two take commutative operations, and are recursive doubling for others.
    Allreduce {
        /// A reduction and a broadcast (paper 002, 3.4.5).
        ReduceBroadcast = "reduce-broadcast",
        /// Partners exchange all, twice as far away each time (paper 002, figure 8).
        RecursiveDoubling = "recursive-doubling",
        /// Blocks go round and are reduced, then go round again.
        Ring = "ring",
        /// Reduce-scatter by halves, then all-gather (Rabenseifner 2004).
        Rabenseifner = "rabenseifner",
    }
    /// How a scan goes.
    Scan {
        /// From each rank to the next.
        Serial = "serial",
        /// Partners exchange all, twice as far away each time.
        RecursiveDoubling = "recursive-doubling",
    }
}

/// The environment variable by which a program's user names them ([`Algorithms::from_str`]).
///
/// [`Algorithms::from_str`]: std::str::FromStr::from_str
pub const VARIABLE: &str = "FISHPLATE_ALGORITHMS";

/// What a communicator's collective operations use. What is `None` is chosen by size and ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Algorithms {
    /// Of broadcasts.
    pub broadcast: Option<Broadcast>,
    /// Of gathers and scatters.
    pub gather: Option<Gather>,
    /// Of barriers.
    pub barrier: Option<Barrier>,
    /// Of all-gathers.
    pub allgather: Option<Allgather>,
    /// Of all-to-alls.
    pub alltoall: Option<Alltoall>,
    /// Of reductions to one rank.
    pub reduce: Option<Reduce>,
    /// Of reductions to all.
    pub allreduce: Option<Allreduce>,
    /// Of scans.
    pub scan: Option<Scan>,
    /// Goes as if all ranks were at one site, also where nothing is named above. What is named goes so anyway.
    pub flat: bool,
    /// Reduces in the order of ranks, one after the other, whatever is named above: the same bits for the same
    /// data, however many ranks are on however many machines.
    pub ordered: bool,
}

/// `broadcast=binomial,allreduce=ring`; the words `ordered` and `flat` set [`Algorithms::ordered`] and [`Algorithms::flat`].
impl std::str::FromStr for Algorithms {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut algorithms = Self::default();
        for setting in text.split(',').filter(|setting| !setting.is_empty()) {
            let (operation, name) = setting.split_once('=').unwrap_or((setting, ""));
            match operation {
                "broadcast" => algorithms.broadcast = Some(name.parse()?),
                "gather" => algorithms.gather = Some(name.parse()?),
                "barrier" => algorithms.barrier = Some(name.parse()?),
                "allgather" => algorithms.allgather = Some(name.parse()?),
                "alltoall" => algorithms.alltoall = Some(name.parse()?),
                "reduce" => algorithms.reduce = Some(name.parse()?),
                "allreduce" => algorithms.allreduce = Some(name.parse()?),
                "scan" => algorithms.scan = Some(name.parse()?),
                "flat" if name.is_empty() => algorithms.flat = true,
                "ordered" if name.is_empty() => algorithms.ordered = true,
                _ => {
                    let problem = format!(
                        "{setting:?} is not OPERATION=NAME of broadcast, gather, barrier, allgather, alltoall, reduce, allreduce, scan, nor the word ordered or flat"
                    );
                    return Err(Error::Argument { argument: "algorithms", problem });
                }
            }
        }
        Ok(algorithms)
    }
}

/// Up to this many bytes the fewest steps win, above it the fewest bytes; as MPICH and Open MPI have it, within a factor of two.
const SHORT: usize = 8 << 10;
/// Broadcasts between hosts below this stay with the tree.
const SHORT_BROADCAST: usize = 12 << 10;
/// So few ranks need few steps and messages if each speaks with one of them, and up to this many bytes that wins. Beside the
/// algorithms for more ranks, 4 ranks on 2 processors took so much of their time: barrier 0.6 to 0.75, gather 0.8, reduce 0.7 to 0.85, allreduce by
/// recursive doubling instead of Rabenseifner's 0.6 (8 KiB) to 1 (96 KiB).
const FEW: u32 = 4;
const SHORT_OF_FEW: usize = 96 << 10;
/// Blocks of an all-to-all up to this are worth copying to save steps.
const SHORT_BLOCK: usize = 256;

impl Algorithms {
    /// On one host no line is spared by pieces: on 2 processors 8 ranks took 1.4 to 3 times the tree's time with them.
    pub(super) fn broadcast(self) -> Broadcast {
        self.broadcast.unwrap_or(Broadcast::Binomial)
    }

    /// Each host's line has the data once and not as often as a tree's root sends it.
    pub(super) fn broadcast_between_hosts(self, bytes: usize, hosts: u32) -> Broadcast {
        let long = bytes >= SHORT_BROADCAST && hosts >= 8;
        let chosen = if long { Broadcast::ScatterAllgather } else { Broadcast::Binomial };
        self.broadcast.unwrap_or(chosen)
    }

    pub(super) fn gather(self, block: usize, size: u32) -> Gather {
        // A tree sends most blocks several times.
        let tree = block <= SHORT && size > FEW;
        self.gather.unwrap_or(if tree { Gather::Binomial } else { Gather::Serial })
    }

    pub(super) fn barrier(self, size: u32) -> Barrier {
        // Two ranks tell each other at once.
        let few = (3..=FEW).contains(&size);
        self.barrier.unwrap_or(if few { Barrier::Serial } else { Barrier::Dissemination })
    }

    pub(super) fn allgather(self, bytes: usize) -> Allgather {
        self.allgather.unwrap_or(if bytes <= 10 * SHORT {
            Allgather::Bruck
        } else {
            Allgather::Ring
        })
    }

    pub(super) fn alltoall(self, block: usize, size: u32) -> Alltoall {
        self.alltoall.unwrap_or(match block {
            ..=SHORT_BLOCK if size >= 8 => Alltoall::Bruck,
            ..=32_768 => Alltoall::Scattered,
            _ => Alltoall::Pairwise,
        })
    }

    pub(super) fn reduce(self, bytes: usize, size: u32) -> Reduce {
        if self.ordered {
            return Reduce::Serial;
        }
        let few = size <= FEW && bytes <= SHORT_OF_FEW;
        self.reduce.unwrap_or(if few { Reduce::Serial } else { Reduce::Binomial })
    }

    pub(super) fn allreduce(self, bytes: usize, size: u32, commutative: bool) -> Allreduce {
        if self.ordered {
            return Allreduce::ReduceBroadcast;
        }
        let few = size == 2 || size <= FEW && bytes <= SHORT_OF_FEW;
        let short = if bytes <= SHORT || few {
            Allreduce::RecursiveDoubling
        } else {
            Allreduce::Rabenseifner
        };
        match self.allreduce.unwrap_or(short) {
            Allreduce::Ring | Allreduce::Rabenseifner if !commutative => {
                Allreduce::RecursiveDoubling
            }
            algorithm => algorithm,
        }
    }

    pub(super) fn scan(self) -> Scan {
        if self.ordered { Scan::Serial } else { self.scan.unwrap_or(Scan::RecursiveDoubling) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_has_a_name_of_its_own() {
        fn check<T: Copy + PartialEq + std::fmt::Debug + std::str::FromStr>(
            all: &[T],
            name: fn(T) -> &'static str,
        ) {
            for &algorithm in all {
                assert_eq!(name(algorithm).parse().ok(), Some(algorithm));
            }
        }
        check(Broadcast::ALL, Broadcast::name);
        check(Gather::ALL, Gather::name);
        check(Barrier::ALL, Barrier::name);
        check(Allgather::ALL, Allgather::name);
        check(Alltoall::ALL, Alltoall::name);
        check(Reduce::ALL, Reduce::name);
        check(Allreduce::ALL, Allreduce::name);
        check(Scan::ALL, Scan::name);
        let error = "bruk".parse::<Allgather>().unwrap_err().to_string();
        assert_eq!(
            error,
            r#"algorithm: there is no "bruk" here, but gather-broadcast, ring, bruck"#
        );
    }

    #[test]
    fn operations_have_algorithms_by_their_names() {
        let text = "broadcast=serial,gather=serial,barrier=serial,allgather=ring,alltoall=bruck,reduce=serial,\
                    allreduce=ring,scan=serial,ordered,flat";
        let all = Algorithms {
            broadcast: Some(Broadcast::Serial),
            gather: Some(Gather::Serial),
            barrier: Some(Barrier::Serial),
            allgather: Some(Allgather::Ring),
            alltoall: Some(Alltoall::Bruck),
            reduce: Some(Reduce::Serial),
            allreduce: Some(Allreduce::Ring),
            scan: Some(Scan::Serial),
            flat: true,
            ordered: true,
        };
        assert_eq!(text.parse(), Ok(all));
        assert_eq!("".parse(), Ok(Algorithms::default()));
        for (wrong, said) in [
            ("broadcast", "there is no \"\" here, but serial"),
            ("scan=bruck", "but serial, recursive-doubling"),
            ("brodcast=serial", "is not OPERATION=NAME of broadcast, gather"),
            ("ordered=yes", "nor the word ordered"),
            ("flat=no", "or flat"),
        ] {
            let error = wrong.parse::<Algorithms>().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}

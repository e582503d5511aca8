//! One conformance suite for communicators, run on every transport at 1 to 5 ranks; and what transports promise alone.

#![expect(clippy::cast_possible_truncation, reason = "made-up data is cut to what fits")]

mod broken_connections;
mod collectives;
mod communicators;
mod deadlocks;
mod domain;
mod failures;
mod gateway;
mod inter;
mod persistent;
mod point_to_point;
mod soap;
mod strangers;
mod streams;
mod topologies;

/// A test of the suite, at every number of ranks, on every transport.
macro_rules! conformance {
    ($($test:ident;)+) => {
        mod local {
            $(#[test] fn $test() {
                (1..=5).chain([8, 11]).for_each(|size| crate::domain::run(crate::domain::Kind::Local, size, super::$test));
            })+
        }
        mod shared_memory {
            $(#[test] fn $test() {
                (1..=5).chain([11]).for_each(|size| crate::domain::run(crate::domain::Kind::SharedMemory, size, super::$test));
            })+
        }
        mod two_hosts {
            $(#[test] fn $test() {
                (2..=5).for_each(|size| crate::domain::run(crate::domain::Kind::TwoHosts, size, super::$test));
            })+
        }
        mod gateway {
            $(#[test] fn $test() {
                (2..=5).for_each(|size| crate::domain::run(crate::domain::Kind::Gateway, size, super::$test));
            })+
        }
        mod soap {
            $(#[test] fn $test() {
                (1..=5).for_each(|size| crate::domain::run(crate::domain::Kind::Soap, size, super::$test));
            })+
        }
        mod streams {
            $(#[test] fn $test() {
                (1..=5).for_each(|size| crate::domain::run(crate::domain::Kind::Streams, size, super::$test));
            })+
        }
        mod tcp {
            $(#[test] fn $test() {
                (1..=5).for_each(|size| crate::domain::run(crate::domain::Kind::Tcp, size, super::$test));
            })+
        }
    };
}
use conformance;

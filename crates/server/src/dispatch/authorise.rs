//! Whether whoever asks may: the one check that everything that is done for a caller passes.

use std::fmt::Debug;

use fishplate_contract::{Fault, Principal, Verb};

/// Who wants to do what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access<'a> {
    /// Who wants it.
    pub principal: &'a Principal,
    /// Of which service.
    pub service: &'a str,
    /// Of which operation; empty for what is about jobs whatever their operation.
    pub operation: &'a str,
    /// What is to be done.
    pub verb: Verb,
}

/// Decides who may do what.
pub trait Authoriser: Debug + Send + Sync {
    /// Nothing is done for whom this refuses.
    ///
    /// # Errors
    /// The fault that the caller gets.
    fn authorise(&self, access: &Access<'_>) -> Result<(), Fault>;
}

/// Everybody who can reach the server may do everything.
#[derive(Clone, Copy, Debug)]
pub struct AllowAll;

impl Authoriser for AllowAll {
    fn authorise(&self, _: &Access<'_>) -> Result<(), Fault> {
        Ok(())
    }
}

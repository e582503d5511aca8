//! Who calls: asked once, before a face sees a request, whatever its address. Why so: docs/decisions/0010.
//!
//! Reading order:
//!
//! - [`authenticator`]: the trait, what it is given and what it says
//! - [`chain`]: several of them, one after the other
//! - `proxy`, `certificate`, `jwt`, `bearer`, `basic`, `username_token`: one kind each
//! - [`jwt_keys`], `jwt_signature`: the keys of an issuer, and what is signed with them
//! - [`users`], [`tokens`]: the files that hold them
//! - [`records`]: a file of records that is read again when it has changed
//! - `client_address`: where a caller is who comes through proxies
//! - `password_login`: a user who logs in with a password
//! - `password`: whether a password is right, at a bounded cost
//! - `throttle`: how often it may be tried
//! - `nonces`: numbers that are used once

pub mod authenticator;
mod basic;
mod bearer;
mod certificate;
pub mod chain;
pub(crate) mod client_address;
pub mod jwt;
pub mod jwt_keys;
mod jwt_signature;
mod nonces;
mod password;
mod password_login;
mod proxy;
pub mod records;
mod throttle;
pub mod tokens;
mod username_token;
pub mod users;

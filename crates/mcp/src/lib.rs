//! Services as tools of assistants: the Model Context Protocol (MCP) over any [`Caller`](fishplate_contract::Caller), so that it
//! means the same whether the services are in this process or behind HTTP. Why and how far: docs/decisions/0033.
//!
//! The protocol itself (JSON-RPC, its revisions, its two transports) is `rmcp`'s. Reading order:
//!
//! - [`services`]: what the tools are made of, and whoever has it
//! - `catalogue`: names of tools; `tool`: their descriptions
//! - `argument`: JSON as arguments; [`directory`]: files of this machine among them
//! - `job`: names of jobs and of what they gave
//! - `output`: outputs as the content of an answer
//! - `call`: one call of a tool, from its job to its answer
//! - [`handler`]: what each request of the protocol does
//! - [`transport`]: one request of HTTP, or a process's standard input and output

mod argument;
mod call;
mod catalogue;
pub mod directory;
pub mod handler;
mod job;
mod output;
pub mod services;
mod tool;
pub mod transport;

pub use directory::Directory;
pub use handler::{Handler, Settings};
pub use services::{OperationName, ServiceTools, Services};

//! Tools of assistants (Model Context Protocol, streamable HTTP) at `PUBLIC/mcp`: each operation of a service is a tool. What
//! the protocol means is `fishplate_mcp`'s; here its requests are read within this server's limits, and services are called in
//! the caller's name. Why and how far: docs/decisions/0033.
//!
//! Reading order: `answer` (requests), `services` (what the tools are made of).

mod answer;
mod services;

pub(crate) use answer::{answer, refused};

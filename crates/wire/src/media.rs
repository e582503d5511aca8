//! Media types and their parameters (RFC 9110 section 8.3, RFC 2045 section 5.1), as stacks send
//! them.

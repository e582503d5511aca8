//! A service's description in WSDL 1.1, both ways. A [`View`] is a parameter of the one generator.

mod arrays;
mod bound;
mod markup;
mod read;
mod schema;
mod types;
mod view;
mod write;
mod xdescr;

pub use read::{DescribedOperation, Description, WsdlError, read};
pub use view::{DataView, PackagingBinding, UnknownView, View};
pub use write::{action, write};

pub(crate) use markup::Markup;
pub(crate) use schema::annotate;

#[cfg(test)]
mod tests;

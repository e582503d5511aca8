//! What crosses modules: the names of everything that has one, and the parsers on any text.

mod names;
mod parsers;

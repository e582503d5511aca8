//! Functions that come with Fishplate: `fishplate serve --builtin NAME`.

mod matrix;
mod stream;

use super::Functions;

/// Names of all of them.
pub const NAMES: [&str; 2] = ["matrix", "stream"];

/// The service of that name.
pub fn named(name: &str) -> Option<Functions> {
    match name {
        "matrix" => Some(matrix::service()),
        "stream" => Some(stream::service()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_a_service_of_its_name() {
        for name in NAMES {
            assert_eq!(named(name).unwrap().service().name, name);
        }
        assert!(named("none").is_none());
    }
}

//! The machine-readable detail of a fault: one element, both ways.

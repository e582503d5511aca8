//! Topologies (MPI 5.0, chapter 8).

use std::ffi::c_int;

use crate::arguments::{Integer, Out};
use crate::constants::*;
use crate::entry::entries;
use crate::error::{Result, error};

/// Factors as close to each other as can be, in falling order: of each way to write `count` as `places` factors that fall, the one
/// whose greatest is least.
fn factors(count: usize, places: usize) -> Vec<usize> {
    fn search(count: usize, places: usize, most: usize) -> Option<Vec<usize>> {
        if places == 0 {
            return (count == 1).then(Vec::new);
        }
        let candidates = (1..=count.min(most)).filter(|first| count.is_multiple_of(*first));
        // The least first factor that leaves the rest possible.
        candidates.into_iter().find_map(|first| {
            let mut rest = search(count / first, places - 1, first)?;
            rest.insert(0, first);
            Some(rest)
        })
    }
    search(count, places, count).unwrap_or_default()
}

fn dims_create(nodes: c_int, dimensions: c_int, sizes: Out<c_int>) -> Result<()> {
    let wrong = |problem: String| error(MPI_ERR_DIMS, problem);
    let (nodes, dimensions) = (nodes.count()?, dimensions.count()?);
    let mut given = Vec::new();
    for at in 0..dimensions {
        given.push(sizes.at(at).get()?.count().map_err(|cause| wrong(cause.message))?);
    }
    let fixed: usize = given.iter().filter(|size| **size > 0).product();
    let free = given.iter().filter(|size| **size == 0).count();
    if nodes == 0 || !nodes.is_multiple_of(fixed) || (free == 0 && nodes != fixed) {
        return Err(wrong(format!("{nodes} nodes can't be arranged in dimensions of {given:?}")));
    }
    let mut found = factors(nodes / fixed, free).into_iter();
    let all = given.iter().map(|&size| if size > 0 { Some(size) } else { found.next() });
    sizes.set_all(all.map(|size| size.and_then(|size| c_int::try_from(size).ok()).unwrap_or(1)))
}

entries! {
    fn Dims_create(nodes: c_int, dimensions: c_int, sizes: Out<c_int>) on () => {
        dims_create(nodes, dimensions, sizes)
    }
}

//! Trends in what was seen: whether there is one, how steep it is, within which bounds; and when too little was seen
//! to say. No distribution is taken for granted.
//!
//! - [`trend`]: Mann and Kendall's test with ties and correlation in time; Sen's slope with its bounds
//! - [`ageing`]: whether a resource is used up, over a server's requests and hours (Garg, van Moorsel, Vaidyanathan
//!   and Trivedi: A Methodology for Detection and Estimation of Software Aging, ISSRE 1998)

pub mod ageing;
#[cfg(test)]
mod simulation;
pub mod trend;

/// The middle one of them, or the mean of the two in the middle; none of none.
pub fn median(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let is_odd = values.len() % 2 == 1;
    let (below, middle, _) = values.select_nth_unstable_by(values.len() / 2, f64::total_cmp);
    let before = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(if is_odd { *middle } else { f64::midpoint(before, *middle) })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_median_is_in_the_middle() {
        let of = |mut values: Vec<f64>| super::median(&mut values);
        assert_eq!(of(vec![]), None);
        assert_eq!(of(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(of(vec![4.0, 1.0, 2.0, 100.0]), Some(3.0));
    }
}

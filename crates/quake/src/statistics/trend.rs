//! Mann and Kendall's test for a trend, and Sen's slope.

use super::median;

/// Of a standard normal distribution: 95 % of it lie between this and its negative.
pub const Z95: f64 = 1.959_963_985;

/// Mann and Kendall's test (Mann 1945, Kendall 1975): of all pairs, how many more rise than fall.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MannKendall {
    /// Rising pairs less falling ones.
    pub s: f64,
    /// The variance of that if there is no trend; ties are taken out, correlation in time is put in.
    pub variance: f64,
}

impl MannKendall {
    /// Of values in the order of time, which do not depend on each other.
    pub fn independent(values: &[f64]) -> Self {
        let mut s = 0.0;
        for (at, value) in values.iter().enumerate() {
            s += values[at + 1..].iter().map(|later| sign(later - value)).sum::<f64>();
        }
        let of = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
        let ties: f64 = ties(values).into_iter().map(of).sum();
        Self { s, variance: (of(values.len() as f64) - ties) / 18.0 }
    }

    /// Of values at these places that may depend on those before: the variance is made as much greater as the ranks, less their
    /// trend, are correlated (Hamed and Rao: A modified Mann-Kendall trend test for autocorrelated data, Journal of
    /// Hydrology 204, 1998). It is never made less.
    pub fn correlated(at: &[f64], values: &[f64]) -> Self {
        let independent = Self::independent(values);
        let n = values.len() as f64;
        let residuals = residuals(at, values);
        let significant = Z95 / n.sqrt();
        let mut excess = 0.0;
        for lag in 1..values.len() / 3 {
            // What a trend was taken out of seems less correlated than it is (Marriott and Pope, Biometrika 41, 1954).
            let seen = autocorrelation(&residuals, lag);
            let of = if lag == 1 { seen + (1.0 + 4.0 * seen) / n } else { seen };
            // That of neighbours counts always: too small a variance is the worse mistake.
            if of.abs() > significant || (lag == 1 && of > 0.0) {
                let left = n - lag as f64;
                excess += left * (left - 1.0) * (left - 2.0) * of;
            }
        }
        let factor = 1.0 + 2.0 * excess / (n * (n - 1.0) * (n - 2.0));
        Self { variance: independent.variance * factor.max(1.0), ..independent }
    }

    /// How far from no trend, in standard deviations, with the correction for continuity; 0 if all values are one.
    pub fn z(&self) -> f64 {
        if self.s == 0.0 || self.variance == 0.0 {
            return 0.0;
        }
        (self.s - self.s.signum()) / self.variance.sqrt()
    }
}

fn sign(of: f64) -> f64 {
    if of == 0.0 { 0.0 } else { of.signum() }
}

/// How many of each value there are.
fn ties(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.chunk_by(|a, b| a == b).map(|equal| equal.len() as f64).collect()
}

/// The ranks of what is left of values when their trend is taken out.
pub(super) fn residuals(at: &[f64], values: &[f64]) -> Vec<f64> {
    let slope = median(&mut pairwise(at, values)).unwrap_or(0.0);
    let left: Vec<f64> = at.iter().zip(values).map(|(at, value)| value - slope * at).collect();
    ranks(&left)
}

/// From 1, the mean rank for equal ones.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let (mut ranks, mut before) = (vec![0.0; values.len()], 0);
    for equal in order.chunk_by(|a, b| values[*a] == values[*b]) {
        for at in equal {
            ranks[*at] = before as f64 + (equal.len() + 1) as f64 / 2.0;
        }
        before += equal.len();
    }
    ranks
}

/// How values depend on those `lag` before; 0 if all are one.
pub(super) fn autocorrelation(values: &[f64], lag: usize) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let variance: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    if variance == 0.0 {
        return 0.0;
    }
    let pairs = values.iter().zip(values.iter().skip(lag));
    pairs.map(|(earlier, later)| (earlier - mean) * (later - mean)).sum::<f64>() / variance
}

/// Slopes between all pairs that are not at the same place.
fn pairwise(at: &[f64], values: &[f64]) -> Vec<f64> {
    let mut slopes = Vec::with_capacity(values.len() * values.len() / 2);
    for first in 0..values.len() {
        for second in first + 1..values.len() {
            let apart = at[second] - at[first];
            if apart != 0.0 {
                slopes.push((values[second] - values[first]) / apart);
            }
        }
    }
    slopes
}

/// Sen's slope (Sen: Estimates of the regression coefficient based on Kendall's tau, JASA 63, 1968): the median of the
/// slopes between all pairs.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct Slope {
    /// The slope.
    pub slope: f64,
    /// It is no less than this,
    pub lower: f64,
    /// and no more than this, as surely as the `z` says.
    pub upper: f64,
}

impl Slope {
    /// With bounds by the variance of the test (Gilbert: Statistical Methods for Environmental Pollution Monitoring,
    /// 1987, section 16.5); none if all are at one place. The bounds are the next slopes outwards, so rather too wide.
    pub fn of(at: &[f64], values: &[f64], test: &MannKendall, z: f64) -> Option<Self> {
        let mut slopes = pairwise(at, values);
        let slope = median(&mut slopes)?;
        let reach = z * test.variance.sqrt();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not below 0, and less than there are slopes"
        )]
        let outwards = ((slopes.len() as f64 - reach) / 2.0).floor().max(1.0) as usize;
        slopes.sort_unstable_by(f64::total_cmp);
        let (lower, upper) = (slopes[outwards - 1], slopes[slopes.len() - outwards]);
        Some(Self { slope, lower, upper })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// J. Little's worked example, with a tie (College of the Holy Cross, Montserrat seminar).
    const BY_HAND: [f64; 14] =
        [12.9, 14.8, 13.2, 15.7, 13.8, 15.6, 12.9, 11.0, 17.3, 15.9, 19.0, 18.3, 20.1, 21.7];

    #[test]
    fn the_test_is_as_published() {
        let test = MannKendall::independent(&BY_HAND);
        assert_eq!((test.s, test.variance), (54.0, (14.0 * 13.0 * 33.0 - 18.0) / 18.0));
        assert!((test.z() - 2.9058).abs() < 5e-5, "{}", test.z());
        // EPA QA/G-9, the example of the test for few values.
        assert_eq!(MannKendall::independent(&[5.0, 6.0, 11.0, 8.0, 10.0]).s, 6.0);
        let falling: Vec<f64> = BY_HAND.iter().map(|value| -value).collect();
        assert_eq!(MannKendall::independent(&falling).z(), -test.z());
    }

    #[test]
    fn the_slope_is_as_published() {
        // Sen 1968, section 6: slope 4, and 93 % within 26/7 and 35/8.
        let at = [1.0, 2.0, 3.0, 4.0, 10.0, 12.0, 18.0];
        let values = [9.0, 15.0, 19.0, 20.0, 45.0, 55.0, 78.0];
        let test = MannKendall::independent(&values);
        let slope = Slope::of(&at, &values, &test, 1.8119).expect("there are pairs");
        assert_eq!(slope, Slope { slope: 4.0, lower: 26.0 / 7.0, upper: 35.0 / 8.0 });
    }

    #[test]
    fn what_is_constant_has_no_trend_and_no_slope() {
        let at: Vec<f64> = (0..40).map(f64::from).collect();
        let test = MannKendall::correlated(&at, &[7.0; 40]);
        assert_eq!((test.s, test.variance, test.z()), (0.0, 0.0, 0.0));
        let zero = Slope { slope: 0.0, lower: 0.0, upper: 0.0 };
        assert_eq!(Slope::of(&at, &[7.0; 40], &test, Z95), Some(zero));
        assert_eq!(Slope::of(&[1.0; 40], &[7.0; 40], &test, Z95), None);
    }

    #[test]
    fn ranks_of_equals_are_their_mean_and_correlation_is_known() {
        assert_eq!(ranks(&[10.0, 30.0, 10.0, 20.0]), [1.5, 4.0, 1.5, 3.0]);
        // Of 1, 2, 3, 4, 5: deviations -2 to 2, variance 10, products at lag 1 of 2, 0, 0 and 2.
        assert!((autocorrelation(&[1.0, 2.0, 3.0, 4.0, 5.0], 1) - 0.4).abs() < 1e-12);
    }

    #[test]
    fn correlation_widens_and_never_narrows() {
        let at: Vec<f64> = (0..60).map(f64::from).collect();
        let waves: Vec<f64> = (0..60).map(|at| (f64::from(at) / 5.0).sin()).collect();
        let alternating: Vec<f64> =
            (0..60).map(|at| f64::from(at % 2) + 1e-3 * f64::from(at)).collect();
        for (values, wider) in [(waves, true), (alternating, false)] {
            let plain = MannKendall::independent(&values).variance;
            let corrected = MannKendall::correlated(&at, &values).variance;
            assert_eq!(corrected > plain, wider, "{corrected} beside {plain}");
            assert!(corrected >= plain);
        }
    }
}

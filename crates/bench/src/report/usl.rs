//! The Universal Scalability Law fitted to throughput over concurrency:
//! `X(N) = λN / (1 + σ(N − 1) + κN(N − 1))` (Gunther). Valid for closed loops only.

/// Fewest points a fit is made from.
pub(crate) const POINTS_MIN: usize = 6;
/// Rounds of the refinement; each halves the step, so this is far below the noise of any measurement.
const ROUNDS: u32 = 60;

/// One steady point of a sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point {
    /// Requests kept in flight.
    pub(crate) concurrency: f64,
    /// Answers per second.
    pub(crate) throughput_rps: f64,
}

/// The law's parameters and how well they describe the points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fit {
    /// Throughput of one request in flight.
    pub(crate) lambda_rps: f64,
    /// Contention.
    pub(crate) sigma: f64,
    /// Crosstalk: above 0 throughput falls past [`Fit::peak_concurrency`].
    pub(crate) kappa: f64,
    /// Share of the variance that the curve explains.
    pub(crate) r_squared: f64,
    /// Smallest and largest kappa when any one point is left out.
    pub(crate) kappa_range: (f64, f64),
}

impl Fit {
    /// A fit to the points; `None` with fewer than [`POINTS_MIN`] different concurrencies or a throughput of 0.
    pub(crate) fn of(points: &[Point]) -> Option<Self> {
        let mut loads: Vec<f64> = points.iter().map(|point| point.concurrency).collect();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        let usable = |point: &Point| {
            point.concurrency.is_finite()
                && point.concurrency >= 1.0
                && point.throughput_rps.is_finite()
                && point.throughput_rps > 0.0
        };
        if loads.len() < POINTS_MIN || !points.iter().all(usable) {
            return None;
        }
        let [lambda_rps, sigma, kappa] = parameters(points)?;
        let mut kappa_range = (kappa, kappa);
        for left_out in 0..points.len() {
            let rest: Vec<Point> = points
                .iter()
                .enumerate()
                .filter(|(at, _)| *at != left_out)
                .map(|(_, point)| *point)
                .collect();
            let [.., kappa] = parameters(&rest)?;
            kappa_range = (kappa_range.0.min(kappa), kappa_range.1.max(kappa));
        }
        let mut fit = Self {
            lambda_rps,
            sigma,
            kappa,
            r_squared: 0.0,
            kappa_range,
        };
        fit.r_squared = fit.explained(points);
        Some(fit)
    }

    /// The curve.
    pub(crate) fn throughput_rps(&self, n: f64) -> f64 {
        law(n, [self.lambda_rps, self.sigma, self.kappa])
    }

    /// Concurrency of the highest throughput: `√((1 − σ)/κ)`; `None` if the curve never falls.
    pub(crate) fn peak_concurrency(&self) -> Option<f64> {
        let peak = ((1.0 - self.sigma) / self.kappa).sqrt();
        (self.kappa > 0.0 && peak.is_finite()).then_some(peak)
    }

    fn explained(&self, points: &[Point]) -> f64 {
        let mean =
            points.iter().map(|point| point.throughput_rps).sum::<f64>() / points.len() as f64;
        let (mut left, mut all) = (0.0, 0.0);
        for point in points {
            left += (point.throughput_rps - self.throughput_rps(point.concurrency)).powi(2);
            all += (point.throughput_rps - mean).powi(2);
        }
        if all > 0.0 { 1.0 - left / all } else { 0.0 }
    }
}

fn law(n: f64, [lambda, sigma, kappa]: [f64; 3]) -> f64 {
    lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0))
}

/// Least squares over σ and κ with λ in closed form: a coarse grid, then smaller and smaller crosses around the best.
fn parameters(points: &[Point]) -> Option<[f64; 3]> {
    let cost = |sigma: f64, kappa: f64| -> (f64, f64) {
        let (mut above, mut below) = (0.0, 0.0);
        for point in points {
            let shape = law(point.concurrency, [1.0, sigma, kappa]);
            above += shape * point.throughput_rps;
            below += shape * shape;
        }
        let lambda = above / below;
        let squares = points.iter().map(|point| {
            (point.throughput_rps - law(point.concurrency, [lambda, sigma, kappa])).powi(2)
        });
        (squares.sum(), lambda)
    };
    let (mut best, mut at) = (f64::MAX, (0.0, 0.0));
    for s in 0..=40 {
        for k in 0..=40 {
            let (sigma, kappa) = (
                f64::from(s) / 40.0,
                if k == 0 {
                    0.0
                } else {
                    10_f64.powf(-8.0 + 0.2 * f64::from(k - 1))
                },
            );
            let found = cost(sigma, kappa).0;
            if found < best {
                (best, at) = (found, (sigma, kappa));
            }
        }
    }
    let (mut ds, mut dk) = (0.025, (at.1 * 0.6).max(1e-8));
    for _ in 0..ROUNDS {
        let mut moved = false;
        for (s, k) in [
            (ds, 0.0),
            (-ds, 0.0),
            (0.0, dk),
            (0.0, -dk),
            (ds, -dk),
            (-ds, dk),
        ] {
            let next = ((at.0 + s).clamp(0.0, 1.0), (at.1 + k).max(0.0));
            let found = cost(next.0, next.1).0;
            if found < best {
                (best, at, moved) = (found, next, true);
            }
        }
        if !moved {
            (ds, dk) = (ds / 2.0, dk / 2.0);
        }
    }
    let lambda = cost(at.0, at.1).1;
    (best.is_finite() && lambda.is_finite()).then_some([lambda, at.0, at.1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(parameters: [f64; 3]) -> Vec<Point> {
        [1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 200.0]
            .map(|concurrency| Point {
                concurrency,
                throughput_rps: law(concurrency, parameters),
            })
            .to_vec()
    }

    #[test]
    fn known_parameters_are_found_again() {
        let fit = Fit::of(&points([1_000.0, 0.02, 0.0001])).unwrap();
        assert!((fit.lambda_rps / 1_000.0 - 1.0).abs() < 0.01, "{fit:?}");
        assert!((fit.sigma - 0.02).abs() < 0.002, "{fit:?}");
        assert!((fit.kappa - 0.0001).abs() < 0.00001, "{fit:?}");
        assert!(fit.r_squared > 0.9999);
        assert!((fit.peak_concurrency().unwrap() - 99.0).abs() < 3.0);
    }

    #[test]
    fn a_curve_that_only_flattens_has_no_peak_within_reach() {
        let fit = Fit::of(&points([1_000.0, 0.1, 0.0])).unwrap();
        assert!(
            fit.peak_concurrency().is_none_or(|peak| peak > 1_000.0),
            "{fit:?}"
        );
    }

    #[test]
    fn too_few_or_dead_points_give_no_fit() {
        assert!(Fit::of(&points([1_000.0, 0.1, 0.0])[..5]).is_none());
        let mut dead = points([1_000.0, 0.1, 0.0]);
        dead[3].throughput_rps = 0.0;
        assert!(Fit::of(&dead).is_none());
    }
}

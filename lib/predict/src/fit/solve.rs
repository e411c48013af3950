// SPDX-License-Identifier: MIT
//! Least squares on relative errors, by orthogonal transformations.
//!
//! Each point is a row, its regressors divided by what was measured, so that the parameters' sum should come to 1 and
//! its difference from 1 is the relative error. Columns are scaled to length 1 before anything is decided about them.

use nalgebra::{DMatrix, DVector};

/// A column whose part that others cannot make up is smaller than this, of its length, says nothing new.
const INDEPENDENCE: f64 = 1e-8;
/// A parameter that moves no prediction by more than this, as a share, is 0 whatever its sign.
const NEGLIGIBLE: f64 = 1e-9;

/// The points of a fit, as few numbers: as many rows as there are parameters, and one more.
pub struct System {
    /// The rows after an orthogonal transformation; the right sides are the last column.
    small: DMatrix<f64>,
    /// Each column's length.
    pub lengths: Vec<f64>,
}

/// Parameters that make the sum of squares as small as it gets.
#[derive(Clone, Debug)]
pub struct Solution {
    /// All of the system's parameters; 0 for those that were not kept.
    pub values: Vec<f64>,
    /// Which were solved for.
    pub free: Vec<usize>,
    /// Sum of the squares of relative errors.
    pub squares: f64,
}

/// Which columns are independent.
#[derive(Clone, Debug, Default)]
pub struct Apart {
    /// The independent columns.
    pub kept: Vec<usize>,
    /// The dependent columns, each with the others that it is made up of; none if it is zero.
    pub dropped: Vec<(usize, Vec<usize>)>,
}

impl System {
    /// A system of rows of the same length, already divided by what was measured.
    pub fn new(rows: &[Vec<f64>]) -> Self {
        let columns = rows.first().map_or(0, Vec::len);
        let rows = DMatrix::from_fn(rows.len(), columns, |i, j| rows[i][j]);
        let lengths = rows.column_iter().map(|column| column.norm()).collect();
        let with_right = rows.insert_column(columns, 1.0);
        let small = if with_right.nrows() > with_right.ncols() { with_right.qr().r() } else { with_right };
        Self { small, lengths }
    }

    /// Goes through the columns in order and keeps each that those before it do not make up.
    pub fn apart(&self) -> Apart {
        let mut apart = Apart::default();
        for j in 0..self.lengths.len() {
            if self.lengths[j] == 0.0 {
                apart.dropped.push((j, Vec::new()));
                continue;
            }
            let column = self.scaled(&[j]).column(0).into_owned();
            let kept = self.scaled(&apart.kept);
            let parts = least_squares(&kept, &column);
            if (&column - &kept * &parts).norm() > INDEPENDENCE {
                apart.kept.push(j);
            } else {
                let with = apart.kept.iter().zip(parts.iter()).filter(|(_, part)| part.abs() > 1e-6);
                apart.dropped.push((j, with.map(|(&k, _)| k).collect()));
            }
        }
        apart
    }

    /// Solves for the `kept` columns' parameters, of which the `bounded` ones are at least 0.
    pub fn solve(&self, kept: &[usize], bounded: &[bool]) -> Solution {
        let all = self.solve_for(kept, bounded);
        if let Some(solution) = all {
            return solution;
        }
        // The best solution has some of the bounded ones at 0 and solves for the rest: few enough to try all sets.
        let candidates: Vec<usize> = kept.iter().copied().filter(|&j| bounded[j]).collect();
        let sets = (1..1_u32 << candidates.len()).filter_map(|set| {
            let zero = |j: &usize| candidates.iter().position(|c| c == j).is_some_and(|bit| set >> bit & 1 == 1);
            let free: Vec<usize> = kept.iter().copied().filter(|j| !zero(j)).collect();
            self.solve_for(&free, bounded)
        });
        sets.min_by(|a, b| a.squares.total_cmp(&b.squares)).expect("with all bounded ones at 0 nothing is negative")
    }

    /// Solves for the `free` columns' parameters; nothing if one that is bounded comes out negative.
    fn solve_for(&self, free: &[usize], bounded: &[bool]) -> Option<Solution> {
        let right = self.small.column(self.lengths.len()).into_owned();
        let scaled = self.scaled(free);
        let parts = least_squares(&scaled, &right);
        let mut values = vec![0.0; self.lengths.len()];
        for (&j, &part) in free.iter().zip(parts.iter()) {
            // A part is the largest share of a prediction that the parameter can move.
            if bounded[j] && part < -NEGLIGIBLE {
                return None;
            }
            values[j] = if bounded[j] && part < NEGLIGIBLE { 0.0 } else { part / self.lengths[j] };
        }
        let squares = (right - scaled * parts).norm_squared();
        Some(Solution { values, free: free.to_vec(), squares })
    }

    /// Columns of the small system, scaled.
    fn scaled(&self, columns: &[usize]) -> DMatrix<f64> {
        DMatrix::from_fn(self.small.nrows(), columns.len(), |i, j| {
            self.small[(i, columns[j])] / self.lengths[columns[j]]
        })
    }
}

/// The least squares of `a x = b` for independent columns.
fn least_squares(a: &DMatrix<f64>, b: &DVector<f64>) -> DVector<f64> {
    if a.ncols() == 0 {
        return DVector::zeros(0);
    }
    let qr = a.clone().qr();
    let right = qr.q().transpose() * b;
    qr.r().solve_upper_triangular(&right).unwrap_or_else(|| DVector::zeros(a.ncols()))
}

/// Properties of a fit that follow from the derivatives of the relative errors by the free parameters.
pub struct Spread {
    /// For each parameter: its standard error where relative errors have standard deviation 1.
    pub errors: Vec<f64>,
    /// For each point: how far its own measurement pulls its prediction, 0 to 1.
    pub pulls: Vec<f64>,
    /// The largest singular value over the smallest, of the scaled columns.
    pub condition: f64,
}

/// The spread of a fit with these derivatives, a row per point and a column per parameter.
pub fn spread(derivatives: &DMatrix<f64>) -> Spread {
    let lengths: Vec<f64> = derivatives.column_iter().map(|column| column.norm()).collect();
    let scaled = DMatrix::from_fn(derivatives.nrows(), derivatives.ncols(), |i, j| {
        if lengths[j] > 0.0 { derivatives[(i, j)] / lengths[j] } else { 0.0 }
    });
    if scaled.is_empty() {
        return Spread { errors: Vec::new(), pulls: vec![0.0; derivatives.nrows()], condition: 1.0 };
    }
    let svd = scaled.svd(true, true);
    let (u, v_t) = (svd.u.expect("asked for"), svd.v_t.expect("asked for"));
    let largest = svd.singular_values.max();
    let good: Vec<usize> =
        (0..svd.singular_values.len()).filter(|&i| svd.singular_values[i] > INDEPENDENCE * largest).collect();
    let error = |j: usize| {
        let square: f64 = good.iter().map(|&i| (v_t[(i, j)] / svd.singular_values[i]).powi(2)).sum();
        square.sqrt() / lengths[j]
    };
    let pull = |row: usize| good.iter().map(|&i| u[(row, i)].powi(2)).sum::<f64>();
    let smallest = good.iter().map(|&i| svd.singular_values[i]).fold(f64::INFINITY, f64::min);
    Spread {
        errors: (0..lengths.len()).map(error).collect(),
        pulls: (0..u.nrows()).map(pull).collect(),
        condition: if good.len() < lengths.len() { f64::INFINITY } else { largest / smallest },
    }
}

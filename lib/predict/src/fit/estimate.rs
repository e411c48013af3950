// SPDX-License-Identifier: MIT
//! The parameters of one model from points that only cores limited.

use super::design::{Cache, Factor, Form, Kind, MISS, PRODUCT};
use super::missing;
use super::solve::{Apart, Solution, Spread, System, spread};
use crate::points::Point;
use crate::profile::{Model, Per, Router};
use crate::reach::{FURTHER, cores};
use nalgebra::DMatrix;

/// More different working sets are not looked at one by one.
const MAX_WORKING_SETS: usize = 64;

/// A parameter of a fitted model.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimated {
    /// Its name in profiles.
    pub name: &'static str,
    pub value: f64,
    /// Its standard error if relative errors had standard deviation 1; none if it was not solved for.
    pub spread: Option<f64>,
    /// Why it was not solved for.
    pub held: Option<String>,
    /// It was not solved for because the points do not determine it.
    pub open: bool,
    /// What a fit with it would say, where it is left out although the points would determine it.
    pub suggested: Option<Suggested>,
}

/// What points suggest of a parameter that they do not prove.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suggested {
    pub value: f64,
    /// Its standard error if relative errors had standard deviation 1.
    pub spread: f64,
    /// The minimised sum with it, and how many parameters were solved for.
    pub squares: f64,
    pub solved: usize,
}

/// Numbers of cores without which contention is not told from noise: two points of two cores suggested 359 ns a burst,
/// which made 118 Mpps of the 377 that sixteen cores forwarded.
const NUMBERS_OF_CORES: usize = 3;

/// A fitted model.
#[derive(Clone, Debug)]
pub struct Estimate {
    /// Which one.
    pub kind: Kind,
    /// With its parameters.
    pub model: Model,
    /// Parameters, with how well they are known.
    pub parameters: Vec<Estimated>,
    /// Further remarks.
    pub notes: Vec<String>,
    /// The minimised sum.
    pub squares: f64,
    /// For each point: predicted over measured, less 1, of what was fitted (rate or time).
    pub residuals: Vec<f64>,
    /// For each point: how far its own measurement pulls its prediction, 0 to 1.
    pub pulls: Vec<f64>,
    /// Condition number of the scaled columns.
    pub condition: f64,
}

impl Estimate {
    /// How many parameters were solved for.
    pub fn solved(&self) -> usize {
        self.parameters.iter().filter(|parameter| parameter.spread.is_some()).count()
    }

    /// For each point: the relative error of the rate predicted for it by a fit without it, if there is such a fit. The
    /// cache's size and what is held at 0 stay as they are.
    pub fn cross_validated(&self) -> Vec<Option<f64>> {
        let without = self.residuals.iter().zip(&self.pulls).map(|(residual, pull)| {
            // A point that alone determines a parameter meets its own measurement whatever that is.
            (1.0 - pull > 1e-6).then(|| self.kind.rate_error(residual / (1.0 - pull)))
        });
        without.collect()
    }
}

impl Kind {
    /// The relative error of a rate, from that of what is fitted.
    pub fn rate_error(self, fitted: f64) -> f64 {
        match self {
            Self::Eq7 => fitted,
            // A rate is one over a time.
            Self::Contention | Self::Batch => 1.0 / (1.0 + fitted) - 1.0,
        }
    }
}

/// A form with its solution.
struct Solved {
    form: Form,
    apart: Apart,
    solution: Solution,
}

/// Fits one model to these points.
///
/// # Errors
/// Which measurement is missing, if a parameter that the model needs cannot be determined.
pub fn estimate(kind: Kind, per: Option<Per>, points: &[&Point], router: &Router) -> Result<Estimate, String> {
    let mut numbers: Vec<u32> = points.iter().map(|point| point.cores).collect();
    numbers.sort_unstable();
    numbers.dedup();
    if kind == Kind::Eq7 || numbers.len() >= NUMBERS_OF_CORES || numbers.len() < 2 {
        return all_of(kind, per, &Fitting { points, router, further: true });
    }
    let mut without = all_of(kind, per, &Fitting { points, router, further: false })?;
    let with = all_of(kind, per, &Fitting { points, router, further: true })?;
    let suggested = with.parameters.iter().find(|parameter| parameter.name == FURTHER).and_then(|further| {
        let (value, spread) = (further.value, further.spread?);
        (value > 0.0).then(|| Suggested { value, spread, squares: with.squares, solved: with.solved() })
    });
    for further in without.parameters.iter_mut().filter(|parameter| parameter.name == FURTHER) {
        let suggests = suggested.map_or("nothing".to_owned(), |suggested| format!("{:.1} ns", suggested.value));
        further.held = Some(format!(
            "held at 0: points on {} suggest {suggests}, and two numbers of cores do not tell contention from noise; measure on a third \
             number of cores. Predictions for more cores are without contention",
            cores(&numbers)
        ));
        further.suggested = suggested;
    }
    Ok(without)
}

/// What a model is fitted to.
struct Fitting<'a> {
    points: &'a [&'a Point],
    router: &'a Router,
    /// Whether what a further core costs is solved for.
    further: bool,
}

fn all_of(kind: Kind, per: Option<Per>, to: &Fitting<'_>) -> Result<Estimate, String> {
    let mut notes = Vec::new();
    let solved = match kind {
        Kind::Eq7 => solve(Form::Eq7, to)?,
        Kind::Contention => solve(Form::Contention, to)?,
        Kind::Batch => batch(per, to, &mut notes)?,
    };
    Ok(finish(kind, solved, to.points, to.router, notes))
}

fn system(form: &Form, points: &[&Point], router: &Router) -> System {
    let row = |point: &&Point| {
        let target = form.target(point);
        form.regressors(point, router).into_iter().map(|regressor| regressor / target).collect()
    };
    System::new(&points.iter().map(row).collect::<Vec<Vec<f64>>>())
}

fn solve(form: Form, to: &Fitting<'_>) -> Result<Solved, String> {
    let Fitting { points, router, further } = *to;
    let system = system(&form, points, router);
    let mut apart = system.apart();
    let left_out = form.terms().iter().position(|term| term.name == FURTHER).filter(|_| !further);
    if let Some(at) = apart.kept.iter().position(|j| Some(*j) == left_out) {
        apart.dropped.push((apart.kept.remove(at), Vec::new()));
    }
    let needed: Vec<usize> = apart.dropped.iter().map(|(j, _)| *j).filter(|&j| form.terms()[j].needed).collect();
    if !needed.is_empty() {
        return Err(missing::refusal(&form, &needed, points, router));
    }
    let bounded: Vec<bool> = form.terms().iter().map(|term| term.bounded).collect();
    let solution = system.solve(&apart.kept, &bounded);
    Ok(Solved { form, apart, solution })
}

/// Contention per burst or per packet, whatever fits better, if nothing says which and the points can tell.
fn batch(per: Option<Per>, to: &Fitting<'_>, notes: &mut Vec<String>) -> Result<Solved, String> {
    let Some(per) = per else {
        let points = to.points;
        let (burst, packet) = (cached(Per::Burst, to)?, cached(Per::Packet, to)?);
        let (per_burst, per_packet) = (burst.solution.squares.sqrt(), packet.solution.squares.sqrt());
        if (per_burst - per_packet).abs() <= 1e-6 {
            notes.push(
                "contention per burst and per packet fit alike: per burst is taken; several burst sizes on \
                        several cores would tell them apart"
                    .to_owned(),
            );
            return Ok(burst);
        }
        let (best, name) = if per_burst <= per_packet { (burst, "burst") } else { (packet, "packet") };
        let rms = |squares: f64| 100.0 * squares / (points.len() as f64).sqrt();
        notes.push(format!(
            "contention per {name} fits better: root mean square errors {:.3} % per burst, {:.3} % per packet",
            rms(per_burst),
            rms(per_packet)
        ));
        return Ok(best);
    };
    cached(per, to)
}

/// The best size of the cache. Between two working sets that were measured the model is linear in `miss` and
/// `miss * cache`, so its best is either inside, where the linear fit says, or at one of the ends.
fn cached(per: Per, to: &Fitting<'_>) -> Result<Solved, String> {
    let Fitting { points, router, .. } = *to;
    let form = |cache| Form::Batch { per, cache };
    let mut sets: Vec<f64> = points.iter().map(|point| Factor::WorkingSet.of(point, router)).collect();
    sets.push(0.0);
    sets.sort_by(f64::total_cmp);
    sets.dedup();
    if sets.len() > MAX_WORKING_SETS + 1 {
        return Err(format!("found {} different working sets, expected at most {MAX_WORKING_SETS}", sets.len() - 1));
    }
    let mut best = solve(form(Cache::At(0.0)), to)?;
    let mut consider = |found: Solved| {
        // Among equals the smallest cache.
        if found.solution.squares < best.solution.squares * (1.0 - 1e-9) - 1e-20 {
            best = found;
        }
    };
    for &cache in sets.iter().skip(1).rev().skip(1).rev() {
        consider(solve(form(Cache::At(cache)), to)?);
    }
    for ends in sets.windows(2) {
        let found = solve(form(Cache::From(ends[0])), to)?;
        let (miss, product) = (found.solution.values[MISS], found.solution.values[PRODUCT]);
        let both = [MISS, PRODUCT].iter().all(|j| found.solution.free.contains(j));
        if both && miss > 0.0 && (ends[0]..ends[1]).contains(&(product / miss)) {
            consider(found);
        }
    }
    Ok(best)
}

/// What is known of a fit's cache: its size, and why it was not solved for if it was not.
struct CacheFound {
    bytes: f64,
    held: Option<String>,
    open: bool,
}

fn cache_found(solved: &Solved, points: &[&Point], router: &Router) -> Option<CacheFound> {
    let Form::Batch { cache, .. } = solved.form else { return None };
    let held = |bytes, open, held: String| Some(CacheFound { bytes, held: Some(held), open });
    let bytes = match cache {
        Cache::From(_) => solved.solution.values[PRODUCT] / solved.solution.values[MISS],
        Cache::At(bytes) => bytes,
    };
    if solved.solution.values[MISS] == 0.0 {
        return held(0.0, true, "not determined, held at 0: miss_ns is 0, so nothing shows a cache".to_owned());
    }
    let mut above: Vec<f64> = points.iter().map(|p| Factor::WorkingSet.of(p, router)).filter(|w| *w > bytes).collect();
    above.sort_by(f64::total_cmp);
    above.dedup();
    let largest = above.last().copied().unwrap_or_default();
    if above.len() < 2 {
        let why = format!(
            "not determined, held at {bytes}: any size below {largest} fits as well with another miss_ns; measure at least \
             two working sets larger than the cache"
        );
        return held(bytes, true, why);
    }
    if cache == Cache::At(0.0) {
        return held(0.0, false, "would be negative, held at 0; the others were fitted again".to_owned());
    }
    // At a measured working set the size was tried, not solved for.
    if matches!(cache, Cache::At(_)) && points.len() <= solved.solution.free.len() {
        let why = format!("held at {bytes}, a measured working set that fits best: as many parameters as points");
        return held(bytes, true, why);
    }
    Some(CacheFound { bytes, held: None, open: false })
}

fn finish(kind: Kind, solved: Solved, points: &[&Point], router: &Router, notes: Vec<String>) -> Estimate {
    let cache = cache_found(&solved, points, router);
    let Solved { form, apart, solution } = solved;
    let model = form.model(&solution.values);
    let model = match (model, &cache) {
        (Model::Batch { miss_ns, .. }, Some(found)) => with_cache(model, miss_ns, found.bytes),
        (model, _) => model,
    };
    // From here on the cache has a size.
    let form = match (form, &cache) {
        (Form::Batch { per, .. }, Some(found)) => Form::Batch { per, cache: Cache::At(found.bytes) },
        (form, _) => form,
    };
    let free: Vec<usize> = solution.free.iter().copied().filter(|&j| j < form.terms().len()).collect();
    let with_cache = cache.as_ref().is_some_and(|found| found.held.is_none());
    let derivatives = derivatives(&form, &model, &free, with_cache, points, router);
    let Spread { errors, pulls, condition, .. } = spread(&derivatives);
    let parameters = model.parameters().into_iter().map(|(name, value)| {
        if let ("cache_bytes", Some(found)) = (name, &cache) {
            let spread = with_cache.then(|| errors[free.len()]);
            return Estimated { name, value, spread, held: found.held.clone(), open: found.open, suggested: None };
        }
        let j = form.terms().iter().position(|term| term.name == name).expect("each parameter is a term");
        let spread = free.iter().position(|&f| f == j).map(|column| errors[column]);
        let dropped = apart.dropped.iter().find(|(k, _)| *k == j);
        let held = match dropped {
            Some((_, partners)) => Some(missing::held(&form, j, partners, points, router)),
            None if spread.is_none() => Some("would be negative, held at 0; the others were fitted again".to_owned()),
            None => None,
        };
        Estimated { name, value, spread, held, open: dropped.is_some(), suggested: None }
    });
    let parameters = parameters.collect();
    let residuals = points.iter().map(|point| residual(kind, &model, point, router)).collect();
    Estimate { kind, model, parameters, notes, squares: solution.squares, residuals, pulls, condition }
}

fn with_cache(mut model: Model, miss: f64, bytes: f64) -> Model {
    if let Model::Batch { miss_ns, cache_bytes, .. } = &mut model {
        (*miss_ns, *cache_bytes) = (miss, bytes);
    }
    model
}

/// The relative error of what is fitted, from the model as everybody uses it.
fn residual(kind: Kind, model: &Model, point: &Point, router: &Router) -> f64 {
    let service =
        model.service(point.cores, point.two_way, Factor::WorkingSet.of(point, router), Factor::punted(point, router));
    let predicted = service.saturated_ns(point.frame_size, Factor::Burst.of(point, router) as u32);
    match kind {
        Kind::Eq7 => point.service_ns() / predicted - 1.0,
        Kind::Contention | Kind::Batch => predicted / point.service_ns() - 1.0,
    }
}

/// Derivatives of the relative errors by the free parameters, the cache's size the last one if it is free.
fn derivatives(
    form: &Form,
    model: &Model,
    free: &[usize],
    with_cache: bool,
    points: &[&Point],
    router: &Router,
) -> DMatrix<f64> {
    let mut rows = DMatrix::zeros(points.len(), free.len() + usize::from(with_cache));
    for (i, point) in points.iter().enumerate() {
        let (regressors, target) = (form.regressors(point, router), form.target(point));
        for (column, &j) in free.iter().enumerate() {
            rows[(i, column)] = regressors[j] / target;
        }
        let w = Factor::WorkingSet.of(point, router);
        if let (true, Model::Batch { miss_ns, cache_bytes, .. }) = (with_cache && w > 0.0, model) {
            rows[(i, free.len())] = if w > *cache_bytes { -miss_ns / w / target } else { 0.0 };
        }
    }
    rows
}

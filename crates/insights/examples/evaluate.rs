//! Evaluates series from standard input, for the comparison with SciPy, statsmodels, pymannkendall and
//! ruptures in `tests/e2e/insights.py`. One JSON object per line in, one out.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test program")]

use std::io::BufRead as _;

use insights::change_point::pelt;
use insights::correlation::correlation;
use insights::difference::{behaviour_effect, compare_periods};
use insights::discovery::adjust;
use insights::sample::{median, robust_deviation};
use insights::trend::{mann_kendall, trend};
use insights::{Day, Series};
use serde_json::{Value, json};

fn main() {
    for line in std::io::stdin().lock().lines() {
        let input: Value = serde_json::from_str(&line.unwrap()).unwrap();
        println!("{}", evaluate(&input));
    }
}

fn evaluate(input: &Value) -> Value {
    let (x, y) = (numbers(&input["x"]), numbers(&input["y"]));
    let (xs, ys) = (series(&x), series(&y));
    let points: Vec<(f64, f64)> = (1..).map(f64::from).zip(x.iter().copied()).collect();
    let test = mann_kendall(&points, 10);
    let correlation = correlation(&xs, &ys, 1).into_found();
    let effect = behaviour_effect(&xs, &series(&numbers(&input["yes"])), 0).into_found();
    let half = Day::from_number(i32::try_from(x.len() / 2).unwrap());
    let last = Day::from_number(i32::try_from(x.len()).unwrap());
    let periods =
        compare_periods(&xs, (half, last), (Day::from_number(0), half.plus(-1))).into_found();
    json!({
        "median": median(&x),
        "robust_deviation": robust_deviation(&x),
        "q": adjust(&numbers(&input["p"])),
        "mann_kendall": { "s": test.s, "variance": test.variance, "inflation": test.inflation, "z": test.z, "p": test.p, "tau": test.tau },
        "trend": trend(&xs).into_found(),
        "breaks": pelt(&x, input["penalty"].as_f64().unwrap(), 14),
        "correlation": correlation,
        "behaviour": effect,
        "periods": periods,
    })
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}

fn series(values: &[f64]) -> Series {
    Series::from_points((0..).map(Day::from_number).zip(values.iter().copied()))
}

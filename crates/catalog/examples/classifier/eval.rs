//! Accuracy, macro-F1, the confusion matrix and the two errors that matter most.

use std::fmt::Write as _;

use catalog::classify::{CLASSIFIER_VERSION, Category, classify};
use policy::json::{Bounds, Doc};
use serde_json::Value;

/// What the trainer measured with whole families left out.
const RECORDED: &str = include_str!("../../train/figures.json");

/// Rows: the label; columns: the answer.
type Matrix = [[u32; 5]; 5];

pub(crate) fn report(rows: &[Value]) -> String {
    let gold: Vec<&Value> = rows.iter().filter(|r| r["label_tier"] == "gold").collect();
    let recorded: Value = serde_json::from_str(RECORDED).unwrap();
    let unseen = &recorded["unseen_families"];
    let mut out = String::new();
    let _ = writeln!(out, "classifier {CLASSIFIER_VERSION}, {} weights\n", recorded["features"]);
    let _ = writeln!(
        out,
        "unseen servers: {} gold rows, whole families left out in turn (recorded by train/train.py)",
        unseen["rows"]
    );
    figures(&mut out, &matrix_of(&unseen["confusion"]));
    let _ = writeln!(
        out,
        "second label accepted: {}; of the misses called Read, {} have no second label Read\n",
        unseen["accuracy_with_second_labels"], unseen["of_those_without_second_label_read"]
    );
    let _ = writeln!(
        out,
        "this file, in sample: {} gold rows, answered by the shipped table, which learned from them",
        gold.len()
    );
    figures(&mut out, &answers(&gold));
    out
}

fn answers(rows: &[&Value]) -> Matrix {
    let mut matrix = Matrix::default();
    for row in rows {
        let tool = super::definition(row);
        let doc = Doc::read(tool.as_bytes(), &Bounds::ANSWER).unwrap();
        let answer = classify(row["server"].as_str().unwrap(), doc.root()).category;
        let label = Category::parse(row["label"].as_str().unwrap()).unwrap();
        matrix[label as usize][answer as usize] += 1;
    }
    matrix
}

fn matrix_of(recorded: &Value) -> Matrix {
    let mut matrix = Matrix::default();
    for (row, line) in matrix.iter_mut().zip(recorded.as_array().unwrap()) {
        for (cell, count) in row.iter_mut().zip(line.as_array().unwrap()) {
            *cell = u32::try_from(count.as_u64().unwrap()).unwrap();
        }
    }
    matrix
}

fn figures(out: &mut String, m: &Matrix) {
    let all: u32 = m.iter().flatten().sum();
    let right: u32 = (0..5).map(|c| m[c][c]).sum();
    let f1 = |c: usize| {
        let called: u32 = m.iter().map(|row| row[c]).sum();
        share(2 * m[c][c], m[c].iter().sum::<u32>() + called)
    };
    let macro_f1 = (0..5).map(f1).sum::<f64>() / 5.0;
    let non_read: u32 = m[1..].iter().flatten().sum();
    let missed: u32 = m[1..].iter().map(|row| row[0]).sum();
    let dangerous: u32 = m[2..].iter().flatten().sum();
    let caught: u32 = m[2..].iter().map(|row| row[2..].iter().sum::<u32>()).sum();
    let _ = writeln!(out, "  accuracy             {:.3}   target 0.88", share(right, all));
    let _ = writeln!(out, "  macro-F1             {macro_f1:.3}   target 0.85");
    let _ =
        writeln!(out, "  non-Read called Read {:.4}  target below 0.01", share(missed, non_read));
    let _ = writeln!(out, "  dangerous recall     {:.3}   target 0.95", share(caught, dangerous));
    let _ = writeln!(out, "\n  label        called: {}", heads());
    for (row, category) in m.iter().zip(Category::ALL) {
        let cells: Vec<String> = row.iter().map(|n| format!("{n:>13}")).collect();
        let f1 = f1(category as usize);
        let _ = writeln!(out, "  {:<18}{}   F1 {f1:.2}", category.as_str(), cells.concat());
    }
    out.push('\n');
}

fn heads() -> String {
    let heads: Vec<String> = Category::ALL.iter().map(|c| format!("{:>13}", c.as_str())).collect();
    heads.concat().split_off(5)
}

fn share(part: u32, whole: u32) -> f64 {
    f64::from(part) / f64::from(whole.max(1))
}

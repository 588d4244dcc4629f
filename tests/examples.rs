//! The examples: those in Rust run, and the others are well-formed.

#![allow(clippy::unwrap_used)] // a panic says where

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[path = "support/syntax.rs"]
mod syntax;

/// Returns every file under a folder whose name has one of these endings.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if path.is_dir() {
            found.extend(files(&path, endings));
        } else if ending.is_some_and(|ending| endings.contains(&ending)) {
            found.push(path);
        }
    }
    found
}

fn examples(endings: &[&str]) -> Vec<PathBuf> {
    let found = files(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("examples"),
        endings,
    );
    assert!(!found.is_empty(), "{endings:?}");
    found
}

/// `cargo test` builds the examples, but `cargo test --test examples` alone does not.
#[test]
fn rust_examples_run() {
    let here = std::env::current_exe().unwrap();
    let folder = here.ancestors().nth(2).unwrap().join("examples");
    for example in examples(&["rs"]) {
        let name = example.file_stem().unwrap().to_str().unwrap();
        let built = folder.join(name);
        if !built.is_file() {
            println!("not tried: example {name} is not built");
            continue;
        }
        let run = Command::new(built).output().unwrap();
        assert!(run.status.success(), "{name}: {run:?}");
    }
}

#[test]
fn other_examples_are_well_formed() {
    for ending in ["py", "js", "mjs", "java", "go"] {
        examples(&[ending])
            .iter()
            .for_each(|file| syntax::check(file));
    }
}

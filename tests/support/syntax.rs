//! Checks whether a file in another language is well-formed, as far as the tools of this machine allow.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

struct Checker {
    /// The file extension of the language.
    ending: &'static str,
    program: &'static str,
    arguments: &'static [&'static str],
}

const CHECKERS: &[Checker] = &[
    Checker {
        ending: "py",
        program: "python3",
        arguments: &["-m", "py_compile"],
    },
    Checker {
        ending: "js",
        program: "node",
        arguments: &["--check"],
    },
    Checker {
        ending: "mjs",
        program: "node",
        arguments: &["--check"],
    },
    Checker {
        ending: "go",
        program: "gofmt",
        arguments: &["-e", "-l"],
    },
    // Stops after parsing, because the libraries that a file imports are not installed.
    Checker {
        ending: "java",
        program: "javac",
        arguments: &["-XDshould-stop.ifNoError=PARSE", "-proc:none"],
    },
];

/// Fails if the file is not well-formed. If the tool for it is missing, reports that the file was not checked.
pub fn check(file: &Path) {
    let ending = file.extension().and_then(|ending| ending.to_str());
    let checker = CHECKERS
        .iter()
        .find(|checker| ending == Some(checker.ending))
        .unwrap_or_else(|| panic!("{}: nothing checks such files", file.display()));
    let run = Command::new(checker.program)
        .args(checker.arguments)
        .arg(file)
        // Compiled Python goes here and not beside the source.
        .env("PYTHONPYCACHEPREFIX", env!("CARGO_TARGET_TMPDIR"))
        .output();
    match run {
        // gofmt prints the names of files that are not formatted.
        Ok(run) => assert!(
            run.status.success() && run.stdout.is_empty(),
            "{}: {}{}",
            file.display(),
            String::from_utf8_lossy(&run.stdout),
            String::from_utf8_lossy(&run.stderr)
        ),
        Err(problem) if problem.kind() == ErrorKind::NotFound => {
            println!(
                "not checked: {}, there is no {}",
                file.display(),
                checker.program
            );
        }
        Err(problem) => panic!("{}: {problem}", checker.program),
    }
}

//! What the operating system reports about itself and this process. Missing values get plain defaults.

use std::fs;

pub fn cores() -> i32 {
    std::thread::available_parallelism().map_or(1, |n| i32::try_from(n.get()).unwrap_or(1))
}

pub fn host_name() -> String {
    read("/proc/sys/kernel/hostname").unwrap_or_else(|| "localhost".into())
}

pub fn os_type() -> &'static str {
    match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Darwin",
        "windows" => "Windows",
        other => other,
    }
}

pub fn kernel() -> String {
    read("/proc/sys/kernel/osrelease").unwrap_or_default()
}

pub fn total_memory_mb() -> i64 {
    kilobytes("/proc/meminfo", "MemTotal:").map_or(1024, |kb| kb / 1024)
}

/// Returns the (resident, virtual) memory of this process, in MB.
pub fn memory_mb() -> (i64, i64) {
    let of = |key| kilobytes("/proc/self/status", key).map_or(1, |kb| (kb / 1024).max(1));
    (of("VmRSS:"), of("VmSize:"))
}

fn kilobytes(file: &str, key: &str) -> Option<i64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn read(file: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

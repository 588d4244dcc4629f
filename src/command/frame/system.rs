//! What the operating system reports about itself and this process. Missing values get plain defaults.

use std::fs;

/// The usual size of a page of memory. Few systems have larger ones.
pub const PAGE: i64 = 4096;

/// The C library that the program was built for.
pub const C_LIBRARY: &str = match cfg!(target_env = "musl") {
    true => "musl",
    false => "glibc",
};

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

/// Returns the version of the kernel and how it was built.
pub fn kernel_build() -> String {
    read("/proc/version").unwrap_or_else(kernel)
}

/// Returns what the kernel tells of the first processor under this key.
pub fn processor(key: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Returns how many files and sockets this process may have open.
pub fn max_open_files() -> i64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    soft.unwrap_or(i64::MAX)
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

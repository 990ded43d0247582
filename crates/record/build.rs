//! Compiles the programs of the kernel recorder and of the profile with clang, if the feature `bpf` is on.

#[path = "build_preload.rs"]
mod build_preload;

use std::path::PathBuf;
use std::process::Command;

fn main() {
    build_preload::compile();
    println!("cargo:rerun-if-changed=bpf");
    if std::env::var_os("CARGO_FEATURE_BPF").is_some() {
        compile("recorder");
        compile("profile");
    }
}

/// clang builds one object for the target architecture; the loader relocates its accesses to the running kernel's
/// structures.
fn compile(name: &str) {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join(format!("{name}.bpf.o"));
    let source = format!("bpf/{name}.bpf.c");
    let machine = std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets CARGO_CFG_TARGET_ARCH");
    let (target, triplet) = match machine.as_str() {
        "x86_64" => ("x86", "x86_64-linux-gnu"),
        "aarch64" => ("arm64", "aarch64-linux-gnu"),
        other => panic!("the kernel recorder knows x86-64 and aarch64, not {other}: build with --no-default-features"),
    };
    let headers = std::env::var("DEP_BPF_INCLUDE").expect("libbpf-sys says where its headers are");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    println!("cargo:rerun-if-env-changed=CLANG");
    println!("cargo:rerun-if-env-changed=BPF_CFLAGS");
    let more = std::env::var("BPF_CFLAGS").unwrap_or_default();
    let status = Command::new(&clang)
        .args(["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror"])
        .arg(format!("-D__TARGET_ARCH_{target}"))
        .args(more.split_whitespace())
        .args([format!("-I{headers}"), format!("-I/usr/include/{triplet}")])
        .args(["-c", &source, "-o"])
        .arg(&out)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile {source} ({status})"),
        Err(error) => panic!("{clang} cannot be run ({error}): install clang, or build with --no-default-features"),
    }
}

//! Compiles the preloaded library. Rust's linker needs a C compiler, so there is one.

use std::path::PathBuf;
use std::process::Command;

const SOURCES: [&str; 10] =
    ["core.c", "ring.c", "calls.c", "environment.c", "confine.c", "objects.c", "looks.c", "io.c", "waits.c", "process.c"];

/// Builds `preload.so` in the output directory.
pub fn compile() {
    println!("cargo:rerun-if-changed=preload");
    println!("cargo:rerun-if-changed=build_preload.rs");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("preload.so");
    let compiler = compiler();
    let status = Command::new(&compiler)
        .args(["-shared", "-fPIC", "-O2", "-std=gnu11", "-fvisibility=hidden", "-fno-builtin", "-Wall", "-Wextra", "-Werror"])
        // Our library wraps the checked variants of functions, and must not call them by mistake.
        .args(["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=0", "-Wno-attribute-alias", "-Wno-nonnull-compare", "-Wl,-z,now"])
        // Programs pass null pointers where headers promise that none comes: the checks for them stay.
        .args(["-fno-delete-null-pointer-checks", "-Wno-tautological-pointer-compare"])
        // Old C libraries define some of the wrapped functions in their headers, to be inlined.
        .arg("-D__NO_INLINE__")
        // Compilers differ in the warnings they know. The library is read by no debugger.
        .args(["-Wno-unknown-warning-option", "-s"])
        .args(SOURCES.map(|source| format!("preload/{source}")))
        .arg("-o")
        .arg(&out)
        .arg("-ldl")
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => {
            panic!("{compiler} could not compile the library in preload/ ({status}): install the C library's headers (libc6-dev)")
        }
        Err(error) => panic!("{compiler} cannot be run ({error}): install a C compiler, or name one in CC"),
    }
}

/// Returns the C compiler for the target: `CC_TARGET`, as the crates that compile C read it, or `CC`, or `cc`.
fn compiler() -> String {
    let target = std::env::var("TARGET").expect("cargo sets TARGET").replace('-', "_");
    let names = [format!("CC_{target}"), "CC".to_owned()];
    names.iter().for_each(|name| println!("cargo:rerun-if-env-changed={name}"));
    names.iter().find_map(|name| std::env::var(name).ok()).unwrap_or_else(|| "cc".to_owned())
}

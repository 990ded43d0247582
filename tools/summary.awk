# Reads the output of `cargo test -- --show-output`; prints failures, skipped tests and one line per suite; appends to the file
# `counts` a line `suite passed failed skipped seconds` for each.
# A suite is one test program; the end-to-end program counts as one suite per module.

function flush_suite(   name) {
    for (name in seen) {
        printf "%s %d %d %d %d\n", name, passed[name], failed[name], skipped[name], seconds >>counts
        delete passed[name]; delete failed[name]; delete skipped[name]
    }
    split("", seen); split("", state); split("", why)
    open = 0
}

function suite_of(test,   parts) {
    if (program ~ /end-to-end/ && split(test, parts, "::") > 1) return program "::" parts[1]
    return program
}

/^ *Running / || /^ *Doc-tests / {
    program = $0
    if ($1 == "Doc-tests") {
        program = "doc-" $2
    } else {
        # Running unittests src/lib.rs (target/debug/deps/thalweg_layout-0123456789abcdef)
        crate = $0; sub(/.*\/deps\//, "", crate); sub(/-[0-9a-f]*\)$/, "", crate); sub(/^thalweg_/, "", crate); gsub(/_/, "-", crate)
        program = crate
    }
    section = ""
    next
}

/^running [0-9]+ test/ { open = 1; section = ""; next }

/^test .* \.\.\. / && !/^test result:/ {
    test = $2
    outcome = $0; sub(/.* \.\.\. /, "", outcome)
    if (outcome ~ /^ok/) state[test] = "passed"
    else if (outcome ~ /^ignored/) { state[test] = "skipped" }
    else if (outcome ~ /^FAILED/) state[test] = "failed"
    next
}

/^test result:/ {
    seconds = $0; sub(/.*finished in /, "", seconds); seconds = int(seconds + 0.5)
    for (test in state) {
        name = suite_of(test); seen[name] = 1
        if (state[test] == "passed") passed[name]++
        else if (state[test] == "failed") failed[name]++
        else skipped[name]++
    }
    if (open) { printf "%-40s %s\n", program, $0; fflush() }
    flush_suite()
    section = ""
    next
}

# Sections: `---- name stdout ----` in the lists of successes and failures.
/^---- .* stdout ----$/ { section = $2; if (state[section] == "failed") print; next }
/^(successes|failures):$/ { section = ""; next }

section != "" && /SKIPPED:/ && state[section] == "passed" {
    state[section] = "skipped"
    text = $0; sub(/.*SKIPPED: */, "", text)
    printf "SKIPPED: %s: %s\n", section, text
    next
}
section != "" && state[section] == "failed" { print; next }

# A test program that died.
/^error: test failed/ || /^error: [0-9]+ target/ { section = ""; next }
/process didn't exit successfully/ && /signal/ {
    print
    printf "%s 0 1 0 0\n", program >>counts
    flush_suite()
}

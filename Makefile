# The two commands to know: `make demo` shows what Thalweg is for, `make test` says whether it works.
# Everything is done by the scripts in tools/; this file only names them.

.PHONY: help demo dist dist-check gallery site test test-long fuzz shuttle lint bench bench-quick bench-recording bench-layout bench-ls bench-metadata bench-backup bench-explain bench-profile bench-study scale studies lab corpus corpus-record fleet gates build release mpi setup clean

help:           ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo:           ## explain a slow copy into an emulated store, make the change, hold the prediction against the outcome (FILE=...)
	@tools/demo

gallery:        ## explain and draw the kept recordings again: docs/gallery, and pages to explore in target/gallery (RECORD='NAME ...': record these anew first, as root)
	@tools/build --release
	@$(if $(RECORD),tools/setup lab && tools/setup mpi && tools/cargo build --locked --release --quiet -p thalweg-relay && tools/cargo build --locked --quiet -p thalweg-explain --example fixture && $(MAKE) -s -C lab && $(MAKE) -s -C mpi)
	@lab/gallery/run $(if $(RECORD),--record $(RECORD))

site:           ## the pages as a site with a search, to be read from disk: target/site (installs mdBook in target/tools, once; 5 minutes)
	@tools/site/run

test:           ## every suite; the last line is `N passed, N failed, N skipped`
	@tools/test

test-long:      ## the same with property tests and hostile messages many times as many, and a directory of a million files (minutes to an hour)
	@THALWEG_TEST_WEB=1 THALWEG_TEST_ENTRIES=$${THALWEG_TEST_ENTRIES:-1000000} THALWEG_TEST_MESSAGES=$${THALWEG_TEST_MESSAGES:-200000} LAYOUT_CASES=$${LAYOUT_CASES:-20} PROPTEST_CASES=$${PROPTEST_CASES:-5000} tools/test

fuzz:           ## readers of captures, RPCs and recordings on bytes that are nearly right; minutes (SECONDS_EACH=60)
	@tools/cargo run --quiet -p thalweg-fuzz -- --seconds $${SECONDS_EACH:-60}

shuttle:        ## group commit, locks and write-behind under a model checker, each test with SCHEDULES of both kinds (20,000; half an hour; SEED=N for others)
	@THALWEG_SCHEDULES=$(or $(SCHEDULES),20000) THALWEG_SCHEDULE_SEED=$(or $(SEED),1) tools/schedules

lint:           ## formatting and clippy, warnings are errors
	@tools/lint

bench:          ## side by side with the raw hardware and with peers; long; writes bench/results.jsonl and docs/results/BENCH.md
	@tools/setup bench && tools/build --release && bench/run

bench-quick:    ## the same with fewer pairs
	@tools/setup bench && tools/build --release && bench/run --quick

bench-recording: ## what recording costs, to within one per cent (root; about 45 minutes, which `bench/run --resume` goes on with; a quiet machine); writes bench/results.jsonl and docs/results/BENCH.md
	@tools/setup bench && tools/build --release && bench/run --dir /dev/shm --only watch-c watch-python watch-cp watch-nfs watch-gridftp watch-store watch-pipeline watch-filters watch-pipeline-pinned watch-filters-pinned watch-bystander user-c user-python user-cp user-gridftp user-pipeline user-filters user-bystander

bench-layout:   ## what each layout gives, on nodes with disks and links of known rates (root; long); writes bench/studies.jsonl and docs/results/LAYOUT-BENCH.md
	@tools/setup bench && tools/setup lab && tools/setup mpi && tools/build --release && $(MAKE) -s -C lab && bench/layout

bench-ls:       ## what a listing costs with each mechanism, at round trips of 0 to 10 ms, beside NFS (root; long); writes bench/studies.jsonl and docs/results/LS-BENCH.md
	@tools/setup bench && tools/setup lab && tools/build --release && tools/cargo build --locked --release --quiet -p thalweg-relay && $(MAKE) -s -C lab && bench/ls

bench-metadata: ## names in PostgreSQL against names in redb, for 1 million entries (ENTRIES=N for others; 10 minutes; a quiet machine); prints what docs/results/MEASURED.md has
	@tools/setup test && tools/cargo run --locked --release --quiet -p thalweg-store --example databases -- $(or $(ENTRIES),1000000)

bench-backup:   ## a backup of 1 million names while eight clients make names, and its restore (NAMES=N for others; 3 minutes; a quiet machine)
	@tools/setup test && tools/cargo run --locked --release --quiet -p thalweg-store --example backup -- $(or $(NAMES),1000000)

bench-explain:  ## how many spans one core reads and explains in a second, of a made-up recording (SPANS=N, 5 million; 2 minutes; a quiet machine)
	@made=$$(mktemp -d -p $${TMPDIR:-/dev/shm}) && trap 'rm -r '$$made EXIT && tools/cargo run --locked --release --quiet -p thalweg-trace --example generate -- --spans $(or $(SPANS),5000000) $$made/made.thw && tools/cargo run --locked --release --quiet -p thalweg-explain --example explain_speed -- $$made/made.thw --passes 3 && tools/cargo run --locked --release --quiet -p thalweg-report --example page_speed -- $$made/made.thw

bench-profile:  ## profiles beside perf and beside programs that count themselves, and what they cost (root; 12 minutes; a quiet machine); writes docs/results/PROFILE.md
	@tools/setup bench && tools/build --release && bench/profile/run

studies:        ## the five classic studies made again: the next shard of STUDY=NAME (root; at most 25 minutes; a quiet machine); writes docs/results/STUDIES.md
	@tools/setup bench && tools/setup lab && tools/setup mpi && tools/build --release && tools/cargo build --locked --release --quiet -p thalweg-relay && $(MAKE) -s -C lab && $(MAKE) -s -C mpi && bench/studies $(if $(STUDY),--only $(STUDY) --shard next,--list)

bench-study:    ## the GridFTP study of 2004 made again, with sweeps: the next shard (root; 1 to 8 minutes; a quiet machine; SHARD=NAME for one); writes docs/results/STUDY-2004.md
	@tools/setup bench && tools/setup lab && tools/build --release && tools/cargo build --locked --release --quiet -p thalweg-relay && $(MAKE) -s -C lab && bench/study-2004/run $(if $(SHARD),--only $(SHARD),--shard next)

scale:          ## storms of many clients, on real servers and simulated for a site of a thousand (20 minutes; it goes on where it was; a quiet machine); writes docs/results/SCALE.md
	@tools/setup test && bench/scale/run --resume

lab:            ## faults with known causes, and what explain says of them (root; the shard whose results are oldest, at most 25 minutes; LAB='NAME ...' for some); writes docs/results/LAB.md
	@tools/setup lab && tools/build --release && tools/cargo build --locked --release --quiet -p thalweg-relay && $(MAKE) -s -C lab && lab/run $(if $(LAB),--only $(LAB),--shard next)

corpus:         ## explain the lab's recordings again, and say which answers changed (CORPUS=--accept: they are expected from now on)
	@tools/build --release && lab/corpus/score $(CORPUS)

corpus-record:  ## record the lab's scenarios anew (root; 11 minutes; a quiet machine; it goes on where it was; CORPUS='NAME ...' for some), and pack the recordings
	@tools/setup lab && tools/build --release && tools/cargo build --locked --release --quiet -p thalweg-relay && tools/cargo build --locked --quiet -p thalweg-explain --example fixture && $(MAKE) -s -C lab && { lab/corpus/record $(CORPUS) || echo "corpus: packing what was recorded" >&2; } && lab/corpus/make

fleet:          ## a thousand recordings explained into one table by processes, Dask and Spark, and the questions to it (FLEET=N; minutes; installs Spark, 400 MB)
	@tools/setup fleet && tools/build --release && python/tests/run --spark --recordings $${FLEET:-1000} test_fleet test_questions

gates:          ## other people's programs on a mounted store (long; GATES='NAME ...' for some, FSX_SECONDS=N); writes docs/results/GATES.md
	@tools/setup gates && tools/build --release && gates/run $(if $(GATES),--only $(GATES))

build:          ## the command for development: target/debug/thalweg
	@tools/build

release:        ## the command for use: target/release/thalweg
	@tools/build --release

dist:           ## what a release consists of: a tarball, .deb, .rpm and wheel for x86_64 and aarch64 that need glibc 2.17 and nothing else, in target/dist (half an hour)
	@dist/run

dist-check:     ## install, use and remove each package in bare Debian systems (root; after `make dist`)
	@tools/setup dist
	@testbed/test dist

mpi:            ## the library for MPI programs, once for each MPI that is here: mpi/build/
	@tools/setup mpi && $(MAKE) -s -C mpi

setup:          ## install from Debian packages what is missing (as root; else say what is left out)
	@tools/setup

clean:          ## remove what was built
	@tools/cargo clean

# Shortcuts. Nothing needs them: the README's commands are plain cargo.

# Lists the recipes.
default:
    @just --list

# The README's test command.
test:
    cargo test --workspace

# All that a change must pass.
ci:
    bash .ci/run

# A turn that is killed and resumed before your eyes.
demo *args:
    cargo run -q -p surestep-cli -- demo {{args}}

# The scratch repository that fixtures/plans/contribute.json works on: a clone, a bare remote that logs its landings.
scratch folder="target/scratch":
    @test ! -e {{quote(folder / "remote.git")}} || { echo "{{folder}} has one already: remove it, or name another folder" >&2; exit 1; }
    sh tests/scratch.sh {{quote(folder)}}
    @echo 'made {{folder}}; now: cd {{folder}} && surestep run {{justfile_directory()}}/fixtures/plans/contribute.json'

# The kill sweeps at length: so many runs, each killed up to three times at random, and all pairs of boundaries.
kill-sweep runs="2000":
    SURESTEP_KILL_RUNS={{runs}} SURESTEP_PAIR_SHARE=1 SURESTEP_ALL_PAIRS=1 cargo test --release -p surestep-tests --test e2e kill_ -- --nocapture

# Every history of the core with one fault more than CI enumerates: many minutes.
exhaustive:
    SURESTEP_DEEP=1 cargo test --release -p surestep-core --test exhaustive every_longer -- --nocapture

# Fuzzes one parser (reader, plan, commit, envelope, side), or all of them two at a time, each so many seconds.
fuzz target="" seconds="60":
    FUZZ_SECONDS={{seconds}} tests/fuzz/run {{target}}

# Writes fixtures/schemas anew, from the types.
schemas:
    SURESTEP_WRITE_SCHEMAS=1 cargo test -q -p surestep-cli --bin surestep schema

# Stores and envelopes as this build writes them, into a new folder: a checked-in set is never rewritten.
fixtures folder:
    SURESTEP_NEW_FIXTURES={{quote(absolute_path(folder))}} cargo test -q -p surestep-tests --test e2e fixtures::a_new_set

# What growth costs: bytes a commit, reopening, and a collection of so many sessions.
growth operations="2000" sessions="10000":
    cargo run --release -p surestep-file --example growth {{operations}} {{sessions}}

fmt:
    cargo fmt --all

lint:
    cargo clippy --workspace --all-targets -- -D warnings

# The library's pages, warnings as errors.
docs:
    RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps

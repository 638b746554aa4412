#!/usr/bin/env bash
# Builds the Rust suite (crate scylla) into .tools/rust with the versions of Cargo.lock. The first build takes some minutes.
. "$(dirname "$0")/lib.sh"
src=$root/integration/drivers/rust
need cargo "Rust 1.80 or later"
export CARGO_TARGET_DIR=$tools/rust
exec cargo build --quiet --locked --manifest-path "$src/Cargo.toml"

//go:build invariants

package invariant

// Enabled reports whether expensive invariants are checked.
const Enabled = true

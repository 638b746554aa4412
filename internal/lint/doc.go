// Package lint holds the architecture as tests: which room may import which, who owns which
// library, what the core may not touch, and how large files and functions may grow.
//
// It checks what no general linter can know. Formatting and vet are the Makefile's.
package lint

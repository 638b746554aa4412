// Package lint tests the architecture: which packages may import which, which package owns each third-party library,
// what the core packages must not use, and the sizes of files and functions.
//
// It checks what general linters cannot know. The Makefile runs gofmt and vet.
package lint

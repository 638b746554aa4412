package main

import (
	"fmt"

	"cqld/internal/release"
)

type versionCommand struct{}

// Run prints the version, the commit and its date, and the Go version of this binary. A build from a source archive has
// all of them; other builds without version control know only the version.
func (versionCommand) Run() error {
	fmt.Println(release.Line())
	return nil
}

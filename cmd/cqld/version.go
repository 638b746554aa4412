package main

import (
	"fmt"

	"cqld/internal/release"
)

type versionCommand struct{}

// Run prints the version, the commit and its date, and the Go version of this binary. A build from an archive of the
// source states them, too; one from other copies of the source knows only the version.
func (versionCommand) Run() error {
	fmt.Println(release.Line())
	return nil
}

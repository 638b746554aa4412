package main

import (
	"fmt"
	"runtime/debug"
)

type versionCommand struct{}

// Run prints the revision and the Go version of this binary. The revision is recorded by the Go tool when it builds in
// a repository, and unknown otherwise.
func (versionCommand) Run() error {
	revision, modified := "unknown", ""
	// A build without modules has no information at all.
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				revision = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				modified = " with changes"
			}
		}
		fmt.Printf("cqld, revision %s%s, %s\n", revision, modified, info.GoVersion)
		return nil
	}
	fmt.Println("cqld, revision unknown")
	return nil
}

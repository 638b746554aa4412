// Package release says which release of cqld this program is, and from which commit it was built.
package release

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// Version is the version of the release that this source becomes. It ends with -dev except in the commit of a release
// (CONTRIBUTING.md, "Make a release").
const Version = "0.1.0-dev"

// archived contains the commit and its time in archives that git or a forge makes of the source: .gitattributes lets
// git replace the part between the dollar signs. In a working tree it stays as it is.
const archived = "$Format:%H %cI$"

// unknown replaces what was not recorded when the program was built.
const unknown = "unknown"

// Commit is the commit from which a program was built.
type Commit struct {
	Revision string // unknown if nothing recorded it
	Time     string // RFC 3339
	Modified bool   // the working tree had changes
}

// Built returns the commit from which this program was built: as the Go tool recorded it, or as an archive of the
// source states it.
func Built() Commit { return built() }

var built = sync.OnceValue(func() Commit {
	var settings []debug.BuildSetting
	if info, ok := debug.ReadBuildInfo(); ok {
		settings = info.Settings
	}
	return commitOf(settings, archived)
})

// commitOf returns the commit that the settings of a build name, or else the text of an archive.
func commitOf(settings []debug.BuildSetting, archived string) Commit {
	c := Commit{Revision: unknown, Time: unknown}
	// An archive has no repository, so both sources never name different commits.
	if revision, at, ok := strings.Cut(archived, " "); ok && !strings.HasPrefix(revision, "$") {
		c.Revision, c.Time = revision, at
	}
	for _, s := range settings {
		switch s.Key {
		case "vcs.revision":
			c.Revision = s.Value
		case "vcs.time":
			c.Time = s.Value
		case "vcs.modified":
			c.Modified = s.Value == "true"
		}
	}
	return c
}

// String describes the commit in one line.
func (c Commit) String() string {
	changed := ""
	if c.Modified {
		changed = " with changes"
	}
	return fmt.Sprintf("commit %s%s, %s", c.Revision, changed, c.Time)
}

// Line describes this program in one line: version, commit, date, Go version and system.
func Line() string {
	return fmt.Sprintf("cqld %s, %v, %s %s/%s", Version, Built(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Build identifies this program in tables and between nodes, so that an operator sees which nodes run another one: the
// version and the first digits of the commit, such as 0.1.0+1f0c2b3a4d5e, in the form of semantic versions.
func Build() string { return build(Built()) }

func build(c Commit) string {
	if c.Revision == unknown {
		return Version
	}
	// 12 digits are unambiguous and short enough for tables.
	text := Version + "+" + c.Revision[:min(len(c.Revision), 12)]
	if c.Modified {
		text += ".modified"
	}
	return text
}

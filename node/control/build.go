package control

import (
	"runtime/debug"
	"sync"
)

// Build returns the revision from which this program was built, with a plus sign if the tree had changes. It is
// "unknown" if the Go tool did not record a revision. Nodes exchange it, so that an operator sees mixed versions.
func Build() string { return build() }

var build = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	revision, changed := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			// 12 digits are unambiguous and short enough for tables.
			revision = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+"
		}
	}
	return revision + changed
})

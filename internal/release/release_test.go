package release

import (
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

// TestCommitOf reads the commit of a build in a repository, of one from an archive, and of one without either.
func TestCommitOf(t *testing.T) {
	const hash = "1f0c2b3a4d5e6f708192a3b4c5d6e7f801234567"
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: hash}, {Key: "vcs.time", Value: "2026-11-30T12:00:00Z"},
		{Key: "vcs.modified", Value: "true"}}
	for _, c := range []struct {
		name        string
		settings    []debug.BuildSetting
		archived    string
		line, build string
	}{
		{"repository", vcs, archived, "commit " + hash + " with changes, 2026-11-30T12:00:00Z",
			Version + "+1f0c2b3a4d5e.modified"},
		{"archive", nil, hash + " 2026-11-30T13:00:00+01:00", "commit " + hash + ", 2026-11-30T13:00:00+01:00",
			Version + "+1f0c2b3a4d5e"},
		{"neither", nil, archived, "commit unknown, unknown", Version},
	} {
		got := commitOf(c.settings, c.archived)
		if got.String() != c.line || build(got) != c.build {
			t.Errorf("%s: %q and %q", c.name, got, build(got))
		}
	}
	if !strings.HasPrefix(Line(), "cqld "+Version+", commit ") {
		t.Errorf("the line is %q", Line())
	}
	if !regexp.MustCompile(`^\d+\.\d+\.\d+(-dev)?$`).MatchString(Version) {
		t.Errorf("the version is %q", Version)
	}
}

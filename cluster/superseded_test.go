package cluster

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/cluster/metadata"
)

// TestSupersededNodeStops notifies nodes that their cluster continues without them: a member stops, a starting member
// does not join, and a node that is not a member yet ignores the notice.
func TestSupersededNodeStops(t *testing.T) {
	isNotice := func(err error) bool {
		var refused *metadata.Refused
		return errors.As(err, &refused) && refused.Reason == "notice"
	}
	c, fatal := forgedVoter(t)
	var ended error
	c.joining = &joining{c: c, done: func(err error) { ended = err }}
	c.Superseded("notice")
	if !isNotice(ended) || c.joining != nil || *fatal != nil {
		t.Errorf("a node that starts: %v, fatal: %v", ended, *fatal)
	}
	c.Superseded("notice")
	if !isNotice(*fatal) {
		t.Errorf("a member: %v", *fatal)
	}

	*fatal = nil
	c, err := Open(Options{Name: "test", Dir: "raft", FS: vfs.NewMem(), Network: silentNetwork{}, Clock: &idleClock{},
		Rand: rand.New(rand.NewPCG(1, 1)), Logger: slog.New(slog.DiscardHandler), ReplicationFactor: 3,
		Fatal: func(err error) { *fatal = err }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	c.opts.Post = func(f func()) { f() }
	c.Superseded("notice")
	if *fatal != nil {
		t.Errorf("no member: %v", *fatal)
	}
}

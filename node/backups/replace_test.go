package backups

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cqld/backup"
	"cqld/messaging"
	"cqld/ring"
	"cqld/schema"
)

// TestReplacementsWaitForIndexes replaces tables on nodes that build indexes for a while. The change of the schema
// comes after the last of them, once, and not if a node fails.
func TestReplacementsWaitForIndexes(t *testing.T) {
	const building = 3 * time.Second
	for want, of := range map[string]struct {
		err   error
		grace time.Duration
	}{
		"":                 {grace: time.Hour},
		"a table is gone":  {err: &messaging.RemoteError{Message: "a table is gone"}},
		"no reply in time": {err: messaging.ErrTimeout},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			l := ringOf(t.Context(), func(node ring.NodeID, r *Request) (Reply, error) {
				if r.Step != Build && r.Step != Poll {
					t.Errorf("step %s", r.Step)
				}
				if r.Step == Build && (len(r.Rows) != 1 || r.Rows[0].Name != "t") {
					t.Errorf("rows %+v", r.Rows)
				}
				if node == 3 && time.Since(began) > time.Second && of.err != nil {
					return Reply{}, of.err
				}
				return Reply{Running: node == 3 && time.Since(began) < building}, nil
			}, 2, 3)
			var changes []schema.Change
			l.n.o.DropGrace = func() time.Duration { return of.grace }
			l.n.o.ProposeSchema = func(_ context.Context, c schema.Change) error {
				if time.Since(began) < building {
					t.Errorf("replaced after %v", time.Since(began))
				}
				changes = append(changes, c)
				return nil
			}
			p := &Planned{Replacement: &schema.ReplaceTables{Tables: []schema.Replacement{{Table: "t"}}}}
			err := l.replace(t.Context(), p, Request{Rows: []Source{{Keyspace: "k", Name: "t"}}},
				func(int64, int64, string) {})
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
			if err != nil {
				if len(changes) != 0 {
					t.Errorf("%+v after %v", changes, err)
				}
				return
			}
			now := time.Now().Unix()
			c, ok := changes[0].(*schema.ReplaceTables)
			if len(changes) != 1 || !ok || c.Retention == nil ||
				*c.Retention != (schema.Retention{Dropped: now, Until: now + 3600}) || p.Replacement.Retention != nil {
				t.Errorf("%+v of %+v", changes, p.Replacement)
			}
		})
	}
}

// TestRowsAreReadOnce decides whether an attempt reads rows: not after one that has read all, unless a table is
// missing.
func TestRowsAreReadOnce(t *testing.T) {
	targets := []backup.Target{{Name: "t"}}
	created := []schema.Change{&schema.CreateType{}, &schema.CreateTable{}}
	pending := &schema.ReplaceTables{}
	beside, replacing, loaded := Restoration{}, Restoration{Replace: true}, Restoration{Replace: true, Loaded: true}
	for what, of := range map[string]struct {
		r           Restoration
		changes     []schema.Change
		replacement *schema.ReplaceTables
		want        bool
	}{
		"beside":              {beside, created, nil, true},
		"beside, resumed":     {beside, nil, nil, true},
		"replacing":           {replacing, created, pending, true},
		"replacing, resumed":  {replacing, nil, pending, true},
		"all rows are there":  {loaded, created[:1], pending, false},
		"a table was dropped": {loaded, created, pending, true},
		"replaced":            {loaded, nil, nil, false},
		"replaced, not noted": {replacing, nil, nil, false},
	} {
		p := Planned{Targets: targets, Changes: of.changes, Replacement: of.replacement}
		if got := p.loads(&of.r); got != of.want {
			t.Errorf("%s: %v", what, got)
		}
	}
	if (&Planned{}).loads(&beside) {
		t.Error("rows of no table are read")
	}
}

package query

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"cqld/cql"
	"cqld/query/invalid"
	"cqld/ring"
)

// TestTimestampsInTheFarFutureAreRefused in a statement, in a request and in a batch.
func TestTimestampsInTheFarFutureAreRefused(t *testing.T) {
	p, s := newProcessorWith(t, &modelStore{}, func(o *Options) { o.Limits.TimestampAheadMax = time.Minute },
		"CREATE TABLE t (k int PRIMARY KEY, v int)")
	now := time.Unix(1700000000, 0).UnixMicro()
	for _, c := range []struct {
		ahead   time.Duration
		refused bool
	}{{0, false}, {30 * time.Second, false}, {time.Minute + time.Second, true}, {24 * time.Hour, true},
		{-24 * time.Hour, false}} {
		stamp := now + c.ahead.Microseconds()
		insert := "INSERT INTO t (k, v) VALUES (1, 1)"
		inText := fmt.Sprintf("%s USING TIMESTAMP %d", insert, stamp)
		_, text := p.Query(at(ring.One), s, inText, &Params{})
		_, request := p.Query(at(ring.One), s, insert, &Params{HasTimestamp: true, Timestamp: stamp})
		_, batch := p.Batch(at(ring.One), s, &BatchParams{Kind: cql.BatchUnlogged,
			Entries: []BatchEntry{{Text: insert}, {Text: insert}},
			Params:  Params{HasTimestamp: true, Timestamp: stamp}})
		for where, err := range map[string]error{"text": text, "request": request, "batch": batch} {
			var refused *invalid.Error
			if c.refused != (errors.As(err, &refused) && strings.Contains(err.Error(), "maximum_timestamp")) {
				t.Errorf("%s, %s ahead: %v", where, c.ahead, err)
			}
		}
	}
}

// TestTimestampsInTheFarFutureAreAccepted with one warning for each table, whatever number of statements has them,
// and later writes of the server keep the time of its clock.
func TestTimestampsInTheFarFutureAreAccepted(t *testing.T) {
	p, s := newProcessorWith(t, &modelStore{}, func(o *Options) { o.Limits.TimestampAheadWarn = time.Minute },
		"CREATE TABLE t (k int PRIMARY KEY, v int)")
	now := time.Unix(1700000000, 0).UnixMicro()
	for _, c := range []struct {
		stamp int64
		warns int
	}{{now, 0}, {now + time.Minute.Microseconds(), 0}, {now + 61*time.Second.Microseconds(), 1}, {now * 1000, 1},
		{math.MaxInt64, 1},
		{1, 0}, {-math.MaxInt64, 0}} {
		insert := BatchEntry{Text: "INSERT INTO t (k, v) VALUES (1, 1)"}
		r := at(ring.One)
		_, err := p.Batch(r, s, &BatchParams{Kind: cql.BatchUnlogged, Entries: []BatchEntry{insert, insert},
			Params: Params{HasTimestamp: true, Timestamp: c.stamp}})
		if err != nil || len(r.Warnings) != c.warns {
			t.Errorf("timestamp %d: %v, warnings %q, want %d", c.stamp, err, r.Warnings, c.warns)
		}
	}
	mustQuery(t, p, s, "INSERT INTO t (k, v) VALUES (2, 1)")
	if got := runStatement(p, s, "SELECT writetime(v) FROM t WHERE k = 2"); !strings.Contains(got, "17000000000") {
		t.Errorf("the clock of the server followed a client: %s", got)
	}
}

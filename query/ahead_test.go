package query

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cqld/cql"
	"cqld/ring"
)

// TestTimestampsInTheFarFutureAreRefused in a statement, in a request and in a batch.
func TestTimestampsInTheFarFutureAreRefused(t *testing.T) {
	p, s := newProcessorWith(t, &modelStore{}, func(o *Options) { o.Limits.TimestampAheadMax = time.Minute }, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	now := time.Unix(1700000000, 0).UnixMicro()
	for _, c := range []struct {
		ahead   time.Duration
		refused bool
	}{{0, false}, {30 * time.Second, false}, {time.Minute + time.Second, true}, {24 * time.Hour, true}, {-24 * time.Hour, false}} {
		stamp := now + c.ahead.Microseconds()
		insert := "INSERT INTO t (k, v) VALUES (1, 1)"
		inText := fmt.Sprintf("%s USING TIMESTAMP %d", insert, stamp)
		_, text := p.Query(at(ring.One), s, inText, &Params{})
		_, request := p.Query(at(ring.One), s, insert, &Params{HasTimestamp: true, Timestamp: stamp})
		_, batch := p.Batch(at(ring.One), s, &BatchParams{Kind: cql.BatchUnlogged, Entries: []BatchEntry{{Text: insert}, {Text: insert}},
			Params: Params{HasTimestamp: true, Timestamp: stamp}})
		for where, err := range map[string]error{"text": text, "request": request, "batch": batch} {
			var invalid *Invalid
			if c.refused != (errors.As(err, &invalid) && strings.Contains(err.Error(), "maximum_timestamp")) {
				t.Errorf("%s, %s ahead: %v", where, c.ahead, err)
			}
		}
	}
}

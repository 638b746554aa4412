package query

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cqld/cql"
	"cqld/ring"
)

// TestTimestampsInTheFarFutureAreRefused: in a statement, in a request and in a batch.
func TestTimestampsInTheFarFutureAreRefused(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int PRIMARY KEY, v int)")
	p.o.Limits.TimestampAheadMax = time.Minute
	now := time.Unix(1700000000, 0).UnixMicro()
	for _, c := range []struct {
		ahead   time.Duration
		refused bool
	}{{0, false}, {30 * time.Second, false}, {time.Minute + time.Second, true}, {24 * time.Hour, true}, {-24 * time.Hour, false}} {
		stamp := now + c.ahead.Microseconds()
		insert := "INSERT INTO t (k, v) VALUES (1, 1)"
		inText := fmt.Sprintf("%s USING TIMESTAMP %d", insert, stamp)
		_, text := p.Query(context.Background(), s, inText, &Params{Consistency: ring.One})
		_, request := p.Query(context.Background(), s, insert, &Params{Consistency: ring.One, HasTimestamp: true, Timestamp: stamp})
		_, batch := p.Batch(context.Background(), s, &BatchParams{Kind: cql.BatchUnlogged, Entries: []BatchEntry{{Text: insert}, {Text: insert}},
			Params: Params{Consistency: ring.One, HasTimestamp: true, Timestamp: stamp}})
		for where, err := range map[string]error{"text": text, "request": request, "batch": batch} {
			var invalid *Invalid
			if c.refused != (errors.As(err, &invalid) && strings.Contains(err.Error(), "maximum_timestamp")) {
				t.Errorf("%s, %s ahead: %v", where, c.ahead, err)
			}
		}
	}
}

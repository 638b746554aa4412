package query

import (
	"slices"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/row"
	"cqld/search"
)

// timeoutStore records the timeout of the last request.
type timeoutStore struct {
	modelStore
	last time.Duration
}

func (s *timeoutStore) Read(req *coordinator.ReadRequest, done func([]byte, error)) {
	s.last = req.Timeout
	s.modelStore.Read(req, done)
}

func (s *timeoutStore) Write(req *coordinator.WriteRequest, done func(error)) {
	s.last = req.Timeout
	s.modelStore.Write(req, done)
}

// TestUsingTimeoutReplacesTheConfiguredTimeouts checks the timeouts of the coordinator's requests.
func TestUsingTimeoutReplacesTheConfiguredTimeouts(t *testing.T) {
	store := &timeoutStore{}
	p, s := newTestProcessor(t, store)
	mustQuery(t, p, s, "CREATE TABLE t (k int PRIMARY KEY, v int, l list<int>)")
	for text, want := range map[string]time.Duration{
		"INSERT INTO t (k, v, l) VALUES (1, 2, [1])":                          2 * time.Second,
		"INSERT INTO t (k, v) VALUES (1, 2) USING TIMEOUT 30s":                30 * time.Second,
		"UPDATE t USING TIMEOUT 1m SET v = 1 WHERE k = 1":                     time.Minute,
		"DELETE v FROM t USING TIMEOUT 70ms WHERE k = 1":                      70 * time.Millisecond,
		"SELECT * FROM t WHERE k = 1":                                         5 * time.Second,
		"SELECT * FROM t":                                                     10 * time.Second,
		"SELECT * FROM t WHERE k = 1 USING TIMEOUT 90ms":                      90 * time.Millisecond,
		"SELECT * FROM t USING TIMEOUT PT1M":                                  time.Minute,
		"BEGIN BATCH USING TIMEOUT 3s DELETE FROM t WHERE k = 9; APPLY BATCH": 3 * time.Second,
	} {
		mustQuery(t, p, s, text)
		if store.last != want {
			t.Errorf("%s: timeout %s, want %s", text, store.last, want)
		}
	}
}

// steppingClock is a testClock whose monotonic time advances at each search of a searchTimeouts.
type steppingClock struct {
	testClock
	elapsed time.Duration
}

func (c *steppingClock) Monotonic() time.Duration { return time.Hour + c.elapsed }

// searchTimeouts records the timeout of each search, which takes a second and answers in steps without rows.
type searchTimeouts struct {
	modelStore
	clock *steppingClock
	left  int // steps until the end of the index
	all   []time.Duration
}

func (s *searchTimeouts) Search(req *search.Request, done func(*search.Result, error)) {
	s.all = append(s.all, req.Timeout)
	s.clock.elapsed += time.Second
	s.left--
	w := row.NewPageWriter(nil)
	done(&search.Result{Page: w.Finish(false), More: s.left > 0, Next: search.Position{1}}, nil)
}

// TestUsingTimeoutBoundsSearches checks the timeouts of searches by an index and by a vector: USING TIMEOUT replaces
// the configured one, and bounds all steps of a search together.
func TestUsingTimeoutBoundsSearches(t *testing.T) {
	store := &searchTimeouts{clock: &steppingClock{testClock: testClock{now: time.Unix(1700000000, 0)}}}
	p, s := newProcessorWith(t, store, func(o *Options) { o.Clock = store.clock },
		"CREATE TABLE t (k int, c int, v int, w vector<float, 2>, PRIMARY KEY (k, c))",
		"CREATE INDEX ON t (v) USING 'sai'", "CREATE INDEX ON t (w) USING 'sai'")
	for text, want := range map[string][]time.Duration{
		"SELECT * FROM t WHERE v = 1":                                       {10 * time.Second, 10 * time.Second},
		"SELECT * FROM t WHERE v = 1 AND k = 1":                             {5 * time.Second, 5 * time.Second},
		"SELECT * FROM t ORDER BY w ANN OF [1, 2] LIMIT 3":                  {10 * time.Second, 10 * time.Second},
		"SELECT * FROM t WHERE v = 1 USING TIMEOUT 1m":                      {time.Minute, 59 * time.Second},
		"SELECT * FROM t WHERE v = 1 AND k = 1 USING TIMEOUT 900ms":         {900 * time.Millisecond, 1},
		"SELECT * FROM t ORDER BY w ANN OF [1, 2] LIMIT 3 USING TIMEOUT 2s": {2 * time.Second, time.Second},
	} {
		store.left, store.all = 2, nil
		mustQuery(t, p, s, text)
		if !slices.Equal(store.all, want) {
			t.Errorf("%s: timeouts %v, want %v", text, store.all, want)
		}
	}
}

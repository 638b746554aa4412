package query

import (
	"testing"
	"time"

	"cqld/coordinator"
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

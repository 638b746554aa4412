package query

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"cqld/coordinator"
	"cqld/view"
)

// viewedStore is a modelStore whose views can be read.
type viewedStore struct {
	*modelStore
	reader *view.Reader
}

func (s *viewedStore) Read(req *coordinator.ReadRequest, done func([]byte, error)) {
	s.reader.Read(req, done)
}

// TestViewsAnswerAsCassandra executes statements on materialized views and their base tables. The recorded answers were
// compared with those of Cassandra 5.0.9.
func TestViewsAnswerAsCassandra(t *testing.T) {
	datadriven.Walk(t, "testdata/view", func(t *testing.T, path string) {
		store := &viewedStore{modelStore: &modelStore{}}
		p, s := newTestProcessor(t, store)
		store.reader = view.New(view.Options{Coordinator: store.modelStore, View: p.o.View,
			Clock: &testClock{now: time.Unix(1700000000, 0)}})
		datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for _, text := range strings.Split(d.Input, "\n") {
				out.WriteString(runStatement(p, s, text))
			}
			return out.String()
		})
	})
}

package query

import (
	"strings"
	"testing"
)

// With materialized_views_enabled: false, views cannot be created; those that exist can be used and dropped.
func TestViewsCanBeDisabled(t *testing.T) {
	const view = "CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE a IS NOT NULL AND p IS NOT NULL PRIMARY KEY " +
		"(a, p)"
	for _, disabled := range []bool{false, true} {
		p, s := newProcessorWith(t, &nullStore{}, func(o *Options) { o.ViewsDisabled = disabled },
			"CREATE TABLE t (p int PRIMARY KEY, a int)")
		_, err := p.Query(at(1), s, view, &Params{})
		const want = "Materialized views are disabled. Enable in cassandra.yaml to use."
		if got := err != nil && strings.Contains(err.Error(), want); got != disabled {
			t.Errorf("disabled %t: %v", disabled, err)
		}
	}
}

package query

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cqld/internal/wire"
	"cqld/ring"
)

// TestFoldedIndexesFindEveryMatch compares ILIKE by indexes in lower case with ILIKE as a filter, on texts whose case
// is special: that of Σ depends on what follows, İ has two characters in lower case, the sign of Kelvin has an ASCII
// letter, and marks follow letters.
func TestFoldedIndexesFindEveryMatch(t *testing.T) {
	store := &searchStore{r: rand.New(rand.NewPCG(1, 2))}
	p, s := newTestProcessor(t, store, "CREATE TABLE f (k int PRIMARY KEY, a text, b text, c text, d text)")
	for _, text := range []string{
		"CREATE CUSTOM INDEX ON f (b) USING 'sai' WITH OPTIONS = {'case_sensitive': 'false'}",
		"CREATE CUSTOM INDEX ON f (c) USING 'sai' WITH OPTIONS = {'case_sensitive': 'false', 'normalize': 'true', " +
			"'ascii': 'true'}",
		"CREATE CUSTOM INDEX ON f (d) USING 'org.apache.cassandra.index.sasi.SASIIndex' WITH OPTIONS = " +
			"{'analyzer_class': " +
			"'org.apache.cassandra.index.sasi.analyzer.NonTokenizingAnalyzer', 'case_sensitive': 'false'}",
	} {
		mustQuery(t, p, s, text)
	}
	r := rand.New(rand.NewPCG(3, 4))
	text := func(alphabet []string, most int) (out string) {
		for range 1 + r.IntN(most) {
			out += alphabet[r.IntN(len(alphabet))]
		}
		return out
	}
	letters := []string{"a", "A", "b", "B", "i", "I", "K", "k", "\u212a", "\u0130", "\u0131", "Σ", "σ", "ς", "\u0301",
		"\u0307", "\u0328", "ß", "é", "É"}
	for k := range 60 {
		v := text(letters, 5)
		mustQuery(t, p, s, fmt.Sprintf("INSERT INTO f (k, a, b, c, d) VALUES (%d, '%s', '%s', '%s', '%s')", k, v, v, v,
			v))
	}
	found, before := 0, store.searches
	for range 80 {
		pattern := text(letters[:len(letters)-r.IntN(12)], 3)
		pattern = []string{"", "%"}[r.IntN(6)/5] + pattern + []string{"%", "%", ""}[r.IntN(3)]
		want := mustQuery(t, p, s, "SELECT k FROM f WHERE a ILIKE '"+pattern+"' ALLOW FILTERING")
		found += int(want.RowCount)
		for _, col := range []string{"b", "c", "d"} {
			got := mustQuery(t, p, s, "SELECT k FROM f WHERE "+col+" ILIKE '"+pattern+"'")
			if !bytes.Equal(got.Rows, want.Rows) {
				t.Errorf("%s ILIKE %q: %d rows, want %d", col, pattern, got.RowCount, want.RowCount)
			}
		}
	}
	if found < 80 || store.searches-before < 240 {
		t.Errorf("%d rows by %d searches", found, store.searches-before)
	}
	for _, refused := range []string{"a ILIKE 'a%'", "b LIKE 'a%'"} {
		if _, err := p.Query(at(ring.One), s, "SELECT k FROM f WHERE "+refused, &Params{}); err == nil {
			t.Errorf("%s is not refused", refused)
		}
	}
}

// TestAnalyzedIndexesAnswerAsCassandra compares conditions on columns whose index folds cases or normalizes. The
// answers were recorded from Cassandra 5.0.9.
func TestAnalyzedIndexesAnswerAsCassandra(t *testing.T) {
	store := &searchStore{r: rand.New(rand.NewPCG(1, 2))}
	p, s := newTestProcessor(t, store, "CREATE TABLE a (k int PRIMARY KEY, t text, u text, l list<text>, v int, n "+
		"text, s text, d text, p text)")
	for _, text := range []string{
		"CREATE CUSTOM INDEX ON a (t) USING 'sai' WITH OPTIONS = {'case_sensitive': 'false', 'ascii': 'true', " +
			"'normalize': 'true'}",
		"CREATE CUSTOM INDEX ON a (l) USING 'sai' WITH OPTIONS = {'case_sensitive': 'false'}",
		"CREATE CUSTOM INDEX ON a (v) USING 'sai'",
		"CREATE CUSTOM INDEX ON a (n) USING 'org.apache.cassandra.index.sasi.SASIIndex' WITH OPTIONS = {'mode': " +
			"'CONTAINS', 'analyzer_class': " +
			"'org.apache.cassandra.index.sasi.analyzer.NonTokenizingAnalyzer', 'case_sensitive': 'false'}",
		"CREATE CUSTOM INDEX ON a (s) USING 'org.apache.cassandra.index.sasi.SASIIndex' WITH OPTIONS = {'mode': " +
			"'CONTAINS', 'analyzer_class': " +
			"'org.apache.cassandra.index.sasi.analyzer.StandardAnalyzer', 'tokenization_normalize_lowercase': 'true'}",
		"CREATE CUSTOM INDEX ON a (d) USING 'org.apache.cassandra.index.sasi.SASIIndex' WITH OPTIONS = {'mode': " +
			"'CONTAINS', 'analyzer_class': " +
			"'org.apache.cassandra.index.sasi.analyzer.DelimiterAnalyzer', 'delimiter': ' '}",
		"CREATE CUSTOM INDEX ON a (p) USING 'org.apache.cassandra.index.sasi.SASIIndex'",
		"INSERT INTO a (k, t, u, l, v, n, s, d, p) VALUES (1, 'Été', 'Été', ['AbC', 'x'], 1, 'The Quick fox', 'The " +
			"Quick fox', 'The Quick fox', 'The Quick fox')",
		"INSERT INTO a (k, t, u, l, v, n, s, d, p) VALUES (2, 'ETE', 'ETE', ['abc'], 2, 'quickly', 'quickly', " +
			"'quickly', 'quickly')",
		"INSERT INTO a (k, t, u, l, v, n, s, d, p) VALUES (3, 'ete2', 'x', ['y'], 3, 'Foxes', 'Foxes', 'Foxes', " +
			"'Foxes')",
		"INSERT INTO a (k, t, u, l, v, n, s, d, p) VALUES (4, '', 'x', ['y'], 3, '', '', '', '')",
	} {
		mustQuery(t, p, s, text)
	}
	for where, want := range map[string][]int32{
		"t = 'ete'":           {1, 2},
		"t = 'ÉTÉ'":           {1, 2},
		"t = ''":              {4},
		"t = 'ete' AND v = 1": {1},
		"t = 'ete' AND u = 'ETE' ALLOW FILTERING": {2},
		"k = 1 AND t = 'ete' ALLOW FILTERING":     {1},
		"u = 'ete' ALLOW FILTERING":               nil,
		"l CONTAINS 'ABC'":                        {1, 2},
		"l CONTAINS 'ABC' AND t = 'ete'":          {1, 2},
		"n = 'the quick fox'":                     {1},
		"s LIKE 'Quick'":                          {1},
		"s LIKE 'quick fox'":                      {1},
		"s LIKE '%uic%'":                          {1, 2},
		"s LIKE '%OX'":                            {1},
		"n LIKE '%QUICK%'":                        {1, 2},
		"n LIKE 'the%'":                           {1},
		"n LIKE 'FOXES'":                          {3},
		"d LIKE 'Quick'":                          {1},
		"d LIKE '%ui%'":                           {1, 2},
		"p LIKE 'The%'":                           {1},
		"p LIKE 'quickly'":                        {2},
		"p = 'quickly'":                           {2},
	} {
		result, err := p.Query(at(ring.One), s, "SELECT k FROM a WHERE "+where, &Params{})
		if err != nil {
			t.Errorf("%s: %v", where, err)
			continue
		}
		var got []int32
		cursor := wire.NewCursor(result.Rows)
		for range result.RowCount {
			cell := wire.NewCursor(cursor.Bytes())
			got = append(got, cell.Int32())
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", where, got, want)
		}
	}
	for where, want := range map[string]string{
		"s = 'quick'":    "Cannot execute this query as it might involve data filtering",
		"s LIKE 'qui%'":  "s LIKE '<term>%' qui is only supported on properly indexed columns",
		"p LIKE '%fox%'": "p LIKE '%<term>%' fox is only supported on properly indexed columns",
		"n LIKE ''":      "LIKE value can't be empty.",
		"p LIKE '%'":     "LIKE value can't be empty.",
		"t > 'a'":        "Cannot execute this query as it might involve data filtering",
	} {
		if _, err := p.Query(at(ring.One), s, "SELECT k FROM a WHERE "+where, &Params{}); err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", where, err, want)
		}
	}
	if store.searches == 0 {
		t.Error("no condition was answered by an index")
	}
}

// TestAnalyzersOfUnusedIndexesDoNotApply compares conditions on a column with indexes of several classes. The class
// that Cassandra searches decides whether values are compared by terms, and the rows do not depend on the index by
// which they are found here. integration/testdata/cql/index_analyzer_classes.txt has more of these answers of Cassandra
// 5.0.9.
func TestAnalyzersOfUnusedIndexesDoNotApply(t *testing.T) {
	const sasi = "USING 'org.apache.cassandra.index.sasi.SASIIndex'"
	const foldedSASI = sasi + " WITH OPTIONS = {'analyzer_class': " +
		"'org.apache.cassandra.index.sasi.analyzer.NonTokenizingAnalyzer', 'case_sensitive': 'false'}"
	const folded = "USING 'sai' WITH OPTIONS = {'case_sensitive': 'false'}"
	const onKey = "p = 1 AND c = 1 AND v = 'a'"
	const both = "v = 'a' AND w > 0 ALLOW FILTERING"
	for _, x := range []struct {
		indexes []string
		where   string
		want    int32
	}{
		{[]string{"CUSTOM INDEX ON t (v) " + folded}, "v = 'a'", 2},
		{[]string{"CUSTOM INDEX ON t (v) " + folded, "INDEX ON t (v)"}, "v = 'a'", 1},
		{[]string{"INDEX ON t (v)", "CUSTOM INDEX ON t (v) " + folded}, both, 1},
		{[]string{"CUSTOM INDEX ON t (v) " + folded, "INDEX ON t (w)"}, "v = 'a' AND w = 1 ALLOW FILTERING", 1},
		{[]string{"CUSTOM INDEX ON t (v) " + folded, "INDEX ON t (w)"}, both, 2},
		{[]string{"CUSTOM INDEX ON t (v) " + folded, "CUSTOM INDEX ON t (w) " + sasi}, both, 1},
		{[]string{"CUSTOM INDEX ON t (v) " + folded, "CUSTOM INDEX ON t (v) " + sasi}, "v = 'a'", 1},
		{[]string{"CUSTOM INDEX ON t (v) " + foldedSASI, "INDEX ON t (v)"}, "v = 'a'", 2},
		{[]string{"INDEX ON t (v)", "CUSTOM INDEX ON t (v) " + foldedSASI}, both, 2},
		{[]string{"CUSTOM INDEX ON t (v) " + foldedSASI, "CUSTOM INDEX ON t (v) USING 'sai'"}, "v = 'a'", 2},
		{[]string{"CUSTOM INDEX ON t (v) " + folded, "INDEX ON t (c)"}, "c = 1 AND v = 'a' ALLOW FILTERING", 0},
		{[]string{"CUSTOM INDEX ON t (v) " + folded, "INDEX ON t (c)"}, onKey, 1},
		{[]string{"CUSTOM INDEX ON t (l) " + folded, "INDEX ON t (l)"}, "l CONTAINS 'a'", 1},
	} {
		store := &searchStore{r: rand.New(rand.NewPCG(1, 2))}
		p, s := newTestProcessor(t, store,
			"CREATE TABLE t (p int, c int, v text, w int, l list<text>, PRIMARY KEY (p, c))")
		for _, ix := range x.indexes {
			mustQuery(t, p, s, "CREATE "+ix)
		}
		mustQuery(t, p, s, "INSERT INTO t (p, c, v, w, l) VALUES (1, 1, 'A', 1, ['A'])")
		mustQuery(t, p, s, "INSERT INTO t (p, c, v, w, l) VALUES (1, 2, 'a', 1, ['a'])")
		if got := mustQuery(t, p, s, "SELECT c FROM t WHERE "+x.where); got.RowCount != x.want {
			t.Errorf("%q, %s: %d rows, want %d", x.indexes, x.where, got.RowCount, x.want)
		}
	}
}

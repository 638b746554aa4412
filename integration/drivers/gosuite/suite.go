package gosuite

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"sort"
	"strings"
	"time"

	"gopkg.in/inf.v0"
)

type suite struct {
	Driver
	s  Settings
	db Session
	ks string
}

func runSuite(d Driver, s Settings) int {
	db, err := d.Open(s, "")
	if err != nil {
		fmt.Println("fail connect", err)
		return 1
	}
	defer db.Close()
	t := &suite{Driver: d, s: s, db: db, ks: s.Keyspace}
	failed := 0
	for _, c := range []struct {
		name  string
		check func() error
	}{
		{"connect", t.connect}, {"schema", t.schema}, {"types", t.types}, {"collections", t.collections},
		{"nulls", t.nulls},
		{"named", t.named}, {"paging", t.paging}, {"nearest", t.nearest}, {"batch", t.batch},
		{"conditional", t.conditional}, {"counters", t.counters}, {"metadata", t.metadata}, {"events", t.events},
		{"alter", t.alter}, {"errors", t.errors}, {"tracing", t.tracing}, {"compression", t.compression},
		{"drop", t.drop},
	} {
		if err := c.check(); err != nil {
			failed = 1
			fmt.Println("fail", c.name, strings.Join(strings.Fields(err.Error()), " "))
		} else {
			fmt.Println("ok", c.name)
		}
	}
	return failed
}

// until polls until the condition holds, for at most ten seconds.
func until(what string, holds func() bool) error {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if holds() {
			return nil
		}
	}
	return fmt.Errorf("not seen: %s", what)
}

func (t *suite) connect() error {
	nodes, tokens := 0, 0
	err := until("all nodes and their tokens", func() bool {
		nodes, tokens = t.db.Ring()
		return nodes == t.s.Nodes && tokens == 16*nodes
	})
	if err != nil {
		return fmt.Errorf("%w: %d nodes, %d tokens", err, nodes, tokens)
	}
	return nil
}

func (t *suite) schema() error {
	if err := firstError(t.db.Exec("DROP KEYSPACE IF EXISTS "+t.ks), t.db.Exec(t.s.createKeyspace())); err != nil {
		return err
	}
	began := time.Now()
	for i := range 5 {
		if err := t.db.Exec(fmt.Sprintf("CREATE TABLE %s.quick%d (k int PRIMARY KEY)", t.ks, i)); err != nil {
			return err
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		return fmt.Errorf("five CREATE TABLE took %v", took)
	}
	return t.db.Agree()
}

func (t *suite) types() error {
	columns := "a ascii, bi bigint, bl blob, bo boolean, da date, de decimal, dou double, du duration, f float, i " +
		"inet, n int, sm smallint, te text, ti time, ts timestamp, tu timeuuid, ty tinyint, u uuid, vc varchar, vi " +
		"varint"
	var names []string
	for _, c := range strings.Split(columns, ", ") {
		names = append(names, strings.Fields(c)[0])
	}
	list := strings.Join(names, ", ")
	if err := t.db.Exec(fmt.Sprintf("CREATE TABLE %s.types (k int PRIMARY KEY, %s)", t.ks, columns)); err != nil {
		return err
	}
	huge := new(big.Int).Exp(big.NewInt(10), big.NewInt(30), nil)
	rows := [][]any{
		{"ascii", int64(math.MaxInt64), []byte{0, 255}, true, time.Date(2020, 2, 29, 0, 0, 0, 0, time.UTC),
			inf.NewDec(123450, 3), 1.5e300,
			t.Duration(14, 3, 5000), float32(1.5), "127.0.0.1", math.MaxInt32, int16(math.MaxInt16), "Grüße 世界",
			86399999999999 * time.Nanosecond,
			time.Date(2020, 1, 2, 3, 4, 5, 678e6, time.UTC), t.UUID("50554d6e-29bb-11e5-b345-feff819cdc9f"),
			int8(math.MaxInt8),
			t.UUID("123e4567-e89b-42d3-a456-426614174000"), "v", huge},
		{"", int64(math.MinInt64), []byte{}, false, time.Date(1969, 12, 31, 0, 0, 0, 0, time.UTC), inf.NewDec(-1, 10),
			math.Inf(-1),
			t.Duration(-1, -2, -3), float32(-0.5), "2001:db8::1", math.MinInt32, int16(math.MinInt16), "",
			time.Duration(0),
			time.Date(1969, 12, 31, 23, 59, 59, 0, time.UTC), t.UUID("00000000-0000-1000-8000-000000000000"),
			int8(math.MinInt8),
			t.UUID("00000000-0000-0000-0000-000000000000"), "", new(big.Int).Neg(huge)},
	}
	insert := fmt.Sprintf("INSERT INTO %s.types (k, %s) VALUES (?%s)", t.ks, list, strings.Repeat(", ?", len(names)))
	for k, row := range rows {
		if err := t.db.Exec(insert, append([]any{k}, row...)...); err != nil {
			return err
		}
		got, err := t.db.Row(fmt.Sprintf("SELECT %s FROM %s.types WHERE k = ?", list, t.ks), k)
		if err != nil {
			return err
		}
		for i, name := range names {
			if err := same(got[name], row[i], name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *suite) collections() error {
	table := t.ks + ".collections"
	if err := t.db.Exec("CREATE TABLE " + table + " (k int PRIMARY KEY, l list<int>, s set<text>, m map<text, int>, " +
		"fl frozen<list<int>>, fm frozen<map<int, frozen<set<text>>>>)"); err != nil {
		return err
	}
	insert := "INSERT INTO " + table + " (k, l, s, m, fl, fm) VALUES (?, ?, ?, ?, ?, ?)"
	fm := map[int][]string{1: {"p", "q"}, 2: {"r"}}
	if err := t.db.Exec(insert, 1, []int{3, 1, 3}, []string{"b", "a"}, map[string]int{"x": 1, "y": 2}, []int{9, 8},
		fm); err != nil {
		return err
	}
	if err := t.db.Exec("UPDATE "+table+" SET l = l + ?, s = s - ?, m[?] = ? WHERE k = ?", []int{7}, []string{"a"},
		"z", 26, 1); err != nil {
		return err
	}
	row, err := t.db.Row("SELECT * FROM "+table+" WHERE k = ?", 1)
	if err != nil {
		return err
	}
	err = firstError(same(row["l"], []int{3, 1, 3, 7}, "l"), same(row["s"], []string{"b"}, "s"),
		same(row["m"], map[string]int{"x": 1, "y": 2, "z": 26}, "m"),
		same(row["fl"], []int{9, 8}, "fl"), same(row["fm"], fm, "fm"))
	if err != nil {
		return err
	}
	if err := t.db.Exec(insert, 2, []int{}, []string{}, map[string]int{}, []int{}, map[int][]string{}); err != nil {
		return err
	}
	row, err = t.db.Row("SELECT l, s, m FROM "+table+" WHERE k = ?", 2)
	return firstError(err, same(row["l"], []int{}, "empty list"), same(row["s"], []string{}, "empty set"),
		same(row["m"], map[string]int{}, "empty map"))
}

func (t *suite) pair(k int, a, b any) error {
	row, err := t.db.Row("SELECT a, b FROM "+t.ks+".nulls WHERE k = ?", k)
	return firstError(err, same(row["a"], a, "a"), same(row["b"], b, "b"))
}

// nulls: both drivers return the zero value for null, so the check uses a filter.
func (t *suite) nulls() error {
	insert := "INSERT INTO " + t.ks + ".nulls (k, a, b) VALUES (?, ?, ?)"
	return firstError(
		t.db.Exec("CREATE TABLE "+t.ks+".nulls (k int PRIMARY KEY, a text, b int)"),
		t.db.Exec(insert, 1, "a", 1), t.db.Exec(insert, 1, t.Unset, 2), t.pair(1, "a", 2),
		t.db.Exec(insert, 1, nil, t.Unset), t.pair(1, "", 2),
		t.count("a = ''", 0), t.db.Exec(insert, 1, "", nil), t.count("a = ''", 1), t.count("b > -100", 0))
}

func (t *suite) count(where string, want int) error {
	row, err := t.db.Row("SELECT count(*) AS n FROM " + t.ks + ".nulls WHERE k = 1 AND " + where + " ALLOW FILTERING")
	return firstError(err, same(row["n"], want, "rows where "+where))
}

func (t *suite) named() error {
	n := t.db.Named
	return firstError(t.db.Exec("INSERT INTO "+t.ks+".nulls (k, a, b) VALUES (:k, :a, :b)", n("b", 5), n("a", "named"),
		n("k", 7)), t.pair(7, "named", 5))
}

func (t *suite) paging() error {
	table := t.ks + ".paging"
	if err := t.db.Exec("CREATE TABLE " + table + " (k int, c int, PRIMARY KEY (k, c))"); err != nil {
		return err
	}
	for i := range 500 {
		if err := t.db.Exec("INSERT INTO "+table+" (k, c) VALUES (?, ?)", i%5, i); err != nil {
			return err
		}
	}
	all, err := t.db.AllInts(37, "SELECT c FROM "+table)
	sort.Ints(all)
	if err != nil || len(slices.Compact(all)) != 500 {
		return fmt.Errorf("%d rows over all pages, %v", len(all), err)
	}
	one := "SELECT c FROM " + table + " WHERE k = 1"
	first, state, err := t.db.Ints(10, nil, one)
	if err != nil || len(first) != 10 || len(state) == 0 {
		return fmt.Errorf("first page: %v, state of %d bytes, %v", first, len(state), err)
	}
	rest, state, err := t.db.Ints(1000, state, one)
	if err != nil || len(state) != 0 {
		return fmt.Errorf("second page: state of %d bytes, %v", len(state), err)
	}
	var want []int
	for i := range 100 {
		want = append(want, 1+5*i)
	}
	return same(append(first, rest...), want, "two pages")
}

// nearest: vectors as literals, because not every driver can bind them.
func (t *suite) nearest() error {
	err := firstError(
		t.db.Exec("CREATE TABLE "+t.ks+".nearest (k int PRIMARY KEY, v vector<float, 3>)"),
		t.db.Exec("CREATE CUSTOM INDEX ON "+t.ks+".nearest (v) USING 'StorageAttachedIndex' WITH OPTIONS = "+
			"{'similarity_function': 'euclidean'}"))
	for i := 0; i < 50 && err == nil; i++ {
		err = t.db.Exec(fmt.Sprintf("INSERT INTO %s.nearest (k, v) VALUES (%d, [%d, 1, 2])", t.ks, i, i*i))
	}
	if err != nil {
		return err
	}
	found, _, err := t.db.Ints(0, nil, "SELECT k FROM "+t.ks+".nearest ORDER BY v ANN OF [100, 1, 1] LIMIT 4")
	if err != nil {
		return err
	}
	return same(found, []int{10, 9, 11, 8}, "nearest rows")
}

func (t *suite) batch() error {
	for i, logged := range []bool{false, true} {
		keys := [][2]int{{20, 21}, {22, 23}}[i]
		err := t.db.Batch(logged, []Statement{
			{"INSERT INTO " + t.ks + ".nulls (k, a, b) VALUES (?, ?, ?)", []any{keys[0], "x", 1}},
			{"UPDATE " + t.ks + ".nulls SET b = ?, a = 'y' WHERE k = ?", []any{9, keys[1]}},
		})
		if err := firstError(err, t.pair(keys[1], "y", 9)); err != nil {
			return err
		}
	}
	return nil
}

// counters: concurrent additions, by statements and by a batch.
func (t *suite) counters() error {
	table := t.ks + ".counters"
	if err := t.db.Exec("CREATE TABLE " + table + " (k int PRIMARY KEY, c counter)"); err != nil {
		return err
	}
	const clients, each = 4, 25
	failures := make(chan error, clients)
	for range clients {
		go func() {
			var err error
			for range each {
				err = firstError(err, t.db.Exec("UPDATE "+table+" SET c = c + ? WHERE k = ?", int64(2), 1))
			}
			failures <- err
		}()
	}
	var err error
	for range clients {
		err = firstError(err, <-failures)
	}
	row, readErr := t.db.Row("SELECT k FROM " + table + " WHERE k = 1 AND c = 200 ALLOW FILTERING")
	err = firstError(err, readErr, same(row["k"], 1, "key of the counter"))
	return firstError(err, t.db.Exec("BEGIN COUNTER BATCH UPDATE "+table+" SET c = c - 5 WHERE k = 1; UPDATE "+
		""+table+" SET c = c + 5 WHERE k = 2; APPLY BATCH"))
}

func (t *suite) metadata() error {
	if err := t.db.Exec("CREATE TABLE " + t.ks + ".meta (a int, b text, c int, d list<int>, s int STATIC, PRIMARY " +
		"KEY ((a, b), c)) WITH CLUSTERING ORDER BY (c DESC)"); err != nil {
		return err
	}
	want := map[string]string{"a": "partition_key int none", "b": "partition_key text none",
		"c": "clustering int desc", "d": "regular list<int> none", "s": "static int none"}
	var got map[string]string
	err := until("the table just made", func() bool { got = t.db.Table(t.ks, "meta"); return len(got) > 0 })
	return firstError(err, same(got, want, "metadata"))
}

func (t *suite) events() error {
	other, err := t.Open(t.s, "")
	if err != nil {
		return err
	}
	defer other.Close()
	// The driver caches the metadata of a keyspace until an event reports a change.
	if t.db.Table(t.ks, "seen") != nil {
		return fmt.Errorf("a table before it was made")
	}
	if err := other.Exec("CREATE TABLE " + t.ks + ".seen (k int PRIMARY KEY)"); err != nil {
		return err
	}
	if err := until("the table another session made", func() bool {
		return t.db.Table(t.ks,
			"seen") != nil
	}); err != nil {
		return err
	}
	if err := other.Exec("DROP TABLE " + t.ks + ".seen"); err != nil {
		return err
	}
	return until("that the table was dropped", func() bool { return t.db.Table(t.ks, "seen") == nil })
}

func (t *suite) alter() error {
	table := t.ks + ".altered"
	err := firstError(t.db.Exec("CREATE TABLE "+table+" (k int PRIMARY KEY, a int)"),
		t.db.Exec("INSERT INTO "+table+" (k, a) VALUES (?, ?)", 1, 2))
	if err != nil {
		return err
	}
	selectAll := "SELECT * FROM " + table + " WHERE k = ?"
	if _, err = t.db.Row(selectAll, 1); err != nil {
		return err
	}
	err = firstError(t.db.Exec("ALTER TABLE "+table+" ADD aa text"),
		t.db.Exec("UPDATE "+table+" SET aa = 'new' WHERE k = 1"))
	for range 3 * t.s.Nodes {
		row, readErr := t.db.Row(selectAll, 1)
		err = firstError(err, readErr, same(row["a"], 2, "a"), same(row["aa"], "new", "the new column"))
	}
	return err
}

func (t *suite) errors() error {
	for text, code := range map[string]int{
		"SELEC": 0x2000, "SELECT * FROM " + t.ks + ".nosuch": 0x2200, "CREATE TABLE " + t.ks +
			".altered (k int PRIMARY KEY)": 0x2400,
	} {
		err := t.db.Exec(text)
		if err == nil {
			return fmt.Errorf("%s was accepted", text)
		}
		if got := t.Code(err); got != code {
			return fmt.Errorf("%s: code %#x, %v", text, got, err)
		}
	}
	return nil
}

func (t *suite) tracing() error {
	// The trace is written after the answer.
	return until("a trace with its events", func() bool {
		trace, err := t.db.Trace("SELECT * FROM " + t.ks + ".nulls WHERE k = 7")
		return err == nil && strings.Count(trace, "\n") > 1
	})
}

func (t *suite) compression() error {
	long := strings.Repeat("compressible ", 5000)
	for i, name := range t.Compressions {
		db, err := t.Open(t.s, name)
		if err != nil {
			return err
		}
		err = db.Exec("INSERT INTO "+t.ks+".nulls (k, a) VALUES (?, ?)", 50+i, long)
		row, readErr := db.Row("SELECT a FROM "+t.ks+".nulls WHERE k = ?", 50+i)
		db.Close()
		if err = firstError(err, readErr, same(row["a"], long, name)); err != nil {
			return err
		}
	}
	return nil
}

func (t *suite) drop() error { return t.db.Exec("DROP KEYSPACE " + t.ks) }

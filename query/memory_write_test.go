package query

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"cqld/internal/wire"
	"cqld/query/invalid"
)

// TestChangesAreCheckedBeforeTheyAreEncoded assigns a named value of 1 MiB to a hundred elements. The statement is
// refused although the request is small, and before the change is built. The last case has less than a partition may
// have, and more than the request may hold.
func TestChangesAreCheckedBeforeTheyAreEncoded(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{},
		"CREATE TABLE t (k int PRIMARY KEY, m map<int, blob>, f frozen<tuple<"+repeated("blob", 100)+">>)")
	var assignments []string
	for i := range 100 {
		assignments = append(assignments, fmt.Sprintf("m[%d] = :a", i))
	}
	for name, x := range map[string]struct{ text, refusal string }{
		"elements": {"UPDATE t SET " + strings.Join(assignments, ", ") + " WHERE k = 1", "oversized mutation"},
		"tuple":    {"INSERT INTO t (k, f) VALUES (1, (" + repeated(":a", 100) + "))", "has more than"},
	} {
		t.Run(name, func(t *testing.T) {
			n, err := bounded(t, p, s, x.text, &Params{Names: []string{"a"},
				Values: []wire.Value{wire.BytesValue(make([]byte, 1<<20))}})
			if refused := new(invalid.Error); !errors.As(err, &refused) || !strings.Contains(refused.Msg, x.refusal) {
				t.Errorf("error %v, want INVALID", err)
			}
			if n > 24<<20 {
				t.Errorf("%d bytes were allocated, want at most 24 MiB", n)
			}
		})
	}
	t.Run("account", func(t *testing.T) {
		n, err := bounded(t, p, s, "UPDATE t SET "+strings.Join(assignments, ", ")+" WHERE k = 1", &Params{
			Names: []string{"a"}, Values: []wire.Value{wire.BytesValue(make([]byte, 100<<10))}})
		checkRefused(t, n, 24<<20, err)
	})
}

// TestJSONInConditionalChangesIsReserved: a conditional change decodes the text of from_json while its round runs, when
// it must not wait for memory. The memory is reserved before the round.
func TestJSONInConditionalChangesIsReserved(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{}, "CREATE TABLE t (k int PRIMARY KEY, v int, f frozen<list<int>>)")
	text := []byte("[" + strings.Repeat("1,", 200_000) + "1]")
	for _, statement := range []string{
		"INSERT INTO t (k, f) VALUES (1, from_json(?)) IF NOT EXISTS",
		"UPDATE t SET f = fromjson(?) WHERE k = 1 IF v = null",
		"BEGIN BATCH UPDATE t SET f = from_json(?) WHERE k = 1 IF v = null; UPDATE t SET v = 1 WHERE k = 1 APPLY BATCH",
	} {
		n, err := bounded(t, p, s, statement, &Params{Values: []wire.Value{wire.BytesValue(text)}})
		if err == nil {
			t.Errorf("%s: %d bytes were allocated without a reservation", statement, n)
			continue
		}
		checkRefused(t, n, 8<<20, err)
	}
}

// TestOtherValuesAreNotReservedAsJSON: only what from_json and INSERT JSON decode is reserved as JSON. The blob has the
// bytes of a text with many elements, and each statement of a batch has its own values of the common list.
func TestOtherValuesAreNotReservedAsJSON(t *testing.T) {
	p, s := newTestProcessor(t, &modelStore{},
		"CREATE TABLE t (k int, c int, d blob, f frozen<list<int>>, PRIMARY KEY (k, c))")
	blob := wire.BytesValue([]byte(strings.Repeat(",", 100<<10)))
	short := wire.BytesValue([]byte("[" + strings.Repeat("1,", 1000) + "1]"))
	batch, shorts := "BEGIN BATCH ", []wire.Value{}
	for c := range 10 {
		batch += fmt.Sprintf("UPDATE t SET f = from_json(?) WHERE k = 1 AND c = %d IF d = null; ", c)
		shorts = append(shorts, short)
	}
	object := wire.BytesValue([]byte(`{"k": 1, "c": 2}`))
	for _, x := range []struct {
		text   string
		values []wire.Value
	}{
		{"UPDATE t SET d = ?, f = from_json(?) WHERE k = 1 AND c = 1 IF d = null", []wire.Value{blob, short}},
		{batch + "APPLY BATCH", shorts},
		{"BEGIN BATCH UPDATE t SET f = from_json(?) WHERE k = 1 AND c = 1 IF EXISTS; " +
			"UPDATE t SET d = ? WHERE k = 1 AND c = 2 APPLY BATCH", []wire.Value{short, blob}},
		{"BEGIN BATCH INSERT INTO t JSON ? IF NOT EXISTS; UPDATE t SET d = ? WHERE k = 1 AND c = 3 APPLY BATCH",
			[]wire.Value{object, blob}},
	} {
		if _, err := bounded(t, p, s, x.text, &Params{Values: x.values}); err != nil {
			t.Errorf("%s: %v", x.text, err)
		}
	}
}

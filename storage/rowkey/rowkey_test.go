package rowkey

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// TestKeys draws keys. The input of "keys" is an entry a line:
//
//	table token key: header | row <clustering> | range <start> <end>
//
// Bytes are written in Go's notation, without quotes; - is none. The output is sorted as Pebble sorts it.
func TestKeys(t *testing.T) {
	datadriven.Walk(t, "testdata/keys", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "keys" {
				t.Fatalf("unknown command %q", d.Cmd)
			}
			var keys [][]byte
			for line := range strings.Lines(d.Input) {
				keys = append(keys, parseEntry(t, strings.TrimSpace(line)))
			}
			slices.SortFunc(keys, bytes.Compare)
			var out strings.Builder
			for _, key := range keys {
				out.WriteString(drawKey(t, key))
			}
			return out.String()
		})
	})
}

func unquote(t *testing.T, s string) []byte {
	t.Helper()
	if s == "-" {
		return nil
	}
	out, err := strconv.Unquote(`"` + s + `"`)
	if err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return []byte(out)
}

func parseEntry(t *testing.T, line string) []byte {
	t.Helper()
	where, what, ok := strings.Cut(line, ": ")
	fields := strings.Fields(where)
	if !ok || len(fields) != 3 {
		t.Fatalf("malformed line %q", line)
	}
	table, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	token, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	e := row.Entry{}
	args := strings.Split(what, " ")
	switch args[0] {
	case "row":
		e.Kind, e.Start = row.KindRow, unquote(t, args[1])
	case "range":
		e.Kind, e.Start, e.End = row.KindRangeTombstone, unquote(t, args[1]), unquote(t, args[2])
	case "header":
	default:
		t.Fatalf("malformed line %q", line)
	}
	key := row.PartitionKey{Token: ring.Token(token), Bytes: unquote(t, fields[2])}
	out := AppendSuffix(AppendPartition(nil, schema.StorageID(table), key), e.Kind, e.Start, e.End)
	if want := FixedSize + len(key.Bytes) + SuffixSize(&e); len(out) != want {
		t.Fatalf("%q: %d bytes, SuffixSize returns %d", line, len(out), want)
	}
	return out
}

func drawKey(t *testing.T, key []byte) string {
	t.Helper()
	table, k, suffix, err := Parse(key)
	if err != nil {
		t.Fatal(err)
	}
	n := FixedSize + len(k.Bytes)
	text := fmt.Sprintf("%x │ %x │ %x │ %x │ %x", key[:4], key[4:12], key[12:14], key[14:n], suffix[:1])
	if len(suffix) > 1 {
		text += fmt.Sprintf(" │ %x", suffix[1:])
	}
	what := "header"
	switch row.EntryKind(suffix[0]) {
	case row.KindRow:
		what = fmt.Sprintf("row %q", suffix[1:])
	case row.KindRangeTombstone:
		_, start, end, ok := ParseRangeTombstone(nil, suffix)
		if !ok {
			t.Fatalf("%x: malformed range tombstone", key)
		}
		what = fmt.Sprintf("range [%q, %q)", start, end)
	}
	return text + fmt.Sprintf("\n  table %d token %d key %q %s\n", table, k.Token, k.Bytes, what)
}

// TestEncodedKeysSortAsTheirParts compares the order of random keys with that of their parts.
func TestEncodedKeysSortAsTheirParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	type entry struct {
		table      schema.StorageID
		key        row.PartitionKey
		kind       row.EntryKind
		start, end []byte
	}
	random := func() []byte {
		b := make([]byte, rng.IntN(4))
		for i := range b {
			b[i] = []byte{0, 1, 2, 0xFE, 0xFF}[rng.IntN(5)]
		}
		return b
	}
	draw := func() entry {
		e := entry{table: schema.StorageID(rng.IntN(2)), kind: row.EntryKind(rng.IntN(3))}
		e.key = row.PartitionKey{Token: ring.Token(rng.IntN(3) - 1), Bytes: random()}
		switch e.kind {
		case row.KindRow:
			e.start = random()
		case row.KindRangeTombstone:
			e.start, e.end = random(), random()
		}
		return e
	}
	compare := func(a, b entry) int {
		if c := int(a.table) - int(b.table); c != 0 {
			return c
		}
		if c := a.key.Compare(b.key); c != 0 {
			return c
		}
		if c := int(a.kind) - int(b.kind); c != 0 {
			return c
		}
		if c := bytes.Compare(a.start, b.start); c != 0 {
			return c
		}
		return bytes.Compare(a.end, b.end)
	}
	bytesOf := func(e entry) []byte {
		return AppendSuffix(AppendPartition(nil, e.table, e.key), e.kind, e.start, e.end)
	}
	sign := func(n int) int { return max(-1, min(1, n)) }
	for range 200_000 {
		a, b := draw(), draw()
		if got, want := bytes.Compare(bytesOf(a), bytesOf(b)), sign(compare(a, b)); got != want {
			t.Fatalf("%+v and %+v compare as %d, their keys %x and %x as %d", a, b, want, bytesOf(a), bytesOf(b), got)
		}
		if a.kind == row.KindRangeTombstone {
			_, _, suffix, err := Parse(bytesOf(a))
			_, start, end, ok := ParseRangeTombstone(nil, suffix)
			if err != nil || !ok || !bytes.Equal(start, a.start) || !bytes.Equal(end, a.end) {
				t.Fatalf("%+v decodes to [%x, %x)", a, start, end)
			}
		}
	}
}

// FuzzParseKey: a key from a damaged disk is an error, not a panic.
func FuzzParseKey(f *testing.F) {
	f.Add([]byte{})
	partition := AppendPartition(nil, 1024, row.NewPartitionKey([]byte("a")))
	f.Add(AppendSuffix(partition, row.KindRangeTombstone, []byte{0}, []byte{0xFF}))
	f.Fuzz(func(t *testing.T, key []byte) {
		table, k, suffix, err := Parse(key)
		if err != nil {
			return
		}
		if again := append(AppendPartition(nil, table, k), suffix...); !bytes.Equal(again, key) {
			t.Fatalf("%x became %x", key, again)
		}
		ParseRangeTombstone(nil, suffix)
	})
}

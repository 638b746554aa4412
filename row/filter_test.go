package row

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"cqld/internal/wire"
	"cqld/schema"
	"cqld/types"
)

// randomFilter draws a filter that can be encoded.
func randomFilter(rng *rand.Rand) *Filter {
	f := &Filter{PartitionKey: 1 + rng.IntN(3), Decisive: rng.IntN(2) == 0}
	for range rng.IntN(3) {
		f.Clustering = append(f.Clustering, ClusteringColumn{Type: randomType(rng, 2), Desc: rng.IntN(2) == 0})
	}
	for range rng.IntN(4) {
		c := Condition{Kind: schema.ColumnKind(1 + rng.IntN(4)), Type: randomType(rng, 3)}
		switch c.Kind {
		case schema.PartitionKey:
			c.Position = rng.IntN(f.PartitionKey)
		case schema.Clustering:
			if len(f.Clustering) == 0 {
				continue
			}
			c.Position = rng.IntN(len(f.Clustering))
			c.Type = f.Clustering[c.Position].Type
		default:
			c.Column = schema.ColumnID(rng.IntN(300))
			if c.Type.Kind().IsCollection() && rng.IntN(2) == 0 {
				c.Type = types.NewMap(c.Type.Elems()[0], types.Native(types.Int), false)
			}
		}
		c.Operator, c.Values = FilterEqual+FilterOperator(rng.IntN(5)), [][]byte{randomValue(rng)}
		switch {
		case c.Type.Kind() == types.Map && rng.IntN(3) > 0:
			c.Operator = FilterContains + FilterOperator(rng.IntN(3))
			if c.Operator == FilterEntry {
				c.Values = append(c.Values, randomValue(rng))
			}
		case c.Type.Kind().IsCollection() && (c.Type.MultiCell() || rng.IntN(2) == 0):
			c.Operator = FilterContains
		case rng.IntN(3) == 0:
			c.Operator, c.Values = FilterIn, append(c.Values, randomValue(rng))
		}
		if c.Supports() {
			f.Add(c)
		}
	}
	return f
}

func randomValue(rng *rand.Rand) []byte { return bytes.Repeat([]byte{byte(rng.IntN(3))}, rng.IntN(5)) }

func randomType(rng *rand.Rand, depth int) *types.Type {
	if depth > 1 {
		switch rng.IntN(8) {
		case 0:
			return types.NewList(randomType(rng, depth-1), true)
		case 1:
			return types.NewSet(randomType(rng, depth-1), true)
		case 2:
			return types.NewMap(randomType(rng, depth-1), randomType(rng, depth-1), true)
		case 3:
			return types.NewTuple(randomType(rng, depth-1), randomType(rng, depth-1))
		case 4:
			return types.NewVector(randomType(rng, depth-1), 1+rng.IntN(4))
		}
	}
	return types.Native(types.Ascii + types.Kind(rng.IntN(int(types.Varint))))
}

func TestFilterRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(24, 1))
	for range draws {
		want := randomFilter(rng)
		c := wire.NewCursor(appendFilter(nil, want))
		got := consumeFilter(&c)
		if err := c.Finish(); err != nil {
			t.Fatalf("%+v: %v", want, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("\n got %+v\nwant %+v", got, want)
		}
		if own := want.Clone(); !reflect.DeepEqual(own, want) {
			t.Fatalf("\nclone %+v\n   of %+v", own, want)
		}
	}
}

// FuzzConsumeFilter checks that a decoded filter can be encoded again, and that a matcher evaluates it on any row.
func FuzzConsumeFilter(f *testing.F) {
	rng := rand.New(rand.NewPCG(25, 1))
	for range 50 {
		f.Add(appendFilter(nil, randomFilter(rng)), encoded(randomRow(rng)))
	}
	f.Fuzz(func(t *testing.T, b, r []byte) {
		c := wire.NewCursor(b)
		filter := consumeFilter(&c)
		if c.Err() != nil {
			return
		}
		first := appendFilter(nil, filter)
		c = wire.NewCursor(first)
		if again := appendFilter(nil, consumeFilter(&c)); c.Finish() != nil || !bytes.Equal(again, first) {
			t.Fatalf("%+v is encoded as %x, then as %x (%v)", filter, first, again, c.Err())
		}
		decoded := NewRow()
		if DecodeRow(decoded, r) != nil {
			return
		}
		var m FilterMatcher
		m.Reset(filter, 100)
		m.Partition(NewPartitionKey(r), decoded)
		m.Clustering(r)
		m.Row(decoded)
	})
}

func TestFilterBoundsAreChecked(t *testing.T) {
	deep := types.Native(types.Int)
	for range filterTypeDepthMax {
		deep = types.NewList(deep, true)
	}
	one := Condition{Kind: schema.Regular, Operator: FilterEqual, Type: types.Native(types.Int), Values: [][]byte{{1}}}
	many := &Filter{}
	for range filterConditionsMax {
		if !many.Add(one) {
			t.Fatal("a filter has fewer conditions than its bound")
		}
	}
	if many.Add(one) {
		t.Error("a filter has more conditions than its bound")
	}
	many.Conditions = append(many.Conditions, one)
	wide, null, multi, counter := one, one, one, one
	wide.Operator, wide.Values = FilterIn, make([][]byte, filterValuesMax+1)
	for i := range wide.Values {
		wide.Values[i] = []byte{}
	}
	null.Values = [][]byte{nil}
	multi.Type = types.NewSet(types.Native(types.Int), false)
	counter.Type = types.Native(types.Counter)
	nested := one
	nested.Type = deep
	for name, c := range map[string]Condition{"values": wide, "null": null, "multi-cell": multi, "counter": counter,
		"type": nested} {
		if c.Supports() {
			t.Errorf("%s: supported", name)
		}
		if name == "null" {
			continue // has no separate encoding
		}
		cursor := wire.NewCursor(appendFilter(nil, &Filter{Conditions: []Condition{c}}))
		if consumeFilter(&cursor); cursor.Err() == nil {
			t.Errorf("%s: decoded", name)
		}
	}
	cursor := wire.NewCursor(appendFilter(nil, many))
	if consumeFilter(&cursor); cursor.Err() == nil {
		t.Error("too many conditions are decoded")
	}
}

// TestKeyConditionsDoNotDependOnVersions: whatever the cells of a row are, the conditions that several replicas
// evaluate have one answer for it, and they omit no row that matches the whole filter.
func TestKeyConditionsDoNotDependOnVersions(t *testing.T) {
	rng := rand.New(rand.NewPCG(26, 1))
	for range draws {
		f := randomFilter(rng)
		keys := f.KeyConditions()
		if keys == nil {
			continue
		}
		if !keys.OnKey() || keys.Decisive {
			t.Fatalf("%+v are not conditions on keys", keys)
		}
		var whole, narrow FilterMatcher
		whole.Reset(f, 100)
		narrow.Reset(keys, 100)
		key, clustering := NewPartitionKey(randomValue(rng)), randomValue(rng)
		a, b := randomRow(rng), randomRow(rng)
		matches := func(m *FilterMatcher, r *Row) bool {
			return m.Partition(key, r) && m.Clustering(clustering) && m.Row(r)
		}
		if matches(&narrow, a) != matches(&narrow, b) {
			t.Fatalf("%+v depends on the version", keys)
		}
		if matches(&whole, a) && !matches(&narrow, a) {
			t.Fatalf("%+v omits what %+v matches", keys, f)
		}
	}
}

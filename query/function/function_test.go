package function

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"cqld/internal/wire"
	"cqld/types"
)

// testEnv is a constant Env.
type testEnv struct{}

func (testEnv) NowMillis() int64     { return 1600000000000 }
func (testEnv) TimeUUID() [16]byte   { return [16]byte{6: 0x11, 8: 0x80} }
func (testEnv) Warn(string)          {}
func (testEnv) RandomUUID() [16]byte { return [16]byte{6: 0x41, 8: 0x80} }

// typed is an argument of one type.
type typed struct{ t *types.Type }

func (a typed) Match(t *types.Type) Match { return Assignable(a.t, t) }
func (a typed) Type() *types.Type         { return a.t }
func (a typed) String() string            { return a.t.String() }
func (a typed) IsMarker() bool            { return false }
func (a typed) Elements() int             { return -1 }

func typedArgs(ts ...*types.Type) []Arg {
	out := make([]Arg, len(ts))
	for i, t := range ts {
		out[i] = typed{t}
	}
	return out
}

// sample returns values of a type: boundary values, and random ones.
func sample(rng *rand.Rand, t *types.Type) [][]byte {
	out := [][]byte{nil, {}}
	add := func(texts ...string) {
		for _, text := range texts {
			if b, err := t.FromText(text); err == nil {
				out = append(out, b)
			}
		}
	}
	add("0", "1", "-1", "127", "-128", "32767", "-32768", "2147483647", "-2147483648", "9223372036854775807",
		"-9223372036854775808",
		"1.5", "-2.25", "NaN", "Infinity", "-Infinity", "1e400", "1e-400", "123456789012345678901234567890", "true",
		"a", "héllo",
		"2020-02-29", "12:34:56.789", "127.0.0.1", "::1", "1h", "-1mo2d", "1y", "0s",
		"50554d6e-29bb-11e5-b345-feff819cdc9f")
	for range 6 {
		b := make([]byte, rng.IntN(20))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		if t.Validate(b) == nil {
			out = append(out, b)
		}
	}
	return out
}

// TestNoFunctionPanics calls every signature with valid values of its types, nulls and empty ones, and checks that the
// results are values of the declared type.
func TestNoFunctionPanics(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	l := New()
	for _, name := range slices.Sorted(maps.Keys(l.fixed)) { // sorted, so that a seed is repeatable
		for _, f := range l.fixed[name] {
			choices := make([][][]byte, len(f.Args))
			for i, a := range f.Args {
				choices[i] = sample(rng, a)
			}
			for range 40 {
				args := make([][]byte, len(f.Args))
				for i := range args {
					args[i] = choices[i][rng.IntN(len(choices[i]))]
				}
				call(t, f, name, args)
			}
		}
	}
}

func call(t *testing.T, f *Function, name string, args [][]byte) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("%s %s of %x: %v", name, f, args, r)
		}
	}()
	var v []byte
	var err error
	if f.IsAggregate() {
		a := f.New(testEnv{})
		for range 3 {
			if err := a.Add(args); err != nil {
				return
			}
		}
		v, err = a.Result()
	} else {
		v, err = f.Eval(testEnv{}, args)
	}
	if err != nil {
		return
	}
	if err := f.Returns.Validate(v); err != nil {
		t.Errorf("%s of %x gives %x: %v", f, args, v, err)
	}
}

func TestAdditionCommutes(t *testing.T) {
	l, rng := New(), rand.New(rand.NewPCG(3, 4))
	for _, a := range numericKinds() {
		for _, b := range numericKinds() {
			f, err := l.Resolve(Call{Name: opAdd, Args: typedArgs(native(a), native(b))})
			if err != nil {
				t.Fatal(err)
			}
			g, err := l.Resolve(Call{Name: opAdd, Args: typedArgs(native(b), native(a))})
			if err != nil {
				t.Fatal(err)
			}
			if !f.Returns.Equal(g.Returns) {
				t.Fatalf("%s and %s", f, g)
			}
			for range 50 {
				xs, ys := sample(rng, native(a)), sample(rng, native(b))
				x, y := xs[rng.IntN(len(xs))], ys[rng.IntN(len(ys))]
				v, errV := f.Eval(testEnv{}, [][]byte{x, y})
				w, errW := g.Eval(testEnv{}, [][]byte{y, x})
				if (errV == nil) != (errW == nil) || f.Returns.Compare(v, w) != 0 {
					t.Fatalf("%s: %x + %x is %x and %x", f, x, y, v, w)
				}
			}
		}
	}
}

// TestSumOfPartsIsTheSum checks that the sum of integers does not depend on their order.
func TestSumOfPartsIsTheSum(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, k := range []types.Kind{types.Int, types.Bigint, types.Smallint, types.Tinyint, types.Varint,
		types.Decimal} {
		values := slices.DeleteFunc(sample(rng, native(k)), func(b []byte) bool {
			d, _ := native(k).Decimal(b)
			return d == nil || tooLarge(d)
		})
		want := newSum(native(k), native(k), false)
		for _, v := range values {
			if err := want.Add([][]byte{v}); err != nil {
				t.Fatal(err)
			}
		}
		first, _ := want.Result()
		for range 20 {
			rng.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
			s := newSum(native(k), native(k), false)
			for _, v := range values {
				if err := s.Add([][]byte{v}); err != nil {
					t.Fatal(err)
				}
			}
			if got, _ := s.Result(); native(k).Compare(got, first) != 0 {
				t.Fatalf("%s: %x and %x", native(k), got, first)
			}
		}
	}
}

func TestTokenIsThatOfTheKey(t *testing.T) {
	key := []*types.Type{native(types.Text)}
	f, err := New().Resolve(Call{Name: "token", Args: typedArgs(key...), PartitionKey: key})
	if err != nil {
		t.Fatal(err)
	}
	v, err := f.Eval(testEnv{}, [][]byte{[]byte("theo")})
	if err != nil {
		t.Fatal(err)
	}
	c := wire.NewCursor(v)
	if got := c.Int64(); got != -1457224325554927207 {
		t.Errorf("token is %d", got)
	}
}

func TestUnknownFunctionIsNone(t *testing.T) {
	f, err := New().Resolve(Call{Name: "nosuch"})
	if f != nil || err != nil {
		t.Errorf("%v, %v", f, err)
	}
}

func TestEveryBlobConversionGoesBack(t *testing.T) {
	l, rng := New(), rand.New(rand.NewPCG(7, 8))
	for k := types.Ascii; k <= types.Varint; k++ {
		if k == types.Blob {
			continue
		}
		typ := native(k)
		to, err := l.Resolve(Call{Name: typ.String() + "_as_blob", Args: typedArgs(typ)})
		if err != nil || to == nil {
			t.Fatalf("%s: %v", typ, err)
		}
		from, err := l.Resolve(Call{Name: "blobas" + typ.String(), Args: typedArgs(native(types.Blob))})
		if err != nil || from == nil {
			t.Fatalf("%s: %v", typ, err)
		}
		for _, v := range sample(rng, typ) {
			if v == nil || typ.Validate(v) != nil {
				continue
			}
			b, _ := to.Eval(testEnv{}, [][]byte{v})
			back, err := from.Eval(testEnv{}, [][]byte{b})
			if err != nil || string(back) != string(v) {
				t.Errorf("%s %x was converted back to %x: %v", typ, v, back, err)
			}
		}
	}
}

// TestFloorOfFarTimesEnds checks that months are counted correctly beyond 32 bits, for a wide interval and a distant
// time.
func TestFloorOfFarTimesEnds(t *testing.T) {
	for _, c := range []struct{ ms, want int64 }{
		{1<<63 - 1, 0}, {-1, 0}, {1700000000000, 1698796800000},
	} {
		got := floorMonths(min(0, c.ms), c.ms, types.DurationValue{Months: 1})
		if got > c.ms || c.want != 0 && got != c.want {
			t.Errorf("floor of %d is %d", c.ms, got)
		}
	}
	if got := floorMonths(0, 1<<62, types.DurationValue{Months: 1<<31 - 1, Days: 1<<31 - 1,
		Nanos: 1<<63 - 1}); got > 1<<62 {
		t.Errorf("got %d", got)
	}
}

package function

import (
	"math"
	"testing"

	"cqld/types"
)

// one returns the signature of a function of one argument.
func one(t *testing.T, name string, k types.Kind) *Function {
	t.Helper()
	f, err := New().Resolve(Call{Name: name, Args: typedArgs(native(k))})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestRoundIsJavas compares with results of Math.round and of BigDecimal.setScale(0, HALF_UP).
func TestRoundIsJavas(t *testing.T) {
	f := one(t, "round", types.Double)
	for x, want := range map[float64]float64{0.49999999999999994: 0, 0.5: 1, -0.5: 0, -0.51: -1, 1.5: 2, -1.5: -1,
		4503599627370497: 4503599627370497, 9007199254740993: 9007199254740992, 1e300: math.MaxInt64} {
		v, err := f.Eval(testEnv{}, [][]byte{f.Args[0].AppendFloat64(nil, x)})
		if got, _ := f.Returns.Float64(v); err != nil || got != want {
			t.Errorf("round(%v) = %v, not %v (%v)", x, got, want, err)
		}
	}
	d := one(t, "round", types.Decimal)
	for x, want := range map[string]string{"0.5": "1", "-0.5": "-1", "1E-10001": "0", "-9E-2000000": "0", "0.4": "0",
		"12.5": "13"} {
		if got := evalText(t, d, x); got != want {
			t.Errorf("round(%s) = %s, not %s", x, got, want)
		}
	}
}

// TestNegationKeepsTheScale checks that -v of a decimal has the digits of v, however large its exponent is.
func TestNegationKeepsTheScale(t *testing.T) {
	f := one(t, "_negate", types.Decimal)
	for _, x := range []string{"1E+3", "1.50", "1E+9999", "1E+10001", "12345E-20000"} {
		if got := evalText(t, f, x); got != "-"+evalText(t, f, got) {
			t.Errorf("-(%s) = %s", x, got)
		}
		if got := evalText(t, f, evalText(t, f, x)); got != evalText(t, one(t, "abs", types.Decimal), x) {
			t.Errorf("-(-(%s)) = %s", x, got)
		}
	}
	if got := evalText(t, f, "0.00"); got != "0.00" {
		t.Errorf("-(0.00) = %s", got)
	}
}

// evalText calls a function of one argument with the value of a text, and returns the text of the result.
func evalText(t *testing.T, f *Function, text string) string {
	t.Helper()
	arg, err := f.Args[0].FromText(text)
	if err != nil {
		t.Fatal(err)
	}
	v, err := f.Eval(testEnv{}, [][]byte{arg})
	if err != nil {
		t.Fatalf("%s of %s: %v", f, text, err)
	}
	return string(f.Returns.AppendText(nil, v))
}

// TestAveragesDoNotOverflow checks averages of doubles whose sum is not finite.
func TestAveragesDoNotOverflow(t *testing.T) {
	const most = math.MaxFloat64
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{most, most}, most},
		{[]float64{-most, -most, -most}, -most},
		{[]float64{most, most, -most, -most}, 0},
		{[]float64{most, most, most, 2}, most / 4 * 3},
		{[]float64{1, 2, 3}, 2},
		{[]float64{most, most, math.Inf(1)}, math.Inf(1)},
		{[]float64{math.Inf(-1), 1}, math.Inf(-1)},
	} {
		s := newSum(native(types.Double), native(types.Double), true)
		for range 2 { // the second time after Reset
			s.Reset()
			for _, x := range c.values {
				if err := s.Add([][]byte{native(types.Double).AppendFloat64(nil, x)}); err != nil {
					t.Fatal(err)
				}
			}
			v, err := s.Result()
			if got, _ := native(types.Double).Float64(v); err != nil || got != c.want {
				t.Errorf("avg of %v = %v, not %v (%v)", c.values, got, c.want, err)
			}
		}
	}
}

// TestLogarithmOfZeroIsRefused: a decimal has no infinities.
func TestLogarithmOfZeroIsRefused(t *testing.T) {
	for _, name := range []string{"log", "log10"} {
		for _, k := range []types.Kind{types.Decimal, types.Varint} {
			f := one(t, name, k)
			v, err := f.Eval(testEnv{}, [][]byte{zero(f.Args[0])})
			if err == nil {
				t.Errorf("%s(0) of %s = %x", name, f.Args[0], v)
			}
		}
	}
}

// TestCastOfAnEmptyText: an empty ascii is a value, unlike an empty number.
func TestCastOfAnEmptyText(t *testing.T) {
	if v, err := one(t, "cast_as_text", types.Ascii).Eval(testEnv{}, [][]byte{{}}); v == nil || err != nil {
		t.Errorf("CAST('' AS text) = %v, %v", v, err)
	}
	if v, err := one(t, "cast_as_text", types.Int).Eval(testEnv{}, [][]byte{{}}); v != nil || err != nil {
		t.Errorf("CAST of an empty int = %q, %v", v, err)
	}
}

package lua

import (
	"math"
	"math/big"

	"github.com/cockroachdb/apd/v3"

	"cqld/udf/value"
)

// mathConstants returns the members of math that are no functions. The values are members like functions, and can be
// read without a call.
func mathConstants() map[string]value.Value {
	// huge is infinity, as in Lua.
	return map[string]value.Value{"huge": math.Inf(1), "pi": math.Pi, "maxinteger": int64(math.MaxInt64),
		"mininteger": int64(math.MinInt64)}
}

// mathFunctions returns the functions of math. There are no random numbers, see the package comment.
//
//	abs, max, min                      exact; the result has the kind of the argument
//	ceil, floor                        floats become integers if they fit; decimals stay decimals
//	sqrt, exp, sin, cos, atan, log     floats, to which exact numbers are rounded
//	pow                                as the operator ^
//	fmod                               an integer of two integers, otherwise a float
//	idiv                               the quotient, rounded down
//
// The least integer has no positive counterpart, so abs leaves it negative. A division by -1 is a case of its own,
// since it overflows for that integer.
func mathFunctions() map[string]native {
	float := func(f func(float64) float64) native {
		return func(fr *frame, a args) []value.Value { return one(f(value.ToFloat(fr.m, a.number(0)))) }
	}
	extreme := func(sign int) native {
		return func(fr *frame, a args) []value.Value {
			best := a.number(0)
			for i := range a.values {
				// Exact, also between integers and floats. NaN compares with nothing: it stays if it is the first.
				if order, ok := value.Compare(fr.m, a.number(i), best); ok && order*sign > 0 {
					best = a.number(i)
				}
			}
			return one(best)
		}
	}
	return map[string]native{
		"abs": func(fr *frame, a args) []value.Value {
			n := a.number(0)
			if order, ok := value.Compare(fr.m, n, int64(0)); ok && order < 0 {
				n = value.Negate(fr.m, n)
			}
			return one(n)
		},
		"ceil": func(fr *frame, a args) []value.Value {
			return one(round(fr.m, a.number(0), math.Ceil, apd.RoundCeiling))
		},
		"floor": func(fr *frame, a args) []value.Value {
			return one(round(fr.m, a.number(0), math.Floor, apd.RoundFloor))
		},
		"max":  extreme(1),
		"min":  extreme(-1),
		"sqrt": float(math.Sqrt),
		"exp":  float(math.Exp),
		"sin":  float(math.Sin),
		"cos":  float(math.Cos),
		"atan": float(math.Atan),
		"log": func(fr *frame, a args) []value.Value {
			x := math.Log(value.ToFloat(fr.m, a.number(0)))
			if a.at(1) != nil {
				x /= math.Log(value.ToFloat(fr.m, a.number(1)))
			}
			return one(x)
		},
		"pow": func(fr *frame, a args) []value.Value { return one(value.Arith(fr.m, '^', a.number(0), a.number(1))) },
		"fmod": func(fr *frame, a args) []value.Value {
			x, y := a.number(0), a.number(1)
			n, ok := x.(int64)
			d, also := y.(int64)
			switch {
			case !ok || !also:
				return one(math.Mod(value.ToFloat(fr.m, x), value.ToFloat(fr.m, y)))
			case d == 0:
				a.bad(1, "zero")
			case d == -1:
				return one(int64(0))
			}
			// fmod truncates, unlike the operator %.
			return one(n % d)
		},
		"idiv": floorDivide,
		"tointeger": func(fr *frame, a args) []value.Value {
			if n, ok := toInteger(fr.m, a.at(0)); ok {
				return one(n)
			}
			return one(nil)
		},
		"type": func(_ *frame, a args) []value.Value {
			switch a.at(0).(type) {
			case int64, *big.Int:
				return one("integer")
			case float64:
				return one("float")
			case *apd.Decimal:
				return one("decimal")
			}
			return one(nil)
		},
	}
}

// floorDivide implements math.idiv(a, b): the quotient of two integers, rounded down, which later versions of Lua write
// a // b. For floats the result is an integer if it has 64 bits, otherwise a float.
func floorDivide(fr *frame, a args) []value.Value {
	x, y := a.number(0), a.number(1)
	n, ok := x.(int64)
	d, also := y.(int64)
	// Two integers: the quotient is exact.
	if ok && also {
		switch d {
		case 0:
			value.Failf("attempt to perform 'n//0'")
		case -1:
			// Not n / d, which overflows for the least integer. The negation wraps.
			return one(-n)
		}
		// Go truncates the quotient; it is one less if the signs differ.
		q := n / d
		if n%d != 0 && (n^d) < 0 {
			q--
		}
		return one(q)
	}
	// Floats and exact numbers: the quotient, rounded down.
	return one(round(fr.m, value.Arith(fr.m, '/', x, y), math.Floor, apd.RoundFloor))
}

// round returns a whole number: an integer if it is one of 64 bits. float rounds a float64, and mode a decimal: both
// must mean the same direction.
func round(m *value.Meter, v value.Value, float func(float64) float64, mode apd.Rounder) value.Value {
	// int64 and *big.Int are whole, and are returned at the end.
	switch v := v.(type) {
	case float64:
		// Infinity and large floats stay floats.
		x := float(v)
		// As in later versions of Lua, floor and ceil return integers.
		if n, ok := toInteger(m, x); ok {
			return n
		}
		return x
	case *apd.Decimal:
		m.Convert(v)
		const digits = 2000
		// Such a number has no fraction, or too many digits to write out.
		if v.Exponent > digits || v.NumDigits()+int64(v.Exponent) > digits {
			return v
		}
		m.Alloc(digits / 2)
		// The precision is not exceeded: the digits were bounded above.
		c := apd.BaseContext.WithPrecision(digits)
		c.Rounding = mode
		out := new(apd.Decimal)
		if _, err := c.Quantize(out, v, 0); err != nil {
			value.Failf("%v", err)
		}
		return out
	}
	return v
}

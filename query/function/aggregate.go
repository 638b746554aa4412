package function

import (
	"math"
	"math/big"

	"github.com/cockroachdb/apd/v3"

	"cqld/query/invalid"
	"cqld/types"
)

// addAggregates adds count, min, max, sum and avg. Each execution creates its own accumulator, so the closures
// capture only types. An aggregate of no rows is null for min and max, and 0 for the others.
func (l *Library) addAggregates() {
	l.add(&Function{Name: "count_rows", Returns: native(types.Bigint),
		New: func(Env) Accumulator { return new(counter) }}, "countrows")
	// As in Cassandra, the parameter is a blob, which matches values of every type.
	l.add(&Function{Name: "count", Args: args(types.Blob), Returns: native(types.Bigint),
		New: func(Env) Accumulator { return new(counter) }})
	// min and max are factories, because they exist for every type. They compare values in the order of the type.
	for name, sign := range map[string]int{"min": -1, "max": 1} {
		// The result has the type of the argument, so each type needs its own signature. The type is frozen, because
		// the result is a single value.
		l.make(name, func(name string, c Call) (*Function, error) {
			arg, err := onlyArg(name, c)
			if err != nil {
				return nil, err
			}
			t := arg.Freeze()
			return &Function{Name: name, Args: []*types.Type{t}, Returns: t,
				New: func(Env) Accumulator { return &extreme{t: t, sign: sign} }}, nil
		})
	}
	for _, k := range numericKinds() {
		// The sum has the type of its values and may overflow, as in Cassandra.
		t := native(k)
		l.add(&Function{Name: "sum", Args: args(k), Returns: t,
			New: func(Env) Accumulator { return newSum(t, t, false) }})
		l.add(&Function{Name: "avg", Args: args(k), Returns: t,
			New: func(Env) Accumulator { return newSum(t, t, true) }})
	}
}

// onlyArg returns the type of the only argument of a function on values of any type.
func onlyArg(name string, c Call) (*types.Type, error) {
	// Cassandra has another message for these functions than checkArgs for fixed signatures.
	if len(c.Args) != 1 {
		return nil, invalid.Errorf("Invalid number of arguments in call to function system.%s: 1 required but %d "+
			"provided", name, len(c.Args))
	}
	if t := c.Args[0].Type(); t != nil {
		return t, nil
	}
	return nil, cannotInfer(c.Args[0], name+"(any)")
}

// counter counts rows, or values that are not null. COUNT(*) has no arguments, and so counts every row. An overflow
// after 2^63 rows is not considered.
type counter struct{ n int64 }

func (c *counter) Add(args [][]byte) error {
	if !anyNull(args) {
		c.n++
	}
	return nil
}

func (c *counter) Result() ([]byte, error) { return native(types.Bigint).AppendInt64(nil, c.n), nil }
func (c *counter) Reset()                  { c.n = 0 }
func (c *counter) Size() int               { return 0 }

// extreme keeps the minimum or the maximum. sign is 1 for the maximum. It keeps a copy of the best value so far, so its
// memory is the length of that value.
type extreme struct {
	// t is the type of the values; its order determines the extreme.
	t     *types.Type
	sign  int
	value []byte
}

func (e *extreme) Add(args [][]byte) error {
	v := args[0]
	if v == nil || e.value != nil && e.t.Compare(v, e.value)*e.sign <= 0 {
		// Keep the first of several equal values, which may differ in their bytes.
		return nil
	}
	// A copy, because the argument is part of a page. The value is never nil here, even if it is empty.
	e.value = append(make([]byte, 0, len(v)), v...)
	return nil
}

func (e *extreme) Result() ([]byte, error) { return e.value, nil }
func (e *extreme) Reset()                  { e.value = nil }
func (e *extreme) Size() int               { return len(e.value) }

// sum adds numbers. As in Java, integers overflow, and their average is truncated. Floats are added with compensation
// for the rounding of each addition. For example, the sum of the tinyints 100 and 100 is -56, and their average 100.
type sum struct {
	// The types of the values and of the result.
	of, returns *types.Type
	// average means that Result divides the sum by n.
	average bool
	// n counts the values that are neither null nor empty.
	n     int64
	whole []byte // for integers and decimals
	float float64
	lost  float64 // the rounding error of float (Kahan)
	plain float64 // the uncompensated sum, which remains defined for infinities
	// exact replaces float as the sum of an average once float is infinite; nil before.
	exact *big.Float
}

// newSum returns a sum of no values. of and returns are equal for the native functions.
func newSum(of, returns *types.Type, average bool) *sum {
	s := &sum{of: of, returns: returns, average: average}
	s.Reset()
	return s
}

// wide returns the type in which values are added. The sum for an average has a wider type, so that it does not
// overflow. sum itself overflows like its result type.
func (s *sum) wide() *types.Type {
	switch {
	case s.of.Kind() == types.Decimal:
		return s.of
	// The sum of many values may exceed their type even if the average does not.
	case s.average:
		return native(types.Varint)
	}
	return s.returns
}

// isFloat reports whether float and not whole is the state.
func (s *sum) isFloat() bool { return s.of.Kind() == types.Float || s.of.Kind() == types.Double }

// Reset implements Accumulator. It is also called by newSum.
func (s *sum) Reset() {
	s.n, s.float, s.lost, s.plain, s.exact = 0, 0, 0, 0, nil
	switch s.wide().Kind() {
	case types.Decimal:
		s.whole = types.AppendDecimal(nil, apd.New(0, 0))
	// The state is in the fields for floats.
	case types.Float, types.Double:
	default:
		s.whole = s.wide().AppendInt64(nil, 0)
	}
}

// Size implements Accumulator. Only varints and decimals grow.
func (s *sum) Size() int { return len(s.whole) }

// Add implements Accumulator. Null and empty values are ignored.
func (s *sum) Add(args [][]byte) error {
	if len(args[0]) == 0 {
		return nil
	}
	s.n++
	if s.isFloat() {
		// The plain sum is needed only if the compensated one is not a number.
		x, _ := s.of.Float64(args[0])
		s.plain += x
		if s.average && s.addExact(x) {
			return nil
		}
		// Kahan's summation: lost is what the previous addition rounded away.
		y := x - s.lost
		t := s.float + y
		s.lost = (t - s.float) - y
		s.float = t
		return nil
	}
	// After an error whole is nil, but the statement fails, so the state is not used again.
	v, err := compute(opAdd, s.wide(), s.wide(), s.whole, args[0], s.of)
	s.whole = v
	return err
}

// exactBits holds any sum of 2^64 doubles: their exponents are from -1074 to 1023.
const exactBits = 1074 + 1024 + 64

// addExact adds a value to the exact sum of an average once the sum exceeds a double; the average itself may still
// fit into one. It reports false while a double suffices, and if the value or the sum is infinite or NaN.
func (s *sum) addExact(x float64) bool {
	if math.IsInf(x, 0) || math.IsNaN(x) || math.IsInf(s.float, 0) || math.IsNaN(s.float) {
		s.exact = nil // Result returns the simple sum, or the infinity in float
		return false
	}
	if s.exact == nil {
		if !math.IsInf(s.float+(x-s.lost), 0) {
			return false
		}
		s.exact = new(big.Float).SetPrec(exactBits).SetFloat64(s.float)
		s.exact.Sub(s.exact, big.NewFloat(s.lost))
	}
	s.exact.Add(s.exact, big.NewFloat(x))
	return true
}

// Result implements Accumulator. It may be called once for each group, and does not change the state.
func (s *sum) Result() ([]byte, error) {
	if s.isFloat() {
		if s.exact != nil {
			x, _ := new(big.Float).Quo(s.exact, big.NewFloat(float64(s.n))).Float64()
			return s.returns.AppendFloat64(nil, x), nil
		}
		x := s.float
		// After an infinity the compensated sum is NaN. The plain sum has the right result: the infinity, or NaN if
		// both infinities occurred.
		if x != x {
			x = s.plain
		}
		// Without values the state is 0, and so is the average.
		if s.average && s.n > 0 {
			x /= float64(s.n)
		}
		return s.returns.AppendFloat64(nil, x), nil
	}
	// The slice is the state itself; Add replaces it and does not change it.
	if !s.average {
		return s.whole, nil
	}
	// As in Cassandra, the average of no values is 0, not null.
	if s.n == 0 {
		return castZero(s.returns), nil
	}
	if s.of.Kind() == types.Decimal {
		return averageDecimal(s.whole, s.n)
	}
	v, err := compute(opDivide, s.wide(), s.wide(), s.whole, native(types.Bigint).AppendInt64(nil, s.n),
		native(types.Bigint))
	if err != nil || s.returns.Kind() == types.Varint {
		return v, err
	}
	// The average is between the values, so it fits their type.
	return s.returns.AppendInt64(nil, lowBits(v)), nil
}

// castZero returns 0 as a value of an integer type or decimal.
func castZero(t *types.Type) []byte {
	if t.Kind() == types.Decimal {
		return types.AppendDecimal(nil, apd.New(0, 0))
	}
	return t.AppendInt64(nil, 0)
}

// averageDecimal divides with the scale of the sum, rounding half to even. A sum beyond the bounds of computations is
// an error. For example, the average of 1.0 and 2.1 is 1.6, because 1.55 has one digit more than the sum.
func averageDecimal(total []byte, n int64) ([]byte, error) {
	d, ok := native(types.Decimal).Decimal(total)
	if !ok {
		return nil, invalid.Errorf("the sum is out of range")
	}
	// The quotient has up to decimalPrecision digits before it is rounded to the scale.
	c, q := decimalContext(), new(apd.Decimal)
	if _, err := c.Quo(q, d, apd.New(n, 0)); err != nil {
		return nil, invalid.Errorf("%v", err)
	}
	// Java's BigDecimal division of Cassandra's average rounds half to even.
	c.Rounding = apd.RoundHalfEven
	if _, err := c.Quantize(q, q, d.Exponent); err != nil {
		return nil, invalid.Errorf("%v", err)
	}
	return types.AppendDecimal(nil, q), nil
}

package function

import (
	"math"
	"sort"

	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/types"
)

// addTime adds the functions of time and the generators of identifiers. All calls in one statement see the same
// current time, because Env fixes it.
func (l *Library) addTime() {
	// Each call gives another identifier, also within one statement.
	l.addVolatile("now", types.Timeuuid, func(e Env) []byte { id := e.TimeUUID(); return id[:] })
	l.addVolatile("current_timeuuid", types.Timeuuid, func(e Env) []byte { id := e.TimeUUID(); return id[:] },
		"currenttimeuuid")
	l.addVolatile("uuid", types.UUID, func(e Env) []byte { id := e.RandomUUID(); return id[:] })
	l.addVolatile("current_timestamp", types.Timestamp,
		func(e Env) []byte { return wire.AppendInt64(nil, e.NowMillis()) }, "currenttimestamp")
	l.addVolatile("current_date", types.Date, func(e Env) []byte {
		return fromMillis(native(types.Date),
			e.NowMillis())
	}, "currentdate")
	// The time of day in UTC, in nanoseconds.
	l.addVolatile("current_time", types.Time, func(e Env) []byte {
		return wire.AppendInt64(nil, floorMod(e.NowMillis(), millisPerDay)*1e6)
	}, "currenttime")
	// One signature for each source type.
	for _, from := range []types.Kind{types.Timeuuid, types.Timestamp} {
		l.addTemporal("to_date", "todate", from, types.Date)
	}
	for _, from := range []types.Kind{types.Timeuuid, types.Date} {
		l.addTemporal("to_timestamp", "totimestamp", from, types.Timestamp)
	}
	for _, from := range []types.Kind{types.Timeuuid, types.Timestamp, types.Date} {
		l.addTemporal("to_unix_timestamp", "tounixtimestamp", from, types.Bigint)
	}
	l.addBound("min_timeuuid", "mintimeuuid", types.AppendMinTimeuuid)
	l.addBound("max_timeuuid", "maxtimeuuid", types.AppendMaxTimeuuid)
	l.addFloor()
}

// addVolatile adds a function without arguments whose value depends on the execution. It is not evaluated at PREPARE,
// but for each execution.
func (l *Library) addVolatile(name string, returns types.Kind, f func(Env) []byte, aliases ...string) {
	l.add(&Function{Name: name, Returns: native(returns), Volatile: true,
		Eval: func(e Env, _ [][]byte) ([]byte, error) { return f(e), nil }}, aliases...)
}

// addBound adds min_timeuuid or max_timeuuid: the least or greatest timeuuid of a millisecond, as a bound of a range.
// For example t >= min_timeuuid(a) AND t <= max_timeuuid(b) selects the identifiers of the milliseconds from a to b.
func (l *Library) addBound(name, alias string, f func([]byte, int64) []byte) {
	l.add(&Function{Name: name, Args: args(types.Timestamp), Returns: native(types.Timeuuid),
		Eval: strict(func(a [][]byte) ([]byte, error) {
			// An empty timestamp is not a point in time, so the result is null.
			if len(a[0]) == 0 {
				return nil, nil
			}
			return f(nil, millisOf(native(types.Timestamp), a[0])), nil
		})}, alias)
}

// addTemporal adds a conversion between types of time. All conversions go through Unix milliseconds. For example,
// to_date of a timeuuid is the day in UTC in which it was made.
func (l *Library) addTemporal(name, alias string, from, to types.Kind) {
	f, t := native(from), native(to)
	l.add(&Function{Name: name, Args: args(from), Returns: t, Eval: strict(func(a [][]byte) ([]byte, error) {
		if len(a[0]) == 0 {
			return nil, nil
		}
		return fromMillis(t, millisOf(f, a[0])), nil
	})}, alias)
}

// There are no leap seconds.
const millisPerDay = 24 * 60 * 60 * 1000

// millisOf returns the Unix time of a timestamp, date or timeuuid. v is not empty.
func millisOf(t *types.Type, v []byte) int64 {
	c := wire.NewCursor(v)
	switch t.Kind() {
	case types.Date:
		return types.MillisFromDate(c.Uint32())
	case types.Timeuuid:
		ms, _ := types.TimeuuidMillis(v)
		return ms
	}
	return c.Int64()
}

// fromMillis converts a Unix time in ms to a timestamp, bigint or date.
func fromMillis(t *types.Type, ms int64) []byte {
	if t.Kind() == types.Date {
		d, _ := types.DateFromMillis(ms)
		return wire.AppendUint32(nil, d)
	}
	return wire.AppendInt64(nil, ms)
}

// floorDiv rounds toward negative infinity, for times before 1970. floorDiv(-1, 10) is -1, where Go's division gives 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// floorMod returns the remainder of floorDiv, which has the sign of b. floorMod(-1, 10) is 9, where Go's remainder is
// -1.
func floorMod(a, b int64) int64 { return a - floorDiv(a, b)*b }

// addFloor adds floor(time, duration[, start]): the start of the interval that contains a time. Without start,
// intervals begin at the Unix epoch. The result has the type of the argument for a date or a time, and is a timestamp
// otherwise. For example floor('2024-05-17 13:47', 1h) is 13:00, and floor(date, 1mo) the first of the month.
func (l *Library) addFloor() {
	for _, from := range []types.Kind{types.Timestamp, types.Timeuuid, types.Date} {
		// The result for a timeuuid is a timestamp, because the start of an interval is not an identifier.
		returns := native(types.Timestamp)
		start := returns
		if from == types.Date {
			returns = native(types.Date)
			start = returns
		}
		f := native(from)
		l.add(&Function{Name: "floor", Args: []*types.Type{f, native(types.Duration)}, Returns: returns,
			Eval: strict(func(a [][]byte) ([]byte, error) { return floor(f, returns, a, 0) })})
		l.add(&Function{Name: "floor", Args: []*types.Type{f, native(types.Duration), start}, Returns: returns,
			Eval: strict(func(a [][]byte) ([]byte, error) { return floor(f, returns, a, millisOf(start, a[2])) })})
	}
	// A time of day has no start argument: its intervals begin at midnight.
	l.add(&Function{Name: "floor", Args: args(types.Time, types.Duration), Returns: native(types.Time),
		Eval: strict(func(a [][]byte) ([]byte, error) {
			d, ok := types.DecodeDuration(a[1])
			if !ok || len(a[0]) != 8 {
				return nil, nil
			}
			// With an interval longer than a day, the result would always be midnight.
			if d.Months != 0 || d.Days != 0 || d.Nanos > nanosPerDay {
				return nil, invalid.Errorf("For time values, the floor can only be computed for durations smaller " +
					"that a day")
			}
			if d.Nanos < 0 {
				return nil, invalid.Errorf("Negative durations are not supported by the floor function")
			}
			if d.Nanos == 0 {
				return nil, invalid.Errorf("The floor cannot be computed for a zero or negative duration")
			}
			c := wire.NewCursor(a[0])
			n := c.Int64()
			return wire.AppendInt64(nil, n-n%d.Nanos), nil
		})})
}

// floor implements floor(time, duration[, start]) for timestamps, timeuuids and dates. start is in Unix milliseconds, 0
// without the argument.
func floor(from, to *types.Type, a [][]byte, start int64) ([]byte, error) {
	d, ok := types.DecodeDuration(a[1])
	if !ok || len(a[0]) == 0 {
		return nil, nil
	}
	switch text := native(types.Duration).AppendText(nil, a[1]); {
	case from.Kind() == types.Date && d.Nanos != 0:
		return nil, invalid.Errorf(
			"The floor on date values cannot be computed for the %s duration as precision is below 1 day", text)
	case from.Kind() != types.Date && d.Nanos%nanosPerMilli != 0:
		return nil, invalid.Errorf("The floor cannot be computed for the %s duration as precision is below 1 "+
			"millisecond", text)
	case d.Months < 0 || d.Days < 0 || d.Nanos < 0:
		return nil, invalid.Errorf("Negative durations are not supported by the floor function")
	}
	ms := millisOf(from, a[0])
	if start > ms {
		return nil, invalid.Errorf("The floor function starting time is greater than the provided time")
	}
	if d.Months == 0 {
		// A day has 24 hours, as all times are UTC.
		step := int64(d.Days)*millisPerDay + d.Nanos/1e6
		if step == 0 {
			return fromMillis(to, ms), nil
		}
		// ms is not before start (checked above), so the division rounds down.
		return fromMillis(to, start+(ms-start)/step*step), nil
	}
	// The first interval begins at start.
	if start == ms {
		return fromMillis(to, ms), nil
	}
	return fromMillis(to, floorMonths(start, ms, d)), nil
}

// floorMonths returns the last start + n·d that is not after ms. Months differ in length, so it searches for n. A
// start out of range counts as after ms.
func floorMonths(start, ms int64, d types.DurationValue) int64 {
	at := start
	n := sort.Search(math.MaxInt32/int(d.Months), func(i int) bool {
		n := int64(i) + 1
		if int64(d.Days) > math.MaxInt32/n || d.Nanos > math.MaxInt64/n {
			return true
		}
		next, ok := types.AddDuration(start, types.DurationValue{Months: d.Months * int32(n), Days: d.Days * int32(n),
			Nanos: d.Nanos * n})
		return !ok || next > ms
	})
	if n > 0 {
		at, _ = types.AddDuration(start, types.DurationValue{Months: d.Months * int32(n), Days: d.Days * int32(n),
			Nanos: d.Nanos * int64(n)})
	}
	return at
}

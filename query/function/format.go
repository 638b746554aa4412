package function

import (
	"math"
	"strconv"
	"strings"

	"cqld/query/invalid"
	"cqld/types"
)

// addFormat adds format_bytes and format_time, as Cassandra 6 has them: a quantity with its unit, as text. For example
// format_bytes(2048) is "2 KiB", and format_time(90000) is "1.5 m".
func (l *Library) addFormat() {
	l.make("format_bytes", formatFactory(formatBytes))
	l.make("format_time", formatFactory(formatTime))
}

// unit is a unit of format_bytes or format_time. size is a multiple of the smallest unit. The units are in ascending
// order. Units of data are in bytes, and units of time in nanoseconds.
type unit struct {
	name string
	size uint64
}

// byteUnits returns the units of data. They are powers of 1024.
func byteUnits() []unit {
	return []unit{{"B", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}
}

// timeUnits returns the units of time. formatTime relies on the position of ms, its default source.
func timeUnits() []unit {
	const second = 1000 * 1000 * 1000
	return []unit{{"ns", 1}, {"us", 1000}, {"ms", 1000 * 1000}, {"s", second}, {"m", 60 * second},
		{"h", 3600 * second}, {"d", 86400 * second}}
}

// formatFactory returns the factory of a function f(quantity [, unit] [, unit]). format receives the quantity, which is
// not negative, and the names of the units.
func formatFactory(format func(n uint64, units []string) (string, error)) func(name string, c Call) (*Function, error) {
	return func(name string, c Call) (*Function, error) {
		// The list of types in the message is Cassandra's.
		if len(c.Args) < 1 || len(c.Args) > 3 {
			return nil, invalid.Errorf("Invalid number of arguments for function "+
				"system.%s([int|tinyint|smallint|bigint|varint|ascii|text], [ascii], [ascii])", name)
		}
		from, err := quantityType(name, c.Args[0])
		if err != nil {
			return nil, err
		}
		f := &Function{Name: name, Args: []*types.Type{from}, Returns: native(types.Text)}
		// Units are ascii in Cassandra's signatures.
		for range c.Args[1:] {
			f.Args = append(f.Args, native(types.Ascii))
		}
		// The function is not strict: formatQuantity handles null.
		f.Eval = func(_ Env, args [][]byte) ([]byte, error) { return formatQuantity(from, args, format) }
		return f, checkArgs(f, c.Args)
	}
}

// quantityType returns the type of the first argument: an integer, or a text that contains one.
func quantityType(name string, a Arg) (*types.Type, error) {
	if t := a.Type(); t != nil {
		switch t.Kind() {
		case types.Int, types.Tinyint, types.Smallint, types.Bigint, types.Varint, types.Ascii, types.Text:
			return t, nil
		}
		return nil, invalid.Errorf("Function system.%s requires an argument of type "+
			"[int|tinyint|smallint|bigint|varint|ascii|text], "+
			"but found argument %s of type %s", name, a, TypeText(t))
	}
	// A bind marker or null has no type: it is read as bigint.
	return native(types.Bigint), nil
}

// formatQuantity evaluates the arguments and calls format. A null quantity gives null, another null argument is an
// error.
func formatQuantity(from *types.Type, args [][]byte, format func(uint64, []string) (string, error)) ([]byte, error) {
	if args[0] == nil {
		return nil, nil
	}
	if anyNull(args) {
		return nil, invalid.Errorf("none of the arguments may be null")
	}
	text := string(from.AppendText(nil, args[0]))
	// For a text, the value itself is the number.
	if k := from.Kind(); k == types.Ascii || k == types.Text {
		text = string(args[0])
	}
	// The quantity must fit into a bigint. A larger varint fails like a text that is not a number.
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil && len(args[0]) == 0:
		return nil, nil // an empty value of a number
	case err != nil:
		return nil, invalid.Errorf("unable to convert string '%s' to a value of type long", text)
	case n < 0:
		return nil, invalid.Errorf("value must be non-negative")
	}
	var units []string
	for _, a := range args[1:] {
		units = append(units, string(a))
	}
	out, err := format(uint64(n), units)
	if err != nil {
		return nil, err
	}
	return []byte(out), nil
}

// formatBytes implements format_bytes. Without units, the largest unit that is less than the quantity is chosen, and
// the source is bytes.
func formatBytes(n uint64, units []string) (string, error) {
	all := byteUnits()
	target := all[0]
	if len(units) == 0 {
		// Strictly less: 1024 bytes are shown in B.
		for _, u := range all[1:] {
			if n > u.size {
				target = u
			}
		}
	}
	return formatUnits(n, all[0], target, all, units, func(name string, all []unit) (unit, error) {
		for _, u := range all {
			if strings.EqualFold(u.name, name) {
				return u, nil
			}
		}
		return unit{}, invalid.Errorf("Unsupported data storage unit: %s. Supported units are: %s", name,
			unitNames(all))
	})
}

// formatTime implements format_time. Without units, the largest unit that is not greater than the quantity is chosen,
// and the source is milliseconds.
func formatTime(n uint64, units []string) (string, error) {
	all := timeUnits()
	source := all[2] // ms
	target := source
	if len(units) == 0 {
		// The source is milliseconds, so smaller units are not candidates.
		for _, u := range all[3:] {
			if n >= u.size/source.size {
				target = u
			}
		}
	}
	return formatUnits(n, source, target, all, units, func(name string, all []unit) (unit, error) {
		// Units are case-insensitive, µs is us.
		lower := strings.ToLower(name)
		if lower == "µs" {
			lower = "us"
		}
		for _, u := range all {
			if u.name == lower {
				return unit{name, u.size}, nil // shown as given
			}
		}
		return unit{}, invalid.Errorf("Unsupported time unit: %s. Supported units are: %s", name, unitNames(all))
	})
}

// formatUnits converts a quantity and shows it. units contains nothing, the target unit, or the source and the target
// unit. find returns an error for a name that is no unit.
func formatUnits(n uint64, source, target unit, all []unit, units []string,
	find func(string, []unit) (unit, error)) (string, error) {
	var err error
	if len(units) == 2 {
		if source, err = find(units[0], all); err != nil {
			return "", err
		}
	}
	// One unit is the target, two are the source and the target.
	if len(units) > 0 {
		if target, err = find(units[len(units)-1], all); err != nil {
			return "", err
		}
	}
	// Float arithmetic, as in Cassandra: large quantities lose digits.
	x := float64(n) * float64(source.size) / float64(target.size)
	if all[0].name == "B" {
		x = min(x, math.MaxInt64) // as in Cassandra, which does not bound times
	}
	return quantityText(x) + " " + target.name, nil
}

// quantityText rounds a quantity to two decimals, halves up, as Cassandra does, and omits zeros at the end. x is not
// negative. For example 1.125 becomes 1.13, 1.5 stays 1.5, and 2 has no decimals.
func quantityText(x float64) string {
	const noFraction = 1 << 53
	// A number this large has no fraction.
	if x >= noFraction {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	// an odd number of eighths: the only halves of a hundredth that a float64 represents exactly
	if math.Mod(x*8, 2) == 1 {
		x += 0.005
	}
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(x, 'f', 2, 64), "0"), ".")
}

// unitNames returns the names for an error.
func unitNames(all []unit) string {
	names := make([]string, len(all))
	for i, u := range all {
		names[i] = u.name
	}
	return strings.Join(names, ", ")
}

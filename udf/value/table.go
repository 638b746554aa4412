package value

import (
	"math"
	"math/big"
	"strings"

	"github.com/cockroachdb/apd/v3"
)

// Value is a value of a script: nil, bool, int64, float64, string (bytes), *big.Int, *apd.Decimal, *Table, or a
// function of the interpreter, which is a pointer. Values are compared with Equal, not with ==: numbers of different
// kinds may be equal.
type Value = any

// Table is an associative array. Its order of iteration is deterministic: the values of 1, 2, …, then other keys in
// the order of their insertion. A table is used by one call only. The list serves arrays without a map. Entries of
// removed keys, and unused places at the end of the list, are never removed, because a script may remove keys during
// an iteration, which relies on stable positions.
//
// The order matters because scripts must give the same result on every node, whatever the order of Go's maps.
//
//	list     [1] [2] [3]      keys 1 … length, then places that were used before
//	entries  {k, v} {k, nil}  other keys in the order of insertion; nil was removed
//	index    form of k ─▶ position in entries
//
// Invariant: a key with a value is either in the list or in entries, never in both.
type Table struct {
	// list contains the values of the keys 1, 2, …. Values from length on are nil: their keys were removed, or are in
	// entries.
	list   []Value
	length int // list[length-1] is not nil
	holes  int // nil in list[:length]
	// index maps the comparable form of a key to its position in entries. Forms are int64, float64, bool, string,
	// bigKey, decimalKey, or a pointer.
	index   map[Value]int
	entries []entry
	// live is the number of entries with a value.
	live int
}

// entry is a key that is not in the list.
type entry struct {
	key, value Value // value is nil after a removal
}

// The memory in bytes of a table, of a value in the list, and of another entry. They are measured estimates, rounded
// up: list and index grow by copying, and numbers are allocated.
const (
	tableBytes  = 96
	listedBytes = 56
	entryBytes  = 240
)

// NewTable returns an empty table. The memory of its values is counted when they are set.
func NewTable(m *Meter) *Table {
	m.Alloc(tableBytes)
	return &Table{}
}

// Len returns the number of the values of 1, 2, …. It is the border that # of Lua returns: the value of the next key is
// nil.
func (t *Table) Len() int { return t.length }

// Count returns the number of keys that have a value. It is the size of a Java collection.
func (t *Table) Count() int { return t.length - t.holes + t.live }

// IsList reports whether all keys are in 1, 2, …. One of them may have no value. An empty table is a list.
func (t *Table) IsList() bool { return t.live == 0 }

// bigKey and decimalKey are the comparable forms of keys: of an integer of more than 64 bits, and of a decimal without
// trailing zeros. Both are values that Go's maps can compare.
type bigKey struct {
	magnitude string
	sign      int
}
type decimalKey struct {
	digits   string
	exponent int64
	negative bool
}

// keyExponentMax bounds the exponents of decimals that are whole numbers of their own form. Beyond it, the form keeps
// the exponent instead of the zeros.
const keyExponentMax = 100

// keyOf returns the comparable form of a key; numbers that are equal have equal forms. It is called for each access, so
// the usual keys, int64 and string, return at once.
func keyOf(m *Meter, k Value) Value {
	m.Scan(k)
	switch k := k.(type) {
	case float64:
		// 1.0 and 1 are one key, as in Lua.
		if k == math.Trunc(k) && math.Abs(k) < 1<<62 {
			return int64(k)
		}
	case *big.Int:
		if k.IsInt64() {
			return k.Int64()
		}
		m.Alloc(numberBytes(k))
		return bigKey{string(k.Bytes()), k.Sign()}
	case *apd.Decimal:
		m.Alloc(3 * numberBytes(k))
		digits := k.Coeff.String()
		all := len(digits)
		// 1.0 and 1.00 are equal, and so must be their forms.
		digits = strings.TrimRight(digits, "0")
		exponent := int64(k.Exponent) + int64(all-len(digits))
		switch {
		case digits == "":
			return int64(0)
		// A fraction, or a number whose digits would take too much memory to write out.
		case exponent < 0 || exponent > keyExponentMax:
			return decimalKey{digits, exponent, k.Negative}
		}
		m.Convert(k)
		n, _ := new(big.Int).SetString(digits+strings.Repeat("0", int(exponent)), 10)
		if k.Negative {
			n.Neg(n)
		}
		// A whole decimal has the form of the integer.
		return keyOf(m, n)
	}
	return k
}

// Get returns the value of a key, or nil. A key that cannot be in a table, such as NaN, has no value.
func (t *Table) Get(m *Meter, k Value) Value {
	key := keyOf(m, k)
	if n, ok := key.(int64); ok && n >= 1 && n <= int64(t.length) {
		return t.list[n-1]
	}
	if i, ok := t.index[key]; ok {
		return t.entries[i].value
	}
	return nil
}

// Set sets the value of a key; nil removes it. It panics with a Fault for the keys nil and NaN. Setting nil to an
// absent key does nothing.
func (t *Table) Set(m *Meter, k, v Value) {
	key := keyOf(m, k)
	if f, ok := key.(float64); key == nil || ok && f != f {
		Failf("table index is nil or NaN")
	}
	if n, ok := key.(int64); ok && n >= 1 && n <= int64(t.length)+1 {
		t.setListed(m, int(n), v)
		return
	}
	i, ok := t.index[key]
	switch {
	case ok:
		// Reuse the entry of a removed key.
		if t.entries[i].value == nil && v != nil {
			t.live++
		} else if t.entries[i].value != nil && v == nil {
			t.live--
		}
		t.entries[i].value = v
	case v != nil:
		m.Alloc(entryBytes)
		if t.index == nil {
			t.index = map[Value]int{}
		}
		t.index[key] = len(t.entries)
		// The key itself is kept, not its form: iterations return it.
		t.entries = append(t.entries, entry{k, v})
		t.live++
	}
}

// setListed sets the value of the key n, which is in the list or follows its end. n is at most length+1.
func (t *Table) setListed(m *Meter, n int, v Value) {
	if n <= t.length {
		switch was := t.list[n-1]; {
		case was == nil && v != nil:
			t.holes--
		case was != nil && v == nil:
			t.holes++
		}
		t.list[n-1] = v
		t.trim()
		return
	}
	t.takeEntry(n) // the key was an entry while the list was shorter
	if v != nil {
		t.extend(m, v)
		t.follow(m)
	}
}

// takeEntry removes the entry of a key, and returns its value or nil. The place of the entry remains, so that
// iterations keep their positions.
func (t *Table) takeEntry(n int) (v Value) {
	if i, ok := t.index[int64(n)]; ok && t.entries[i].value != nil {
		v, t.entries[i].value = t.entries[i].value, nil
		t.live--
	}
	return v
}

// follow moves entries to the list whose keys follow its end. It keeps the list as long as possible: t[2] before t[1]
// ends up in the list.
func (t *Table) follow(m *Meter) {
	for v := t.takeEntry(t.length + 1); v != nil; v = t.takeEntry(t.length + 1) {
		t.extend(m, v)
	}
}

// extend adds a value that is not nil at the end of the list, in the place of one that was removed if there is any. Its
// cost is amortized: append doubles the list.
func (t *Table) extend(m *Meter, v Value) {
	if t.length == len(t.list) {
		m.Alloc(listedBytes)
		t.list = append(t.list, nil)
	}
	t.list[t.length] = v
	t.length++
}

// trim ends the list after its last value. The places remain. length decreases only here and in Remove.
func (t *Table) trim() {
	for t.length > 0 && t.list[t.length-1] == nil {
		t.length--
		t.holes--
	}
}

// Append adds a value after the last one. Lists of Java use it, and collections that are converted.
func (t *Table) Append(m *Meter, v Value) { t.Set(m, int64(t.length+1), v) }

// Next returns the entry at a position and the following position, which is negative after the last entry. The first
// position is 0. It counts the entries that were removed, over which it steps. Changes of values during an iteration
// are allowed; new keys may or may not be seen.
func (t *Table) Next(m *Meter, at int) (k, v Value, next int) {
	const skippedPerStep = 16
	from := at
	for ; at < len(t.list); at++ {
		if t.list[at] != nil {
			m.Work(int64(at-from) / skippedPerStep)
			return int64(at + 1), t.list[at], at + 1
		}
	}
	for i := at - len(t.list); i < len(t.entries); i++ {
		if e := t.entries[i]; e.value != nil {
			m.Work(int64(len(t.list)+i-from) / skippedPerStep)
			return e.key, e.value, len(t.list) + i + 1
		}
	}
	m.Work(int64(len(t.list)+len(t.entries)-from) / skippedPerStep)
	return nil, nil, -1
}

// After returns the position after a key. ok is false if the table has never had the key. It implements Lua's next.
func (t *Table) After(m *Meter, k Value) (at int, ok bool) {
	if k == nil {
		return 0, true
	}
	key := keyOf(m, k)
	n, listed := key.(int64)
	listed = listed && n >= 1 && n <= int64(len(t.list))
	i, entered := t.index[key]
	// A key after the end of the list may have been in both. It is where its value is, or was last in the list.
	if listed && (n <= int64(t.length) || !entered || t.entries[i].value == nil) {
		return int(n), true
	}
	return len(t.list) + i + 1, entered
}

// Values returns the list for reading and sorting in place. It may contain nil where values were removed. The slice is
// valid until the table changes.
func (t *Table) Values() []Value { return t.list[:t.length] }

// Remove removes the value of the key n, which is in the list, and moves the following ones. It counts one step for
// eight values after n.
func (t *Table) Remove(m *Meter, n int) Value {
	v := t.list[n-1]
	m.Work(int64(t.length-n) / 8)
	copy(t.list[n-1:], t.list[n:t.length])
	t.length--
	t.list[t.length] = nil
	if v == nil {
		t.holes--
	}
	t.trim() // the value before the last one may have been nil
	return v
}

// Insert inserts a value that is not nil at the key n, and moves the following ones. n is at most Len. Values move up
// by one.
func (t *Table) Insert(m *Meter, n int, v Value) {
	m.Work(int64(t.length-n) / 8)
	t.takeEntry(t.length + 1) // the last value of the list moves to its key
	t.extend(m, v)
	copy(t.list[n:t.length], t.list[n-1:])
	t.list[n-1] = v
	t.follow(m)
}

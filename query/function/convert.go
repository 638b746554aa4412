package function

import (
	"encoding/hex"
	"strings"

	"cqld/query/invalid"
	"cqld/ring"
	"cqld/types"
)

// addBlob adds <type>_as_blob and blob_as_<type>. Ranges over kinds cover the native types, which are consecutive. For
// example int_as_blob(1) is 0x00000001, and blob_as_int(0x00000001) is 1.
func (l *Library) addBlob() {
	for k := types.Ascii; k <= types.Varint; k++ {
		// There is no blob_as_blob.
		if k == types.Blob {
			continue
		}
		t := native(k)
		l.addBlobOf(t.String(), t)
	}
	// varchar is an alias of text.
	l.addBlobOf("varchar", native(types.Text))
}

// addBlobOf adds both directions for one type, with the names of Cassandra before and after 5.0. Neither direction
// changes the bytes; blob_as_… validates them.
func (l *Library) addBlobOf(word string, t *types.Type) {
	// The wire form of every value is a blob.
	identity := strict(func(a [][]byte) ([]byte, error) { return a[0], nil })
	l.add(&Function{Name: word + "_as_blob", Args: []*types.Type{t}, Returns: native(types.Blob), Eval: identity},
		word+"asblob")
	// Not an alias, because the error contains the name that the client used.
	for _, name := range []string{"blob_as_" + word, "blobas" + word} {
		l.add(&Function{Name: name, Args: args(types.Blob), Returns: t, Eval: strict(func(a [][]byte) ([]byte, error) {
			if err := t.Validate(a[0]); err != nil {
				return nil, invalid.Errorf("In call to function system.%s, value 0x%s is not a valid binary "+
					"representation for type %s",
					name, hex.EncodeToString(a[0]), t)
			}
			return a[0], nil
		})})
	}
}

// addCast adds the functions for CAST(x AS type). Casts between equal types are not calls: package selection omits
// them.
func (l *Library) addCast() {
	numbers := numericKinds()
	// One signature for each pair of different types.
	for _, to := range numbers {
		// Counters can be cast to other numbers, but no number to a counter.
		if to == types.Counter {
			continue
		}
		// A cast to the same type is not a call and needs no signature.
		for _, from := range numbers {
			if from != to {
				l.addCastOf(from, to, castNumber)
			}
		}
	}
	// Cassandra casts these types to text.
	for _, to := range []types.Kind{types.Ascii, types.Text} {
		for _, from := range append(numericKinds(), types.Boolean, types.Inet, types.UUID, types.Timeuuid,
			types.Timestamp, types.Date, types.Time) {
			l.addCastOf(from, to, castText)
		}
	}
	l.addCastOf(types.Ascii, types.Text, castSame)
	// Casts between times convert to milliseconds first. A cast to date drops the time of day.
	for _, pair := range [][2]types.Kind{{types.Timeuuid, types.Date}, {types.Timeuuid, types.Timestamp},
		{types.Timestamp, types.Date}, {types.Date, types.Timestamp}} {
		l.addCastOf(pair[0], pair[1], func(from, to *types.Type, v []byte) ([]byte, error) {
			return fromMillis(to, millisOf(from, v)), nil
		})
	}
}

// addCastOf adds one cast. A null value gives null, and an empty one unless it is a text.
func (l *Library) addCastOf(from, to types.Kind, f func(from, to *types.Type, v []byte) ([]byte, error)) {
	a, b := native(from), native(to)
	// camel is the name before Cassandra 5.0.
	camel := "castas" + b.String()
	l.add(&Function{Name: "cast_as_" + b.String(), Args: []*types.Type{a}, Returns: b,
		Eval: strict(func(x [][]byte) ([]byte, error) {
			if len(x[0]) == 0 && from != types.Ascii {
				return nil, nil
			}
			return f(a, b, x[0])
		})}, camel)
}

// castSame returns the value: ascii is a subset of text.
func castSame(_, _ *types.Type, v []byte) ([]byte, error) { return v, nil }

// marshalException is the name of the exception, which Cassandra's errors of from_json begin with. Clients of Cassandra
// compare the text of the error.
const marshalException = "org.apache.cassandra.serializers.MarshalException: "

// addJSON adds to_json and from_json with their older names.
func (l *Library) addJSON() {
	l.make("to_json", func(name string, c Call) (*Function, error) {
		// Cassandra has different messages for the two functions.
		if len(c.Args) != 1 {
			return nil, invalid.Errorf("Invalid number of arguments for function system.to_json(any)")
		}
		t := c.Args[0].Type()
		if t == nil {
			return nil, cannotInfer(c.Args[0], "to_json(any)")
		}
		return &Function{Name: name, Args: []*types.Type{t}, Returns: native(types.Text),
			// The function is not strict, because it converts null to the JSON null.
			Eval: func(_ Env, a [][]byte) ([]byte, error) {
				if a[0] == nil {
					return []byte("null"), nil
				}
				return t.AppendJSON(nil, a[0]), nil
			}}, nil
	}, "tojson")
	l.make("from_json", func(name string, c Call) (*Function, error) {
		if len(c.Args) != 1 {
			return nil, invalid.Errorf("Unexpected number of arguments for %s(); expected 1 but got %d", name,
				len(c.Args))
		}
		// The result has the type of the receiver, such as a column in INSERT. A selection has none.
		if c.Receiver == nil {
			return nil, invalid.Errorf("%s() cannot be used in the selection clause of a SELECT statement", name)
		}
		t := c.Receiver
		f := &Function{Name: name, Args: args(types.Text), Returns: t, Decodes: true}
		f.Eval = func(env Env, a [][]byte) ([]byte, error) {
			if anyNull(a) {
				return nil, nil
			}
			// Reserve memory before the parser allocates. The reservation is returned after the call, when the parsed
			// values are garbage.
			if r, n := reserverOf(env), JSONBytes(a[0]); r != nil && n > reserveFree {
				if err := r.Grow(n); err != nil {
					return nil, err
				}
				defer r.Shrink(n)
			}
			// The text "now" makes the result depend on the time of execution.
			volatile := false
			now := func() int64 {
				if env == nil {
					volatile = true
					return 0
				}
				return env.NowMillis()
			}
			v, err := t.FromJSON(a[0], now)
			if volatile {
				return nil, ErrNeedsEnv
			}
			if err != nil {
				// In Cassandra, the error of a duration does not begin with the exception's name.
				if t.Kind() == types.Duration && !strings.HasPrefix(err.Error(), "Expected ") {
					return nil, &invalid.Error{Msg: err.Error()}
				}
				return nil, &invalid.FunctionFailure{Keyspace: "system", Function: name, Args: []string{"text"},
					Msg: marshalException + err.Error()}
			}
			return v, nil
		}
		return f, nil
	}, "fromjson")
}

// reserver is an Env that accounts for the memory of a request. The Env of compilations and of conditional changes
// does not implement it.
type reserver interface {
	// Grow reserves n bytes, and may wait. Shrink returns n bytes.
	Grow(n int) error
	Shrink(n int)
}

// reserverOf returns env as a reserver, or nil.
func reserverOf(env Env) reserver {
	r, _ := env.(reserver)
	return r
}

// The memory of JSON, in bytes.
const (
	// jsonElement is the memory of an element during decoding: a parsed value of 72 bytes in a slice that grows, and
	// its CQL value in another one.
	jsonElement = 160
	// jsonText is the memory for each byte of the JSON text: the decoder's buffer, the parsed text and the CQL value.
	jsonText = 8
	// reserveFree is how much memory a call may use without a reservation.
	reserveFree = 64 << 10
)

// JSONBytes returns an upper bound, in bytes, of the memory for decoding a JSON text, including the CQL value. A
// comma or a bracket precedes each element, so their number bounds the number of elements.
func JSONBytes(text []byte) int {
	n := 1
	for _, b := range text {
		if b == ',' || b == '[' || b == '{' {
			n++
		}
	}
	return n*jsonElement + len(text)*jsonText
}

// addToken adds token. Its arguments are the columns of the partition key; their number and types depend on the table,
// so the signature is made for each call. token(k) in a SELECT list equals the token by which the ring places the row.
func (l *Library) addToken() {
	l.make("token", func(name string, c Call) (*Function, error) {
		return &Function{Name: name, Args: c.PartitionKey, Returns: native(types.Bigint),
			Eval: func(_ Env, a [][]byte) ([]byte, error) {
				if anyNull(a) {
					return nil, nil
				}
				return native(types.Bigint).AppendInt64(nil, int64(ring.Murmur3(partitionKey(a)))), nil
			}}, nil
	})
}

// partitionKey returns the serialized form of a key. It must equal row.AppendKeyComponents: the key of a table with
// several columns is a composite, with a length of two bytes and an end byte for each. The key of a table with one
// column is the bare value.
func partitionKey(values [][]byte) []byte {
	if len(values) == 1 {
		return values[0]
	}
	var key []byte
	for _, v := range values {
		key = append(key, byte(len(v)>>8), byte(len(v)))
		key = append(append(key, v...), 0)
	}
	return key
}

package function

import (
	"errors"
	"slices"
	"strings"

	"cqld/query/invalid"
	"cqld/types"
)

// Call is a call to be resolved. Args are matched against each candidate, possibly several times, and are not
// changed.
type Call struct {
	Keyspace string // as written; empty means that native functions and those of the current keyspace are considered
	Name     string // without keyspace; native functions have names in lower case
	Args     []Arg
	// Receiver is the required type of the result; nil means any type. It only selects one of several matching
	// signatures.
	Receiver *types.Type
	// User are the user-defined functions with this name in the keyspace.
	User []*Function
	// PartitionKey are the types of the partition key, for token().
	PartitionKey []*types.Type
	// Trial means that the caller only needs to know whether a signature matches, so errors have no message.
	// Operators within an expression are resolved for many types, and each message would contain the whole
	// subexpression.
	Trial bool
}

// errNoSignature is the error of a trial. It never reaches a client.
var errNoSignature = errors.New("no signature matches")

// shown returns the name for messages: functions that implement syntax are named with their keyspace. Resolve does
// not use this name to find functions.
func (c *Call) shown() string {
	if strings.HasPrefix(c.Name, "_") || strings.HasPrefix(c.Name, "cast_as_") {
		return "system." + c.Name
	}
	if c.Keyspace != "" {
		return c.Keyspace + "." + c.Name
	}
	return c.Name
}

// Exists reports whether there is a native function with this name. The name must be in lower case. It does not look
// for user-defined functions.
func (l *Library) Exists(name string) bool {
	_, fixed := l.fixed[name]
	_, made := l.factories[name]
	return fixed || made
}

// Resolve returns the signature for a call. It returns nil without an error if there is no function with that name.
// Resolve tries user-defined functions first, so an exact match of one hides a native function. An error is from
// package invalid, with Cassandra's message, or errNoSignature for a trial. If the error is not nil, the returned
// Function may not match the arguments and must be ignored.
func (l *Library) Resolve(c Call) (*Function, error) {
	candidates := c.User
	if c.Keyspace == "" || c.Keyspace == "system" {
		native, err := l.native(c)
		// The error of a factory is final only if no user-defined function can match.
		if err != nil && len(c.User) == 0 {
			return nil, err
		}
		// Clip c.User, which may be shared, so that append does not write into its array.
		candidates = append(slices.Clip(c.User), native...)
	}
	switch len(candidates) {
	case 0:
		return nil, nil
	case 1:
		return candidates[0], checkArgs(candidates[0], c.Args)
	}
	return pick(c, candidates)
}

// native returns the native candidates of a call. A name has either fixed signatures or a factory, never both.
func (l *Library) native(c Call) ([]*Function, error) {
	make, ok := l.factories[c.Name]
	if !ok {
		return l.fixed[c.Name], nil
	}
	f, err := make(c)
	if err != nil {
		return nil, err
	}
	return []*Function{f}, nil
}

// checkArgs returns the error in the arguments for a call of the only function with its name. With one signature, the
// error can name the argument; with several, it lists the signatures.
func checkArgs(f *Function, args []Arg) error {
	if len(args) != len(f.Args) {
		return invalid.Errorf("Invalid number of arguments in call to function %s: %d required but %d provided",
			f.Qualified(), len(f.Args), len(args))
	}
	for i, a := range args {
		if a.Match(f.Args[i]) == NoMatch {
			return invalid.Errorf("Type error: %s cannot be passed as argument %d of function %s of type %s",
				a, i, f.Qualified(), TypeText(f.Args[i]))
		}
	}
	return nil
}

// pick returns the best of several signatures: the first exact match, or the only weak match. It ignores signatures
// with another result type than required. For example, of (int) and (bigint), a bind marker matches both weakly, and
// the call is ambiguous.
func pick(c Call, candidates []*Function) (*Function, error) {
	var weak []*Function
	// Try candidates in list order, so that the result is deterministic.
	for _, f := range candidates {
		if c.Receiver != nil && Assignable(f.Returns, c.Receiver) == NoMatch {
			continue
		}
		switch matchArgs(f, c.Args) {
		case ExactMatch:
			return f, nil
		case WeakMatch:
			weak = append(weak, f)
		}
	}
	if len(weak) == 1 {
		return weak[0], nil
	}
	return ambiguous(c, candidates, weak)
}

// ambiguous handles a call that matches several signatures weakly, or none. It returns the preferred signature for
// operators, and otherwise the error.
func ambiguous(c Call, candidates, weak []*Function) (*Function, error) {
	// Cassandra prefers, for an operator without markers, the signature whose operands have the required type.
	op, operator := operatorText(c.Name)
	if operator && len(weak) > 0 && len(c.Args) == 2 && c.Receiver != nil && !c.Args[0].IsMarker() &&
		!c.Args[1].IsMarker() {
		for _, f := range weak {
			if f.Args[0].Equal(c.Receiver) && f.Args[1].Equal(c.Receiver) {
				return f, nil
			}
		}
	}
	switch {
	case c.Trial:
		return nil, errNoSignature
	// The message names an operator by its symbol, without a list of signatures.
	case len(weak) == 0 && operator && len(c.Args) == 2:
		return nil, invalid.Errorf("the '%s' operation is not supported between %s and %s", op, c.Args[0], c.Args[1])
	case len(weak) == 0:
		return nil, invalid.Errorf("Invalid call to function %s, none of its type signatures match (known type "+
			"signatures: %s)",
			c.shown(), signatures(candidates))
	case operator && len(c.Args) == 2:
		return nil,
			invalid.Errorf("Ambiguous '%s' operation with args %s and %s: use type hint to disambiguate, example "+
				"'(int) ?'", op, c.Args[0], c.Args[1])
	}
	// Negation is the only operator with one argument.
	if operator {
		return nil, invalid.Errorf("Ambiguous negation: use type casts to disambiguate")
	}
	return nil, invalid.Errorf("Ambiguous call to function %s (can be matched by following signatures: %s): use type "+
		"casts to disambiguate",
		c.shown(), signatures(weak))
}

// matchArgs returns the match of the worst argument. A call without arguments is an exact match.
func matchArgs(f *Function, args []Arg) Match {
	if len(args) != len(f.Args) {
		return NoMatch
	}
	best := ExactMatch
	for i, a := range args {
		best = min(best, a.Match(f.Args[i]))
	}
	return best
}

// signatures returns the signatures for an error.
func signatures(fs []*Function) string {
	texts := make([]string, len(fs))
	for i, f := range fs {
		texts[i] = f.String()
	}
	return strings.Join(texts, ", ")
}

// operatorText returns the operator that a function implements. _substract is Cassandra's spelling.
func operatorText(name string) (string, bool) {
	switch name {
	case "_add":
		return "+", true
	case "_substract":
		return "-", true
	case "_multiply":
		return "*", true
	case "_divide":
		return "/", true
	case "_modulo":
		return "%", true
	case "_negate":
		return "-", true
	}
	return "", false
}

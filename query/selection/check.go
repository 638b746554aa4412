package selection

import "cqld/query/term"

// CheckValues returns the error of the first literal or bound value that is invalid in its place. As in Cassandra, it
// is an error even if no row is selected, so x needs no row.
func (s *Selection) CheckValues(x *Context) error {
	for _, check := range s.checks {
		if err := check(x); err != nil {
			return err
		}
	}
	return nil
}

// checkValue adds the check of a literal or bound value, checkKey of x[key], and checkLimits of x[from..to].
//
// The meaning of null and unset depends on the place (a null key is an error, an unset bound of a slice means
// unbounded), so each kind of place adds its own function.
func (b *compiler) checkValue(t *termSelector) {
	b.s.checks = append(b.s.checks, func(x *Context) error {
		_, err := t.Value(x)
		return err
	})
}

func (b *compiler) checkKey(key term.Term, of name) {
	b.s.checks = append(b.s.checks, func(x *Context) error {
		_, err := elementKey(x, key, of)
		return err
	})
}

func (b *compiler) checkLimits(s *sliceSelector) {
	b.s.checks = append(b.s.checks, func(x *Context) error {
		if _, err := s.limit(x, s.from); err != nil {
			return err
		}
		_, err := s.limit(x, s.to)
		return err
	})
}

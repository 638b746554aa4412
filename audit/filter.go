package audit

// set is a set of names. An empty one does not restrict.
type set map[string]struct{}

// newSet returns the set of names, or nil for an empty list.
func newSet(names []string) set {
	if len(names) == 0 {
		return nil
	}
	s := make(set, len(names))
	for _, name := range names {
		s[name] = struct{}{}
	}
	return s
}

// has reports whether a name is in the set; a nil set has none.
func (s set) has(name string) bool {
	_, ok := s[name]
	return ok
}

// pair restricts one property of entries: a value passes if it is not excluded, and if it is included or the list of
// included values is empty. As in Cassandra, an entry without the property passes only if nothing is included
// explicitly.
type pair struct{ included, excluded set }

func (p pair) passes(value string) bool {
	return !p.excluded.has(value) && (len(p.included) == 0 || p.included.has(value))
}

// filter determines which entries are written. It is immutable; a new configuration creates a new filter.
type filter struct {
	// An entry must pass all of these restrictions.
	keyspaces, users, roles pair
	// categories contains true for those that are written.
	categories [categories]bool
	// rolesOf returns the roles of a user, directly and indirectly; nil means that users have no further roles.
	rolesOf func(user string) []string
}

// newFilter returns the filter for valid settings. Categories become an array, because every entry is compared with
// them.
func newFilter(s *Settings, rolesOf func(user string) []string) *filter {
	f := &filter{
		keyspaces: pair{newSet(s.IncludedKeyspaces), newSet(s.ExcludedKeyspaces)},
		users:     pair{newSet(s.IncludedUsers), newSet(s.ExcludedUsers)},
		roles:     pair{newSet(s.IncludedRoles), newSet(s.ExcludedRoles)},
		rolesOf:   rolesOf,
	}
	// Without included categories all are written. Exclusion takes precedence over inclusion.
	for c := range f.categories {
		f.categories[c] = len(s.IncludedCategories) == 0
	}
	// Validate has rejected unknown names, so ok is always true.
	for _, name := range s.IncludedCategories {
		if c, ok := parseCategory(name); ok {
			f.categories[c] = true
		}
	}
	for _, name := range s.ExcludedCategories {
		if c, ok := parseCategory(name); ok {
			f.categories[c] = false
		}
	}
	return f
}

// passes reports whether an entry is written. The cheapest restriction comes first.
func (f *filter) passes(t Type, keyspace, user string) bool {
	return f.categories[t.Category()] && f.keyspaces.passes(keyspace) && f.users.passes(user) && f.passesRoles(user)
}

// passesRoles applies the restriction by roles. A user has the role of its own name. Exclusion by any role takes
// precedence over inclusion by another.
func (f *filter) passesRoles(user string) bool {
	// Most configurations name no roles, so the user's roles need no look-up.
	if f.roles.included == nil && f.roles.excluded == nil {
		return true
	}
	// Compare the user's own name before looking up other roles.
	included := len(f.roles.included) == 0 || f.roles.included.has(user)
	if f.roles.excluded.has(user) {
		return false
	}
	if f.rolesOf != nil && user != "" {
		for _, role := range f.rolesOf(user) {
			if f.roles.excluded.has(role) {
				return false
			}
			included = included || f.roles.included.has(role)
		}
	}
	return included
}

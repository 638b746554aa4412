package audit

// set is a set of names. An empty one does not restrict.
type set map[string]struct{}

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

func (s set) has(name string) bool {
	_, ok := s[name]
	return ok
}

// pair restricts one property of entries: a value passes if it is not excluded and, unless nothing is included
// explicitly, included. As in Cassandra, an entry without the property passes only if nothing is included explicitly.
type pair struct{ included, excluded set }

func (p pair) passes(value string) bool {
	return !p.excluded.has(value) && (len(p.included) == 0 || p.included.has(value))
}

// filter decides which entries are written.
type filter struct {
	keyspaces, users, roles pair
	categories              [categories]bool // those that are written
	rolesOf                 func(user string) []string
}

func newFilter(s *Settings, rolesOf func(user string) []string) *filter {
	f := &filter{
		keyspaces: pair{newSet(s.IncludedKeyspaces), newSet(s.ExcludedKeyspaces)},
		users:     pair{newSet(s.IncludedUsers), newSet(s.ExcludedUsers)},
		roles:     pair{newSet(s.IncludedRoles), newSet(s.ExcludedRoles)},
		rolesOf:   rolesOf,
	}
	for c := range f.categories {
		f.categories[c] = len(s.IncludedCategories) == 0
	}
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

func (f *filter) passes(t Type, keyspace, user string) bool {
	return f.categories[t.Category()] && f.keyspaces.passes(keyspace) && f.users.passes(user) && f.passesRoles(user)
}

// passesRoles applies the restriction by roles. A user has the role of its own name.
func (f *filter) passesRoles(user string) bool {
	if f.roles.included == nil && f.roles.excluded == nil {
		return true
	}
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

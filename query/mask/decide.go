package mask

import (
	"errors"
	"slices"
	"strings"

	"cqld/auth"
	"cqld/query/invalid"
	"cqld/schema"
)

// Decision determines, for one statement, which masks apply to a client and whether the client may execute it. It is
// immutable.
type Decision struct {
	// masks is not nil: tables without masks have no Decision.
	masks *Table
	table *schema.Table
	// restricted are the masked columns in WHERE or IF, in Cassandra's order.
	restricted []*schema.Column
}

// NewDecision returns the decision for a statement that restricts some columns of t, or nil if t has no masks. The
// order of restricted does not matter.
func NewDecision(masks *Table, t *schema.Table, restricted []*schema.Column) *Decision {
	if masks == nil {
		return nil
	}
	d := &Decision{masks: masks, table: t}
	for _, c := range inHashOrder(t.Columns()) {
		// Restrictions on unmasked columns reveal no masked value.
		if masks.Masks(c) && slices.Contains(restricted, c) {
			d.restricted = append(d.restricted, c)
		}
	}
	return d
}

// Masks returns the masks to be applied for a principal: none if it may see all values. authorize returns nil if the
// principal has a permission on a resource, and otherwise *auth.Denied. The error is *invalid.Unauthorized if the
// principal must not restrict the columns that the statement restricts. For a nil Decision (a table without masks),
// Masks returns nil and does not call authorize.
func (d *Decision) Masks(p auth.Principal, authorize func(auth.Requirement) error) (*Table, error) {
	if d == nil {
		return nil, nil
	}
	// A principal with UNMASK needs no other permission, so check it first.
	resource := auth.Table(d.table.Keyspace, d.table.Name)
	if ok, err := allowed(authorize(auth.Requirement{Permission: auth.Unmask, Resource: resource})); ok || err != nil {
		return nil, err
	}
	if len(d.restricted) > 0 {
		ok, err := allowed(authorize(auth.Requirement{Permission: auth.SelectMasked, Resource: resource}))
		if err != nil {
			return nil, err
		}
		if !ok {
			// Restricting a masked column would reveal its real values.
			return nil, d.denied(p)
		}
	}
	return d.masks, nil
}

// denied returns Cassandra's error for a principal that restricts masked columns without permission.
func (d *Decision) denied(p auth.Principal) error {
	names := make([]string, len(d.restricted))
	for i, c := range d.restricted {
		names[i] = c.Name
	}
	return invalid.Unauthorizedf("User %s has no UNMASK nor SELECT_MASKED permission on table %s.%s, cannot query "+
		"masked columns [%s]",
		p, d.table.Keyspace, d.table.Name, strings.Join(names, ", "))
}

// allowed converts the error of authorize: nil means allowed, and *auth.Denied means not allowed. It returns other
// errors, which mean that the permission could not be checked.
func allowed(err error) (bool, error) {
	var denied *auth.Denied
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &denied):
		return false, nil
	}
	return false, err
}

// inHashOrder returns columns in the order in which Cassandra lists them: the order of a Java HashMap by name, whose
// buckets depend on the number of columns. The messages of denied list columns in this order. Columns in the same
// bucket keep the order of the argument.
func inHashOrder(columns []*schema.Column) []*schema.Column {
	buckets := 16
	for len(columns) > buckets*3/4 {
		buckets *= 2
	}
	bucket := func(name string) int {
		// h is the hashCode of a ByteBuffer with the name, computed from the last byte to the first.
		h := int32(1)
		for i := len(name) - 1; i >= 0; i-- {
			h = 31*h + int32(int8(name[i])) //nolint:gosec // Java's bytes are signed
		}
		// HashMap mixes the upper half of the hash into the lower one before it chooses a bucket.
		u := uint32(h) //nolint:gosec // keep the bits
		return int(u^u>>16) & (buckets - 1)
	}
	out := slices.Clone(columns)
	slices.SortStableFunc(out, func(a, b *schema.Column) int { return bucket(a.Name) - bucket(b.Name) })
	return out
}

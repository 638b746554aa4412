package definition

import (
	"cqld/cql"
	"cqld/query/invalid"
	"cqld/query/mask"
	"cqld/schema"
	"cqld/types"
)

// mask returns the mask that MASKED WITH attaches to a column; m is nil if the statement has none. t is the column's
// type.
func (d *Definer) mask(keyspace, table, column string, t *types.Type, m *cql.Mask) (*schema.Mask, error) {
	if m == nil {
		return nil, nil
	}
	// Checked first: while masking is disabled, every mask has this error.
	if !d.Masking {
		return nil, errMaskingDisabled()
	}
	return (&mask.Definer{Compiler: d.compiler(keyspace), Table: table, Env: d.Env, Execute: d.Execute}).Define(column,
		t, m)
}

// errMaskingDisabled returns Cassandra's error. The option has the same name in cqld's configuration.
func errMaskingDisabled() error {
	return invalid.Errorf("Cannot mask columns because dynamic data masking is not enabled. " +
		"You can enable it with the dynamic_data_masking_enabled property on cassandra.yaml")
}

// alterMask defines ALTER c MASKED WITH and ALTER c DROP MASKED. A mask can be dropped while masking is disabled.
//
//	ALTER TABLE t ALTER c MASKED WITH mask_default()
//	ALTER TABLE t ALTER c DROP MASKED
func (d *Definer) alterMask(c *schema.AlterTable, t *schema.Table, a *cql.AlterColumnMask) error {
	// A nil Mask in the change removes the mask.
	c.Mask = &schema.MaskChange{Column: a.Column, IfExists: a.IfExists}
	if a.Mask != nil && !d.Masking {
		return errMaskingDisabled()
	}
	col := t.Column(a.Column)
	if col == nil {
		return nil // Apply returns this error
	}
	var err error
	c.Mask.Mask, err = d.mask(c.Keyspace, c.Table, a.Column, col.Type, a.Mask)
	return err
}

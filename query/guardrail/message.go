package guardrail

import "fmt"

// message returns the message for a number beyond a warning or failure threshold, in Cassandra's words. n is the
// number that exceeds bound, and what the subject: a table, column, keyspace or type. The messages do not follow one
// pattern, because they are Cassandra's.
func (t Threshold) message(warning bool, n, bound int64, what string) string {
	exceeds := "this exceeds the failure threshold of"
	if warning {
		exceeds = "this exceeds the warning threshold of"
	}
	// For some thresholds, the warning and the error differ in more than the word for the threshold.
	choose := func(warn, fail string) string {
		if warning {
			return warn
		}
		return fail
	}
	switch t {
	case CollectionSize:
		return fmt.Sprintf("Detected collection %s of size %d, %s %d.", what, n, exceeds, bound)
	case ItemsPerCollection:
		return fmt.Sprintf("Detected collection %s with %d items, %s %d.", what, n, exceeds, bound)
	case ColumnValueSize, SAIFrozenTermSize, SAIStringTermSize, SAIVectorTermSize:
		return fmt.Sprintf("Value of column '%s' has size %d, %s %d.", what, n, exceeds, bound)
	case VectorDimensions:
		return fmt.Sprintf("Column %s has a vector of %d dimensions, %s %d.", what, n, exceeds, bound)
	case ColumnsPerTable:
		return choose(fmt.Sprintf("The table %s has %d columns, %s %d.", what, n, exceeds, bound),
			fmt.Sprintf("Tables cannot have more than %d columns, but %d provided for table %s", bound, n, what))
	case FieldsPerUDT:
		return choose(fmt.Sprintf("The user type %s has %d columns, %s %d.", what, n, exceeds, bound),
			fmt.Sprintf("User types cannot have more than %d columns, but %d provided for user type %s.", bound, n,
				what))
	case Keyspaces:
		return choose(fmt.Sprintf("Creating keyspace %s, current number of keyspaces %d exceeds warning threshold "+
			"of %d.", what, n, bound),
			fmt.Sprintf("Cannot have more than %d keyspaces, aborting the creation of keyspace %s", bound, what))
	case MaterializedViewsPerTable:
		return choose(fmt.Sprintf("Creating materialized view %s, current number of views %d exceeds warning "+
			"threshold of %d.", what, n, bound),
			fmt.Sprintf("Tables cannot have more than %d materialized views, aborting the creation of materialized "+
				"view %s", bound, what))
	case Tables:
		return choose(fmt.Sprintf("Creating table %s, current number of tables %d exceeds warning threshold of %d.",
			what, n, bound),
			fmt.Sprintf("Cannot have more than %d tables, aborting the creation of table %s", bound, what))
	case MaximumReplicationFactor, MinimumReplicationFactor:
		side := "above"
		if t == MinimumReplicationFactor {
			side = "below"
		}
		return fmt.Sprintf("The keyspace %s has a replication factor of %d, %s the %s threshold of %d.", what, n, side,
			choose("warning", "failure"), bound)
	}
	return t.readMessage(warning, n, bound, what)
}

// readMessage is message for PageSize, PartitionKeysInSelect and InSelectProduct. It is separate only because of the
// length of message.
func (t Threshold) readMessage(warning bool, n, bound int64, what string) string {
	switch {
	case t == PageSize && warning:
		return fmt.Sprintf("Query for table %s with page size %d exceeds warning threshold of %d.", what, n, bound)
	case t == PageSize:
		return fmt.Sprintf("Aborting query for table %s, page size %d exceeds fail threshold of %d.", what, n, bound)
	case t == PartitionKeysInSelect && warning:
		return fmt.Sprintf("Query with partition keys in IN clause on table %s, with number of partition keys %d "+
			"exceeds warning threshold of %d.",
			what, n, bound)
	case t == PartitionKeysInSelect:
		return fmt.Sprintf("Aborting query with partition keys in IN clause on table %s, number of partition keys "+
			"%d exceeds fail threshold of %d.",
			what, n, bound)
	case warning:
		return fmt.Sprintf("The cartesian product of the IN restrictions on %s produces %d values, this exceeds "+
			"warning threshold of %d.", what, n, bound)
	}
	return fmt.Sprintf("Aborting query because the cartesian product of the IN restrictions on %s produces %d values, "+
		"this exceeds fail threshold of %d.", what, n, bound)
}

package coordinator

// filtered sets the command that replicas execute, after the plan has determined how many of them must answer. Only if
// one answer is enough, so that it is returned without a merge, does the replica evaluate the whole filter. Among
// several replicas, the newest version of a row may be one that does not match: a replica that omitted it would let an
// older version that matches win. There, replicas evaluate conditions on the primary key only, which is equal in all
// versions of a row. Digests, pages, continuations and repairs of the read then use the same command.
func (r *reading) filtered() {
	r.cmd = r.requested
	if r.cmd.Filter != nil {
		// The command belongs to the caller, which may repeat it with more memory, so a copy is changed.
		own := *r.requested
		_, blockFor := r.tally.Totals()
		// While the ring changes, replicas before and after the change must answer, and their answers are merged.
		decisive := blockFor == 1 && !r.tally.TwoSided()
		switch {
		case decisive:
			filter := *own.Filter
			filter.Decisive = true
			own.Filter = &filter
		default:
			own.Filter = own.Filter.KeyConditions()
		}
		r.cmd = &own
		// The resolver refers to the command.
		r.resolver = r.newResolver()
	}
	r.asked = r.cmd
}

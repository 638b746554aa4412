package resolve

import "cqld/row"

// Continuation returns the command that continues after end, where the answer to asked ended early; nil means that no
// rows can follow. It requests the missing rows, and at least twice as many as asked did, because too many of those
// were deleted, but then at most rowsMax.
func (s *Resolver) Continuation(end *Position, asked *row.ReadCommand, rowsMax uint32) *row.ReadCommand {
	// The continuation derives from the client's command, because asked starts at an earlier end and has other
	// limits.
	next := *s.cmd
	if n := s.cmd.Limits.Rows; n > 0 {
		next.Limits.Rows = max(n-s.counted, min(2*asked.Limits.Rows, rowsMax))
	}
	if !end.Whole {
		// The rest of the partition is read alone. Its end is followed by a command for the next partitions.
		if next.Slices = row.SlicesAfter(s.cmd.Slices, end.Clustering, s.cmd.Reversed); len(next.Slices) > 0 {
			next.Key = end.Key
			if n := s.cmd.Limits.PerPartition; n > 0 {
				missing := n - liveRows(s.merged[len(s.merged)-1])
				next.Limits.PerPartition = max(missing, min(2*asked.Limits.PerPartition, rowsMax))
			}
			return &next
		}
		next.Slices = s.cmd.Slices
	}
	// No partition follows.
	if s.cmd.SinglePartition() {
		return nil
	}
	key := end.Key
	next.Range.After = &key
	if key.Token > next.Range.Tokens.Start {
		// The token is included: other keys may share it, and After excludes the earlier keys.
		next.Range.Tokens.Start = key.Token - 1
	}
	return &next
}
